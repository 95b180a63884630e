package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
)

// kind is what a command of a client does.
type kind int

const (
	place kind = iota
	query
	cancel
	create // an account, or shares for it
	retry  // of an order that has no answer
	repeat // of one that has
	other  // another order with the ref of one that was answered
	byRef  // a query by ref
	sweep  // a cancel-all or a cancel-after
)

// command is one element of a frame, and what its answer is about.
type command struct {
	kind  kind
	order *sentOrder // place, retry, repeat, other, byRef
	id    uint64     // query, cancel
}

// frame is what a client sends at once.
type frame struct {
	xml      []byte
	commands []command
	orders   []*sentOrder
	account  *sentAccount // of a create
}

const (
	// ReplyTimeout is how long an exchange that is up may take to answer.
	ReplyTimeout = 60 * time.Second

	// connectAgain is how long a client waits before it connects again.
	connectAgain = 2 * time.Millisecond

	priceMiddle = 100 * unit
	priceTick   = unit / 100
	priceSpread = 6  // ticks on either side of the middle
	sharesMax   = 20 // of one order
)

// client trades until it is told to stop, or the exchange is gone.
type client struct {
	r       *rand.Rand
	at      Target
	session *Session // whose market it is
	history *history
	mine    []own        // orders that were accepted in this round
	told    []*sentOrder // those of them that have a ref
	lost    []*sentOrder // that have a ref, and no answer since the connection was cut
	end     *Ending
}

// Ending says whether the exchange may end just now, and how.
type Ending struct {
	MayBeGone atomic.Bool
	InOrder   atomic.Bool // it was asked to end: it says so on every connection
	ComesBack atomic.Bool // at the same address, and clients go on there
	Full      atomic.Bool // it may refuse connections, so that clients keep theirs
}

// own is an order that a client may cancel.
type own struct {
	account string
	id      uint64
	sells   bool
}

