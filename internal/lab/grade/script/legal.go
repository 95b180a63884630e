package script

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/dialect"
)

// Bounds of the verb legal. A history is short, so that its legality is decided quickly; several short ones find
// more faults than a long one.
const (
	legalRounds    = 3 // rounds, each with a new symbol
	legalOrderly   = 8 // rounds if one command follows another: a server that fails these is skipped
	legalTimePart  = 4 // no round begins after a quarter of the case's time
	legalCommands  = 8 // commands of each connection in a round
	legalSharesMax = 5
	legalMiddle    = 100
	legalSpread    = 1
	legalDecide    = 500 * time.Millisecond // time to decide a history; an undecided one passes
)

// market is one round: connections that trade one symbol, and their results.
type market struct {
	*play
	sym     string
	traders []*trader
	start   time.Time

	mu  sync.Mutex
	ids map[string]uint64 // by the server's order id, the number that the check uses
	all []command         // the answered commands, in the order of the answers
}

// trader is one connection, with an account that only buys or only sells.
type trader struct {
	n       int
	account string
	sells   bool
	r       *rand.Rand
	conn    *dialect.Conn
	own     []string // ids of its orders
	err     error    // why the trader stopped
}

// command is a command with its answer.
type command struct {
	audit.LegalOp
	id        string
	conn      int
	sent, got string
}

// playLegal plays several rounds.
func playLegal(ctx context.Context, p *play, s *Step) error {
	n, _ := strconv.Atoi(s.args[0]) // the parser has checked it
	rounds := legalRounds
	if p.orderly {
		rounds = legalOrderly
	}
	begun := time.Now()
	for round := range rounds {
		if round > 0 && time.Since(begun) > p.left/legalTimePart {
			return nil // the server is slow, and later steps need time too
		}
		p.trace.reset()
		if err := p.legal(ctx, n, uint64(round)); err != nil {
			return err
		}
	}
	return nil
}

// legal plays a round. The error is a *wrong or a *dialect.Broken.
func (p *play) legal(ctx context.Context, n int, round uint64) error {
	m := &market{play: p, sym: p.Symbol(), ids: map[string]uint64{}}
	if err := m.open(ctx, n, round); err != nil {
		return err
	}
	defer func() {
		for _, t := range m.traders {
			if t.conn != nil {
				t.conn.Close()
			}
		}
	}()
	for _, t := range m.traders {
		conn, err := p.dial(ctx)
		if err != nil {
			return err
		}
		t.conn = conn
	}
	m.start = time.Now()
	m.trade(ctx)
	for _, t := range m.traders {
		for _, id := range t.own {
			if t.err == nil {
				t.err = m.do(ctx, t, audit.LegalOp{}, id)
			}
		}
		if t.err != nil {
			m.show(nil)
			return t.err
		}
	}
	return m.judge()
}

// open opens the accounts in one frame. The accounts that sell get shares.
func (m *market) open(ctx context.Context, n int, round uint64) error {
	var accounts, places strings.Builder
	for i := range n {
		t := &trader{n: i + 1, account: m.Account(), sells: i%2 == 1, r: m.rng(round<<16 | uint64(i))}
		m.traders = append(m.traders, t)
		fmt.Fprintf(&accounts, `<account id="%s" balance="1000000"/>`, t.account)
		fmt.Fprintf(&places, `<account id="%s">10000</account>`, t.account)
	}
	return m.ask(ctx, `<create>`+accounts.String()+`<symbol sym="`+m.sym+`">`+places.String()+`</symbol></create>`,
		strings.Repeat(`<created/>`, 2*n))
}

// trade makes all traders send their commands: one after another if m.orderly, otherwise at once. All
// goroutines have ended when it returns.
func (m *market) trade(ctx context.Context) {
	if m.orderly {
		for range legalCommands {
			for _, t := range m.traders {
				if t.err == nil {
					t.err = m.next(ctx, t)
				}
			}
		}
		return
	}
	var running sync.WaitGroup
	begin := make(chan struct{})
	for _, t := range m.traders {
		running.Go(func() {
			<-begin
			for range legalCommands {
				if t.err = m.next(ctx, t); t.err != nil {
					return
				}
			}
		})
	}
	close(begin)
	running.Wait()
}

// next sends a trader's next command: mostly an order, otherwise a query or cancel of one of its own orders.
func (m *market) next(ctx context.Context, t *trader) error {
	what, op := t.r.IntN(10), audit.LegalOp{}
	amount, limit := int64(1+t.r.IntN(legalSharesMax)), int64(legalMiddle-legalSpread+t.r.IntN(2*legalSpread+1))
	if len(t.own) > 0 && what < 3 {
		op.Cancel = what > 0
		return m.do(ctx, t, op, t.own[t.r.IntN(len(t.own))])
	}
	if op.Amount, op.Limit = amount, limit; t.sells {
		op.Amount = -amount
	}
	return m.do(ctx, t, op, "")
}

