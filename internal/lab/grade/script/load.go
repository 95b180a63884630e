package script

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/lab/dialect"
)

// Bounds of the verb load.
const (
	loadConnections = 8
	loadSecondsMax  = 5
	loadPace        = 2 * time.Millisecond   // pause between a reply and the next order of a connection
	loadBackTime    = 20 * time.Second       // time for the restarted server to answer: it may accept earlier
	loadBackPause   = 100 * time.Millisecond // pause between two attempts
	loadAskTime     = 10 * time.Second       // time for the queries of all orders after that, newest first
	loadAskAtOnce   = 20                     // queries in one frame
	loadFailures    = 3                      // lost orders that are shown
)

// loadTrader is a connection of the verb load. It only buys or only sells, one share with each order.
type loadTrader struct {
	account, amount string
	orders          []loadOrder // answered orders, oldest first
	err             error
}

// loadOrder is an order that the server answered, and what the server reported about it.
type loadOrder struct {
	id        string
	sent, got string
	asked     bool  // the order was queried before the server was killed
	reported  bool  // the query was answered with <status>
	executed  int64 // shares executed, according to that <status>
}

// playLoad trades, kills the server, and queries every order that was answered.
func playLoad(ctx context.Context, p *play, s *Step) error {
	seconds, _ := strconv.Atoi(s.args[0]) // the parser has checked it
	setup, cancel := context.WithTimeout(ctx, p.left)
	defer cancel()
	sym, traders, err := p.loadTraders(setup)
	if err != nil {
		return err
	}
	if err := p.tradeUntilKilled(ctx, time.Duration(seconds)*time.Second, sym, traders); err != nil {
		return err
	}
	leaveOutTwice(traders)
	if !canAsk(traders) {
		return &skipped{"No order could be queried even before the server was killed; another case covers that."}
	}
	if err := p.back(ctx, traders[0].account); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, loadAskTime)
	defer cancel()
	return p.askLoad(asking, traders)
}

// back waits until the server answers a query of an account. The error is that of the last attempt.
func (p *play) back(ctx context.Context, account string) error {
	ctx, cancel := context.WithTimeout(ctx, loadBackTime)
	defer cancel()
	for {
		_, err := p.do(ctx, `<transactions id="`+account+`"><query id="1"/></transactions>`)
		if err == nil {
			return nil
		}
		p.close()
		if pause(ctx, loadBackPause) != nil {
			return err
		}
	}
}

// loadTraders opens the accounts, with cash and shares of a new symbol.
func (p *play) loadTraders(ctx context.Context) (sym string, traders []*loadTrader, err error) {
	sym = p.Symbol()
	var accounts, places strings.Builder
	for i := range loadConnections {
		t := &loadTrader{account: p.Account(), amount: "1"}
		if i%2 == 1 {
			t.amount = "-1"
		}
		traders = append(traders, t)
		fmt.Fprintf(&accounts, `<account id="%s" balance="1000000"/>`, t.account)
		fmt.Fprintf(&places, `<account id="%s">1000000</account>`, t.account)
	}
	doc := `<create>` + accounts.String() + `<symbol sym="` + sym + `">` + places.String() + `</symbol></create>`
	return sym, traders, p.ask(ctx, doc, strings.Repeat(`<created/>`, 2*loadConnections))
}

// leaveOutTwice drops orders that share their id with another order: a different case covers that.
func leaveOutTwice(traders []*loadTrader) {
	times := map[string]int{}
	for _, t := range traders {
		for _, o := range t.orders {
			times[o.id]++
		}
	}
	for _, t := range traders {
		t.orders = slices.DeleteFunc(t.orders, func(o loadOrder) bool { return times[o.id] > 1 })
	}
}

// canAsk reports whether the server, before it was killed, answered a query with a <status> or got no query.
func canAsk(traders []*loadTrader) bool {
	asked := false
	for _, t := range traders {
		for _, o := range t.orders {
			if o.reported {
				return true
			}
			asked = asked || o.asked
		}
	}
	return !asked
}

// tradeUntilKilled trades for d, and kills the server while the connections still trade. The error is a
// *wrong or a *dialect.Broken. All goroutines have ended when it returns.
func (p *play) tradeUntilKilled(ctx context.Context, d time.Duration, sym string, traders []*loadTrader) error {
	trading, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var killed atomic.Bool // once true, a connection may end without an error
	for _, t := range traders {
		running.Go(func() { t.run(trading, p, sym, &killed) })
	}
	err := pause(ctx, d)
	killed.Store(true)
	if err == nil {
		err = p.kill(ctx)
	}
	cancel()
	running.Wait()
	answered := 0
	for _, t := range traders {
		answered += len(t.orders)
		if err == nil && t.err != nil {
			err = t.err
		}
	}
	if err == nil && answered == 0 {
		err = wrongf("No order was accepted within %s.", d)
	}
	return err
}