// run connects and trades, again and again, until stop is closed. An end that
// the client did not bring about itself is a complaint unless the exchange may be
// gone; and if that ends in order, also one without a reason, on a connection
// that it has answered on.
func (c *client) run(stop <-chan struct{}) {
	for !closed(stop) {
		served := false
		conn, err := Dial(context.Background(), c.at)
		if err == nil {
			served, err = c.trade(conn.Raw(), stop)
			conn.Close()
		}
		switch {
		case err == nil || errors.Is(err, errCut):
		case c.end.InOrder.Load() && served && !errors.As(err, new(lastWordsError)):
			c.history.complain("an orderly stop ended a connection without a reason: %v", err)
			return
		case c.end.Full.Load(), c.end.MayBeGone.Load() && c.end.ComesBack.Load():
			time.Sleep(connectAgain)
		case c.end.MayBeGone.Load():
			return
		default:
			c.history.complain("a connection ended although the exchange is up: %v", err)
			return
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errCut says that the client itself broke the connection.
var errCut = errors.New("cut by the client")

// trade sends batches of frames and reads their replies. served reports whether one
// has come.
func (c *client) trade(conn net.Conn, stop <-chan struct{}) (served bool, err error) {
	replies := wire.NewFrameReader(conn, 64<<20)
	for !closed(stop) {
		frames := make([]*frame, 1+c.r.IntN(4))
		var bytes []byte
		for i := range frames {
			frames[i] = c.frame()
			bytes = wire.AppendFrame(bytes, frames[i].xml)
		}
		if err := conn.SetDeadline(time.Now().Add(c.at.patience())); err != nil {
			return served, err
		}
		switch cut := c.r.IntN(200); {
		case c.end.Full.Load():
		case cut == 0:
			return served, c.cutFrame(conn, bytes, frames)
		case cut == 1:
			_, err := conn.Write(bytes)
			c.unread(frames)
			c.count(func(n *Counts) { n.ConnectionsCut++ })
			return served, errors.Join(err, errCut)
		}
		begun := time.Now()
		if _, err := conn.Write(bytes); err != nil {
			return served, err
		}
		for i, f := range frames {
			if err := c.read(replies, f); err != nil {
				c.unread(frames[i:])
				return served, err
			}
			c.history.took(time.Since(begun))
			served = true
		}
	}
	return served, nil
}

// cutFrame sends all but the end of the last frame.
func (c *client) cutFrame(conn net.Conn, bytes []byte, frames []*frame) error {
	last := frames[len(frames)-1]
	c.history.mark(last, cutOff)
	c.unread(frames)
	c.count(func(n *Counts) { n.FramesCut++ })
	_, err := conn.Write(bytes[:len(bytes)-1-c.r.IntN(len(last.xml))])
	return errors.Join(err, errCut)
}

func (c *client) count(f func(*Counts)) {
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	f(&c.history.counts)
}

// read takes one reply.
func (c *client) read(replies *wire.FrameReader, f *frame) error {
	reply, err := replies.Next()
	if err != nil {
		return err
	}
	answers, err := wire.ParseReply(reply)
	if err != nil {
		c.history.complain("a malformed reply: %v: %s", err, reply)
		return err
	}
	if len(answers) == 1 {
		if err := lastWords(&answers[0]); err != nil {
			return err
		}
	}
	c.history.note(f, answers)
	for _, o := range f.orders {
		if o.fate == answered {
			c.mine = append(c.mine, own{o.account, cmp.Or(o.id, o.old), o.amount < 0})
			if o.ref != "" {
				c.told = append(c.told, o)
			}
		}
	}
	return nil
}

// lastWordsError is the reason for which an exchange closes a connection.
type lastWordsError string

func (e lastWordsError) Error() string { return "the exchange says: " + string(e) }

// lastWords returns a lastWordsError, nil if the answer is none. It is about no
// command: all that is sent here has attributes.
func lastWords(a *wire.Answer) error {
	if a.Kind != "error" || a.ID != "" || a.Sym != "" {
		return nil
	}
	return lastWordsError(a.Error)
}

// frame makes one at random.
func (c *client) frame() *frame {
	f := new(frame)
	if c.r.IntN(25) == 0 && !c.session.NoCreates {
		a := c.history.account(c.session.Symbols[c.r.IntN(len(c.session.Symbols))])
		f.account, f.commands = a, []command{{kind: create}, {kind: create}}
		f.xml = new(wire.Create).Account(wire.Account{ID: a.id, Balance: decimal(a.balance)}).
			Symbol(a.sym, wire.Placement{Account: a.id, Shares: decimal(a.shares)}).Append(nil)
		return f
	}
	account := c.session.accounts[c.r.IntN(len(c.session.accounts))]
	if c.r.IntN(2) == 0 {
		account = c.session.poor[c.r.IntN(len(c.session.poor))]
	}
	canceled := own{}
	if len(c.mine) > 0 && c.r.IntN(3) == 0 {
		at := c.r.IntN(len(c.mine))
		canceled = c.mine[at]
		c.mine[at] = c.mine[len(c.mine)-1]
		c.mine = c.mine[:len(c.mine)-1]
		account = canceled.account
	}
	var again *sentOrder
	if canceled.id == 0 {
		k := place
		if k, again = c.again(); again != nil {
			account = again.account
			f.commands = append(f.commands, command{kind: k, order: again})
		}
	}
	t := wire.NewTransactions(account)
	if again != nil {
		again.add(t)
	}
	for range 1 + c.r.IntN(3) {
		if id := c.history.someID(c.r.IntN); id > 0 && c.r.IntN(4) == 0 {
			f.commands = append(f.commands, command{kind: query, id: id})
			t.Query(fmt.Sprint(id))
			continue
		}
		o := c.order(account)
		f.orders = append(f.orders, o)
		f.commands = append(f.commands, command{kind: place, order: o})
		o.add(t)
	}
	c.mend(f, t, account, canceled)
	f.xml = t.Append(nil)
	return f
}

// mend adds to a frame what changes an order of this client, if there is one, or all of the frame's account.
func (c *client) mend(f *frame, t *wire.Transactions, account string, of own) {
	switch {
	case of.id > 0 && c.r.IntN(2) == 0:
		o := c.amend(of)
		f.orders, f.commands = append(f.orders, o), append(f.commands, command{kind: place, order: o})
		o.add(t)
	case of.id > 0:
		f.commands = append(f.commands, command{kind: cancel, id: of.id})
		t.Cancel(fmt.Sprint(of.id))
	case c.r.IntN(200) == 0:
		f.commands = append(f.commands, command{kind: sweep})
		t.Element("cancel-all", wire.Attr{Name: "sym", Value: c.session.Symbols[c.r.IntN(len(c.session.Symbols))]})
	case c.r.IntN(200) == 0:
		seconds := []string{"0", "86400", "1"}[c.r.IntN(3)]
		if !slices.Contains(c.session.poor, account) {
			seconds = "86400" // the orders of the linear symbol are canceled by nobody else
		}
		f.commands = append(f.commands, command{kind: sweep})
		t.Element("cancel-after", wire.Attr{Name: "seconds", Value: seconds})
	}
}

func (c *client) order(account string) *sentOrder {
	amount := int64(1 + c.r.IntN(sharesMax))
	if slices.Contains(c.session.poor, account) {
		amount = (amount + 3) / 4
	}
	if c.r.IntN(2) == 0 {
		amount = -amount
	}
	limit, said := c.limit(), drawn(c.r)
	if said.kind == "market" && c.r.IntN(3) > 0 {
		limit = 0
	}
	o := c.history.order(account, c.session.Symbols[c.r.IntN(len(c.session.Symbols))], amount, limit)
	o.instructions = said
	if c.r.IntN(3) > 0 {
		o.give()
	}
	return o
}

// limit returns one near the middle.
func (c *client) limit() int64 {
	return int64(priceMiddle + priceTick*(c.r.IntN(2*priceSpread+1)-priceSpread))
}

// Ask sends one frame on a connection of its own and returns the answers.
func Ask(ctx context.Context, at Target, xml []byte) ([]wire.Answer, error) {
	all, err := askAll(ctx, at, [][]byte{xml})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// askAtOnce is askAll over several connections at once, for what may have to come from Postgres: an order that was
// closed long ago takes more than a millisecond, and one connection waits for each.
func askAtOnce(ctx context.Context, at Target, frames [][]byte) ([][]wire.Answer, error) {
	each := max(1, (len(frames)+askersMax-1)/askersMax)
	parts := slices.Collect(slices.Chunk(frames, each))
	replies, failures := make([][][]wire.Answer, len(parts)), make([]error, len(parts))
	var asking sync.WaitGroup
	for i, part := range parts {
		asking.Go(func() { replies[i], failures[i] = askAll(ctx, at, part) })
	}
	asking.Wait()
	return slices.Concat(replies...), errors.Join(failures...)
}

// askAll sends frames one after another and returns the answers to each.
func askAll(ctx context.Context, at Target, frames [][]byte) ([][]wire.Answer, error) {
	conn, err := Dial(ctx, at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	all := make([][]wire.Answer, len(frames))
	for i, xml := range frames {
		if err := conn.SetDeadline(time.Now().Add(at.patience())); err != nil {
			return nil, err
		}
		conn.SendFrame(xml)
		if err := conn.Flush(); err != nil {
			return nil, err
		}
		reply, err := conn.NextReply()
		if err != nil {
			return nil, fmt.Errorf("check: no reply to %.200s: %w", xml, err)
		}
		if all[i], err = wire.ParseReply(reply); err != nil {
			return nil, fmt.Errorf("check: reply to %.200s: %w", xml, err)
		}
	}
	return all, nil
}

// Target is the exchange as one client reaches it.
type Target struct {
	Addr     string        // the first that is tried
	Others   []string      // of nodes of the same exchange: the first that takes a connection leads
	Token    string        // "" without --auth
	Patience time.Duration // longest that an answer may take before the client goes elsewhere; 0: ReplyTimeout
}

func (t *Target) patience() time.Duration { return cmp.Or(t.Patience, ReplyTimeout) }

// Dial connects to the exchange: to the first node that answers, if there are several.
func Dial(ctx context.Context, at Target) (*api.Conn, error) {
	addrs := strings.Join(append([]string{at.Addr}, at.Others...), ",")
	return api.DialConn(ctx, addrs, api.Options{DialTimeout: at.patience(), Token: at.Token, RetryTime: at.patience()})
}