// do sends a command and keeps its answer. id names the order to query or cancel.
func (m *market) do(ctx context.Context, t *trader, op audit.LegalOp, id string) error {
	c := command{LegalOp: op, id: id, conn: t.n}
	child, want := fmt.Sprintf(`<query id="%s"/>`, quoted.Replace(id)), "status"
	switch {
	case op.Amount != 0:
		child, want = fmt.Sprintf(`<order sym="%s" amount="%d" limit="%d"/>`, m.sym, op.Amount, op.Limit), "opened"
	case op.Cancel:
		child, want = fmt.Sprintf(`<cancel id="%s"/>`, quoted.Replace(id)), "canceled"
	}
	c.sent = `<transactions id="` + t.account + `">` + child + `</transactions>`
	c.Client, c.Sent = t.n, int64(time.Since(m.start))
	reply, err := t.conn.Do(ctx, c.sent)
	if err != nil {
		return err
	}
	c.Answered, c.got = int64(time.Since(m.start)), reply.Raw
	answers := answersOf(reply.Root)
	c.Refused = op.Cancel && len(answers) == 1 && answers[0].Name == "error"
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.all = append(m.all, c) }()
	switch {
	case len(answers) != 1 || answers[0].Name != want && !c.Refused:
		return wrongf("The reply to %s must be <%s>. It is %s.", child, want, show(reply.Root))
	case op.Amount != 0:
		c.id = attribute(answers[0], "id")
		if m.ids[c.id] > 0 {
			return wrongf("Two orders were given the same id, %s.", elide(c.id, 40))
		}
		m.ids[c.id] = uint64(len(m.ids) + 1)
		t.own = append(t.own, c.id)
	case !c.Refused:
		c.Open, c.Canceled, c.Executed = parts(answers[0])
	}
	c.ID = m.ids[c.id]
	return nil
}

// parts adds up the shares in a <status> or <canceled>. Shares that are not a whole number count as -1, which is never
// the right sum.
func parts(e *dialect.Element) (open, canceled, executed int64) {
	to := map[string]*int64{"open": &open, "canceled": &canceled, "executed": &executed}
	for _, child := range e.Children {
		sum := to[child.Name]
		if sum == nil {
			continue
		}
		n := number(attribute(child, "shares"))
		if n == nil || !n.IsInt() || !n.Num().IsInt64() {
			*sum = -1
			continue
		}
		*sum += n.Abs(n).Num().Int64()
	}
	return open, canceled, executed
}

// judge looks for answers that no order of the commands can explain. It first checks the final queries for
// failures that are easy to explain, then the whole history. The error is a *wrong.
func (m *market) judge() error {
	placed, last := map[string]command{}, map[string]command{}
	for _, c := range m.all {
		if c.Amount != 0 {
			placed[c.id] = c
		} else if !c.Cancel {
			last[c.id] = c
		}
	}
	bought, sold := int64(0), int64(0)
	var bid, ask *command // the best open orders
	for id, c := range last {
		o := placed[id]
		size := max(o.Amount, -o.Amount)
		if c.Open+c.Canceled+c.Executed != size {
			m.show([]string{id})
			return wrongf("Order %s, of %d shares, has %d open, %d canceled and %d executed: together they must be %[2]d.",
				elide(id, 40), size, c.Open, c.Canceled, c.Executed)
		}
		if o.Amount > 0 {
			bought += c.Executed
			if c.Open > 0 && (bid == nil || o.Limit > bid.Limit) {
				bid = &o
			}
		} else {
			sold += c.Executed
			if c.Open > 0 && (ask == nil || o.Limit < ask.Limit) {
				ask = &o
			}
		}
	}
	legal, known := audit.Legal(m.ops(), legalDecide)
	switch {
	case bought != sold:
		m.show(nil)
		return wrongf("%d shares were bought and %d sold: these numbers must be equal.", bought, sold)
	case bid != nil && ask != nil && bid.Limit >= ask.Limit:
		m.show([]string{bid.id, ask.id})
		return wrongf("A buy at %d and a sell at %d are both open at the end: they must have been executed with each other.",
			bid.Limit, ask.Limit)
	case known && !legal:
		m.show(nil)
		return wrongf("%s traded at the same moment. There must be a sequential order of their commands that "+
			"gives the same answers, but there is none. Two frames were processed at once without a lock, or a reply "+
			"was sent before its order was in the book.", count(len(m.traders), "connection"))
	}
	return nil
}

// ops returns the commands in the form of package audit.
func (m *market) ops() []audit.LegalOp {
	ops := make([]audit.LegalOp, len(m.all))
	for i, c := range m.all {
		ops[i] = c.LegalOp
	}
	return ops
}

// show adds the commands that name the orders ids to the trace, in the order of their answers. If ids is nil, it
// adds all commands.
func (m *market) show(ids []string) {
	for _, c := range m.all {
		if ids == nil || slices.Contains(ids, c.id) {
			m.trace.got(c.conn, m.trace.sent(c.conn, "", c.sent), c.got)
		}
	}
}