// run sends orders until ctx or the connection ends. Each frame also queries the previous order. Errors do not
// count once the server may have been killed.
func (t *loadTrader) run(ctx context.Context, p *play, sym string, killed *atomic.Bool) {
	conn, err := p.dial(ctx)
	if err == nil {
		defer conn.Close()
	}
	for err == nil {
		if err = t.next(ctx, conn, sym); err == nil {
			err = pause(ctx, loadPace)
		}
	}
	if !killed.Load() {
		t.err = err
	}
}

// next sends an order, with a query of the previous order, and records the reply.
func (t *loadTrader) next(ctx context.Context, conn *dialect.Conn, sym string) error {
	doc, n, asks := fmt.Sprintf(`<order sym="%s" amount="%s" limit="10"/>`, sym, t.amount), len(t.orders), 1
	if n > 0 {
		asks++
		doc += fmt.Sprintf(`<query id="%s"/>`, quoted.Replace(t.orders[n-1].id))
	}
	doc = `<transactions id="` + t.account + `">` + doc + `</transactions>`
	reply, err := conn.Do(ctx, doc)
	if err != nil {
		return err
	}
	answers := answersOf(reply.Root)
	if len(answers) != asks || answers[0].Name != "opened" {
		return wrongf("An order that the account can afford must be accepted. The reply to %s is %s.", elide(doc, shownMax),
			show(reply.Root))
	}
	if len(answers) == 2 {
		before := &t.orders[n-1]
		before.asked, before.reported = true, answers[1].Name == "status"
		_, _, before.executed = parts(answers[1])
	}
	t.orders = append(t.orders, loadOrder{id: attribute(answers[0], "id"), sent: doc, got: reply.Raw})
	return nil
}

// tally counts the orders that were found and lost after the restart.
type tally struct{ there, lost int }

// askLoad queries the answered orders, the newest first, until ctx ends.
func (p *play) askLoad(ctx context.Context, traders []*loadTrader) error {
	var sum tally
	p.trace.reset()
	for more := true; more; {
		more = false
		for _, t := range traders {
			n := len(t.orders)
			some := t.orders[max(n-loadAskAtOnce, 0):]
			if t.orders = t.orders[:n-len(some)]; len(some) == 0 {
				continue
			}
			more = true
			err := p.askSome(ctx, t.account, some, &sum)
			if err != nil && ctx.Err() != nil && sum != (tally{}) {
				return sum.judge() // out of time, but some orders were queried
			}
			if err != nil {
				return err
			}
		}
	}
	return sum.judge()
}

// judge returns a *wrong if orders are lost.
func (a tally) judge() error {
	switch {
	case a.lost == 0:
		return nil
	case a.there == 0:
		return wrongf("After the server was killed and started again, none of the %s that it had accepted is there.",
			count(a.lost, "order"))
	}
	return wrongf("After the server was killed and started again, %d of %s that it had accepted are lost, or have lost "+
		"executions: what a reply says must be on stable storage before it is sent.", a.lost,
		count(a.there+a.lost, "order"))
}

// askSome queries orders of an account in one frame, counts them in sum, and shows the first lost ones.
func (p *play) askSome(ctx context.Context, account string, orders []loadOrder, sum *tally) error {
	var queries strings.Builder
	for _, o := range orders {
		fmt.Fprintf(&queries, `<query id="%s"/>`, quoted.Replace(o.id))
	}
	before := p.trace
	reply, err := p.do(ctx, `<transactions id="`+account+`">`+queries.String()+`</transactions>`)
	if err != nil {
		return err
	}
	p.trace = before // showLost shows one order at a time
	answers := answersOf(reply.Root)
	if len(answers) != len(orders) {
		return wrongf("The reply to a frame of %d queries has %s.", len(orders), count(len(answers), "answer"))
	}
	for i, o := range orders {
		_, _, executed := parts(answers[i])
		switch there := answers[i].Name == "status"; {
		case there && executed >= o.executed:
			sum.there++
		case !there && o.asked && !o.reported: // the server did not report the order before the kill either
		default:
			if sum.lost++; sum.lost <= loadFailures {
				p.showLost(account, o, answers[i])
			}
		}
	}
	return nil
}

// showLost adds to the trace an order that is missing or has lost executions.
func (p *play) showLost(account string, o loadOrder, answer *dialect.Element) {
	p.trace.got(1, p.trace.sent(1, "before it was killed", o.sent), o.got)
	turn := p.trace.sent(1, "after it was started again",
		fmt.Sprintf(`<transactions id="%s"><query id="%s"/></transactions>`, account, o.id))
	p.trace.got(1, turn, write(&dialect.Element{Name: "results", Children: []*dialect.Element{answer}}))
	wanted := fmt.Sprintf(`<results><status id="%s">…</status></results>`, o.id)
	if o.executed > 0 {
		wanted = fmt.Sprintf(`<results><status id="%s"><executed shares="%d" …/></status></results>`, o.id, o.executed)
	}
	p.trace.wanted(turn, wanted)
}
