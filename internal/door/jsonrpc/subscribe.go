package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// mayHear returns a fault if the client may not read one of the channels in a request, or if the server has no
// accounts at present.
func (c *conn) mayHear(k *call) *fault {
	for i := range k.args.channels {
		of := &k.args.channels[i]
		if !of.kind.private {
			if f := c.mayRead(); f != nil {
				return f
			}
			continue
		}
		if f := c.mayActFor(of.account); f != nil {
			return f
		}
		if f := c.door.ready(); f != nil {
			return f
		}
	}
	return nil
}

// answerSubscribe adds subscriptions. Their first messages are encoded when they are sent, after the result.
func (c *conn) answerSubscribe(ctx context.Context, k *call, _ []byte) ([]byte, error) {
	if f := c.roomFor(k.args.channels); f != nil {
		return nil, f
	}
	var what sees
	for i := range k.args.channels {
		what |= k.args.channels[i].kind.sees
	}
	if err := c.await(ctx, k, what); err != nil {
		return nil, err
	}
	for i := range k.args.channels {
		if err := c.door.exists(&k.args.channels[i]); err != nil {
			return nil, err
		}
	}
	for _, old := range c.takeSubs(k.args.names) {
		old.leave()
	}
	readers := make([]*reader, 0, len(k.args.channels))
	for i := range k.args.channels {
		readers = append(readers, c.newReader(k, &k.args.channels[i]))
	}
	c.addSubs(readers)
	b := c.memberChannels(c.seq(beginResult(nil, k.id), 0, k.mark.Seq))
	if err := c.socket.Answer(websocket.NewFrame(endResult(b))); err != nil {
		return nil, err
	}
	for _, r := range readers {
		r.slot.Set()
	}
	c.socket.Flush()
	return nil, nil
}

func (c *conn) answerUnsubscribe(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, 0); err != nil {
		return nil, err
	}
	for _, name := range k.args.names {
		if c.subs[name] == nil {
			return nil, wrong(unknownChannel, "channel "+jsontext.Quote(name)+" is not on")
		}
	}
	for _, r := range c.takeSubs(k.args.names) {
		r.leave()
	}
	return c.memberChannels(c.seq(b, 0, k.mark.Seq)), nil
}

// roomFor returns a fault if a connection has no room for further subscriptions.
func (c *conn) roomFor(channels []channel) *fault {
	n := len(c.subs)
	for i := range channels {
		if c.subs[channels[i].name] == nil {
			n++
		}
	}
	if n > subscriptionsMax {
		return wrong(tooManySubscriptions, fmt.Sprintf("a connection has at most %d subscriptions", subscriptionsMax))
	}
	return nil
}

// memberChannels appends the channels of the connection's subscriptions.
func (c *conn) memberChannels(b []byte) []byte {
	names := make([]string, 0, len(c.subs))
	for name := range c.subs {
		names = append(names, name)
	}
	slices.Sort(names)
	return jsontext.Words(b, "channels", names)
}

// addSubs adds subscriptions.
func (c *conn) addSubs(readers []*reader) {
	c.subsMu.Lock()
	defer c.subsMu.Unlock()
	for _, r := range readers {
		c.subs[r.channel.name] = r
		if r.channel.kind.strict {
			c.strict.Add(1)
		}
	}
}

// takeSubs removes and returns the subscriptions with the given names; nil means all. Callers then call each one's
// leave.
func (c *conn) takeSubs(names []string) (taken []*reader) {
	c.subsMu.Lock()
	defer c.subsMu.Unlock()
	for name, r := range c.subs {
		if names == nil || slices.Contains(names, name) {
			delete(c.subs, name)
			taken = append(taken, r)
			if r.channel.kind.strict {
				c.strict.Add(-1)
			}
		}
	}
	return taken
}

// slow returns the reason of a cut. For each channel that must not miss anything, it names the last message sent.
func (c *conn) slow() string {
	c.subsMu.Lock()
	defer c.subsMu.Unlock()
	var ends []string
	for name, r := range c.subs {
		if unit := r.channel.kind.unit; unit != "" {
			ends = append(ends, fmt.Sprintf("%s was sent up to %s %d", name, unit, r.progress.Sent()))
		}
	}
	slices.Sort(ends) // accounts first
	return "too slow: " + strings.Join(ends, ", ")
}

