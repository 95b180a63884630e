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

// kind is the kind of a client's command.
type kind int

const (
	place kind = iota
	query
	cancel
	create // open an account, or deposit shares for it
	retry  // send an unanswered order again
	repeat // send an answered order again
	other  // send another order with the ref of an answered one
	byRef  // query by ref
	sweep  // cancel-all or cancel-after
)

// command is one element of a frame, and the order that its answer is about.
type command struct {
	kind  kind
	order *sentOrder // set for place, retry, repeat, other, byRef
	id    uint64     // set for query, cancel
}

// frame is a frame with its commands.
type frame struct {
	xml      []byte
	commands []command
	orders   []*sentOrder
	account  *sentAccount // set if the frame contains a create
}

const (
	// ReplyTimeout is how long a running exchange may take to answer.
	ReplyTimeout = 60 * time.Second

	// connectAgain is how long a client waits before it reconnects.
	connectAgain = 2 * time.Millisecond

	priceMiddle = 100 * unit
	priceTick   = unit / 100
	priceSpread = 6  // in ticks on either side of the middle
	sharesMax   = 20 // largest amount of one order
)

// client trades until it is stopped, or the exchange is gone.
type client struct {
	r        *rand.Rand
	at       Target
	session  *Session // the session whose symbols it trades
	history  *knowledge
	mine     []own        // orders accepted in this round
	accepted []*sentOrder // accepted orders of this round that have a ref
	lost     []*sentOrder // orders with a ref that were unanswered when a connection was cut
	end      *Ending
}

// Ending says whether the exchange may end at this moment, and how. The session's owner sets it.
type Ending struct {
	MayBeGone atomic.Bool
	InOrder   atomic.Bool // the server was asked to stop, so it must give a reason on every connection
	ComesBack atomic.Bool // the server returns at the same address, so clients keep trying
	Full      atomic.Bool // the server may refuse connections, so clients do not cut theirs
}

// own is an order that the client may cancel or amend.
type own struct {
	account string
	id      uint64
	sells   bool
}

// run connects and trades, repeatedly, until stop is closed. A connection that ends and was not cut by the client
// is a complaint unless the exchange may be gone. During an orderly stop, a connection on which an answer has
// arrived must end with a reason.
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

// errCut means that the client itself cut the connection.
var errCut = errors.New("cut by the client")

// trade sends batches of frames and reads their replies. served reports whether a reply has arrived.
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

// cutFrame sends the batch without the end of its last frame.
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

// read reads one reply and records it.
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
	c.history.recordAnswers(f, answers)
	for _, o := range f.orders {
		if o.fate == answered {
			c.mine = append(c.mine, own{o.account, cmp.Or(o.id, o.old), o.amount < 0})
			if o.ref != "" {
				c.accepted = append(c.accepted, o)
			}
		}
	}
	return nil
}

// lastWordsError is the reason that the exchange gave for closing a connection.
type lastWordsError string

func (e lastWordsError) Error() string { return "the exchange says: " + string(e) }

// lastWords returns the reason for closing if a is one, else nil. An error without attributes is a
// reason: every request of a client has attributes, which its answer repeats.
func lastWords(a *wire.Answer) error {
	if a.Kind != "error" || a.ID != "" || a.Sym != "" {
		return nil
	}
	return lastWordsError(a.Error)
}

// frame makes a random frame.
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

// mend adds an amend of one of the client's orders, or a cancel-all or cancel-after of the frame's
// account.
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
			seconds = "86400" // no other client may cancel the linear symbol's orders
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

// limit returns a random limit near the middle.
func (c *client) limit() int64 {
	return int64(priceMiddle + priceTick*(c.r.IntN(2*priceSpread+1)-priceSpread))
}

// Ask sends one frame on a new connection and returns the answers.
func Ask(ctx context.Context, at Target, xml []byte) ([]wire.Answer, error) {
	all, err := askAll(ctx, at, [][]byte{xml})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// askAtOnce does the same as askAll over several connections, because a query of an order that closed long ago goes
// to Postgres, takes more than a millisecond, and delays the later queries on its connection.
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

// askAll sends frames one after another on one connection and returns the answers to each.
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

// Target is how a client reaches the exchange.
type Target struct {
	Addr     string        // tried first
	Others   []string      // other nodes of the same exchange; the first that accepts a connection leads
	Token    string        // "" without --auth
	Patience time.Duration // how long a client waits for an answer before it tries another node; 0 means ReplyTimeout
}

func (t *Target) patience() time.Duration { return cmp.Or(t.Patience, ReplyTimeout) }

// Dial connects to the exchange. If the target has several nodes, it connects to the first that answers.
func Dial(ctx context.Context, at Target) (*api.Conn, error) {
	addrs := strings.Join(append([]string{at.Addr}, at.Others...), ",")
	return api.DialConn(ctx, addrs, api.Options{DialTimeout: at.patience(), Token: at.Token, RetryTime: at.patience()})
}