// exists returns a fault if there is no such symbol or account.
func (d *Door) exists(c *channel) error {
	if !c.kind.private {
		return d.look(c.sym, func(*market.Market) {})
	}
	_, _, _, err := d.view().OpenOrders(c.account, "", math.MaxInt64, 1)
	return accountFault(err, &args{Command: exchange.Command{Account: c.account}})
}

// reader is a connection's subscription to a channel.
type reader struct {
	conn     *conn
	channel  channel
	after    uint64 // for the channel of an account: newest event that the client has, if hasAfter
	hasAfter bool
	slot     *websocket.Slot
	progress websocket.Progress

	// Only the goroutine that sends uses the fields below.
	giving parts  // messages that the slot is returning
	gather func() // sets giving to the messages that wait; nil if every message is pushed

	// Guarded by the topic's lock.
	behind *fanout.Merge // for the channel of a book: changes that wait to be sent; nil if there are none
	newest newest        // for a ticker or candles: the message that waits to be sent

	mu     sync.Mutex // guards the fields below; held while the reader is opened
	opened bool
	left   bool
	stop   func() // ends the messages; nil before the reader is opened
}

// newReader returns a reader. It is opened when its slot is sent for the first time.
func (c *conn) newReader(k *call, of *channel) *reader {
	r := &reader{conn: c, channel: *of}
	if of.kind.private {
		r.after, r.hasAfter = k.args.after, k.args.hasAfter
		r.progress.Reset(r.after)
	}
	r.slot = c.socket.NewSlot(r.next)
	return r
}

// next returns the next frame of the slot.
func (r *reader) next() (websocket.Frame, bool) {
	if f, ok := r.give(); ok {
		return f, true
	}
	if !r.begin() {
		return websocket.Frame{}, false
	}
	return r.give()
}

// begin sets the messages that the slot returns next. It reports false if there are none.
func (r *reader) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.left:
		return false
	case !r.opened:
		r.opened = true
		stop, err := r.channel.kind.open(r)
		if err != nil {
			r.conn.socket.Close(websocket.CodeGoingAway, "channel "+r.channel.name+" has ended")
			return false
		}
		r.stop = stop
	case r.gather != nil:
		r.gather()
	}
	return true
}

// give returns the next message of giving.
func (r *reader) give() (websocket.Frame, bool) {
	if r.giving.encode == nil {
		return websocket.Frame{}, false
	}
	text, ok := r.giving.next(nil)
	if !ok {
		r.giving = parts{}
		return websocket.Frame{}, false
	}
	return websocket.NewFrame(text), true
}

// leave ends a subscription. Once it has returned, no further message is queued.
func (r *reader) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left && r.stop != nil {
		r.stop()
	}
	r.left = true
}

// push queues the frames of one message. Once the last frame is sent, progress is n.
func (r *reader) push(frames []websocket.Frame, n uint64) {
	for i, f := range frames {
		progress := &r.progress
		if i+1 < len(frames) {
			progress = nil
		}
		r.conn.socket.Push(f, progress, n)
	}
}

// framesOf returns the messages of parts as frames.
func framesOf(p parts) (frames []websocket.Frame) {
	var b []byte
	for {
		var ok bool
		if b, ok = p.next(b[:0]); !ok {
			return frames
		}
		frames = append(frames, websocket.NewFrame(b))
	}
}

// accountFault maps an error of the view to a fault, nil to nil.
func accountFault(err error, a *args) error {
	r := exchange.Result{Reason: exchange.ViewUnavailable}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, accounts.ErrUnknownAccount):
		r.Reason = exchange.UnknownAccount
	case errors.Is(err, accounts.ErrUnknownSymbol):
		r.Reason = exchange.UnknownSymbol
	}
	return refused(r.Reason, r.Text(&a.Command))
}
