package jsonrpc

import (
	"strconv"
	"sync"

	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// viewEnded closes the connection, because the view of accounts has ended.
func (r *reader) viewEnded() {
	r.conn.socket.Close(websocket.CodeGoingAway, "the view of accounts has ended")
}

func (r *reader) openAccount() (stop func(), err error) {
	return r.conn.door.view().Subscribe(r.channel.account, r.after, r.hasAfter, (*accountReader)(r), r.beginAccount)
}

// beginAccount sets the first messages: the present state of an account or, if snap is nil, the missed events.
func (r *reader) beginAccount(snap *accounts.Snapshot, missed []*exchange.AccountEvent) {
	n := r.after
	switch {
	case snap != nil:
		n = snap.N
	case len(missed) > 0:
		n = missed[len(missed)-1].N
	}
	switch {
	case !r.conn.socket.Advance(&r.progress, n):
	case snap == nil:
		r.giving = eventsParts(r.channel.name, missed)
	default:
		r.giving = snapshotParts(r.channel.name, snap)
	}
}

// accountReader is a reader of an account's channel. It listens to the view.
type accountReader reader

// Event implements accounts.Listener.
func (a *accountReader) Event(e *exchange.AccountEvent) {
	r := (*reader)(a)
	r.push(r.conn.door.events.frames(r.channel.name, e, eventParts), e.N)
}

// Flush implements accounts.Listener.
func (a *accountReader) Flush() { a.conn.socket.Flush() }

// End implements accounts.Listener.
func (a *accountReader) End(error) { (*reader)(a).viewEnded() }

// madeOnce has the messages of the newest event or change. The view passes it to all listeners before the next one.
type madeOnce[T any] struct {
	mu   sync.Mutex // guards the fields below
	of   *T
	made []websocket.Frame
}

// frames returns the messages of an event of a channel. It calls encode only once for each event.
func (c *madeOnce[T]) frames(channel string, of *T, encode func(channel string, of *T) parts) []websocket.Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != of {
		c.of, c.made = of, framesOf(encode(channel, of))
	}
	return c.made
}

// eventParts returns the messages of an event.
func eventParts(channel string, e *exchange.AccountEvent) parts {
	return parts{entries: len(e.Positions) + len(e.Orders) + len(e.Fills),
		encode: func(b []byte, c *cut, more bool) []byte {
			b = jsontext.Number(jsontext.Number(beginEvent(b, channel, kindEvent), "n", e.N), "seq", e.Seq)
			b = jsontext.Decimal(jsontext.Decimal(b, "balance", e.Balance), "held", e.Held)
			from, to := c.of(len(e.Positions))
			b = memberPositions(b, e.Positions[from:to])
			from, to = c.of(len(e.Orders))
			b = jsontext.List(jsontext.Name(b, "orders"), e.Orders[from:to], func(b []byte, o *exchange.OrderChange) []byte {
				return append(appendOrder(b, &o.OrderDetail), '}')
			})
			from, to = c.of(len(e.Fills))
			b = memberFills(b, e.Fills[from:to])
			return endEvent(memberMore(memberTime(b, "time", e.Time), more))
		}}
}

// eventsParts returns the messages of several events in a row.
func eventsParts(channel string, events []*exchange.AccountEvent) parts {
	if len(events) == 0 {
		return parts{}
	}
	var one parts
	at, total := 0, 0
	for _, e := range events {
		one = eventParts(channel, e)
		total += max(1, (one.entries+entriesMax-1)/entriesMax)
	}
	one = eventParts(channel, events[0])
	return parts{entries: total * entriesMax, encode: func(b []byte, _ *cut, _ bool) []byte {
		for {
			before := len(b)
			if b, _ = one.next(b); len(b) > before {
				return b
			}
			at++
			one = eventParts(channel, events[at])
		}
	}}
}

// snapshotParts returns the messages with the present state of an account.
func snapshotParts(channel string, s *accounts.Snapshot) parts {
	return parts{entries: len(s.Positions) + len(s.Orders), encode: func(b []byte, c *cut, more bool) []byte {
		b = jsontext.Number(jsontext.Number(beginEvent(b, channel, kindSnapshot), "seq", s.Seq), "n", s.N)
		b = jsontext.Decimal(jsontext.Number(b, "last_fill", s.LastFill), "balance", s.Balance)
		b = jsontext.Decimal(b, "held", s.Held)
		from, to := c.of(len(s.Positions))
		b = memberPositions(b, s.Positions[from:to])
		from, to = c.of(len(s.Orders))
		return endEvent(memberMore(memberOrders(b, s.Orders[from:to]), more))
	}}
}

func (r *reader) openOrders() (stop func(), err error) {
	return r.conn.door.view().ListenOrders(r.channel.sym, (*ordersReader)(r), func(s *accounts.OrdersSnapshot) {
		if r.conn.socket.Advance(&r.progress, s.Seq) {
			r.giving = ordersParts(r.channel.name, s)
		}
	})
}

// ordersReader is a reader of the channel with the orders of a symbol. It listens to the view.
type ordersReader reader

// Orders implements accounts.OrdersListener.
func (o *ordersReader) Orders(c *accounts.OrdersChange) {
	r := (*reader)(o)
	r.push(r.conn.door.orders.frames(r.channel.name, c, changeParts), c.Seq)
}

// Flush implements accounts.OrdersListener.
func (o *ordersReader) Flush() { o.conn.socket.FlushSoon() }

// End implements accounts.OrdersListener.
func (o *ordersReader) End(error) { (*reader)(o).viewEnded() }

// changeParts returns the messages of a change of the resting orders.
func changeParts(channel string, o *accounts.OrdersChange) parts {
	return parts{entries: len(o.Ops), encode: func(b []byte, c *cut, more bool) []byte {
		b = jsontext.Number(jsontext.Number(beginEvent(b, channel, kindDelta), "prev", o.Prev), "seq", o.Seq)
		from, to := c.of(len(o.Ops))
		b = jsontext.List(jsontext.Name(b, "changes"), o.Ops[from:to], appendOp)
		return endEvent(memberMore(memberTime(b, "time", o.Time), more))
	}}
}

// appendOp appends a change of one order.
func appendOp(b []byte, o *accounts.OrderOp) []byte {
	b = jsontext.Number(jsontext.Word(append(b, '{'), "op", o.Kind.String()), "id", o.Order)
	switch o.Kind {
	case accounts.OpReplace:
		b = jsontext.Number(b, "by", o.By)
	case accounts.OpFill:
		b = jsontext.Number(b, "trade", o.Trade)
		b = jsontext.Decimal(jsontext.Decimal(b, "shares", o.Shares), "open", o.Open)
	case accounts.OpReduce:
		b = jsontext.Decimal(jsontext.Decimal(b, "shares", o.Shares), "open", o.Open)
	case accounts.OpAdd:
		b = jsontext.Word(b, "side", o.Side.String())
		b = jsontext.Decimal(jsontext.Decimal(b, "price", o.Price), "shares", o.Shares)
	case accounts.OpDelete:
	}
	return append(b, '}')
}

// ordersParts returns the messages with all resting orders.
func ordersParts(channel string, s *accounts.OrdersSnapshot) parts {
	side := func(b []byte, name string, all []accounts.RestingOrder, c *cut) []byte {
		from, to := c.of(len(all))
		return jsontext.List(jsontext.Name(b, name), all[from:to], func(b []byte, o *accounts.RestingOrder) []byte {
			b = strconv.AppendUint(append(b, '['), uint64(o.ID), 10)
			b = jsontext.AppendDecimal(append(b, ','), o.Price)
			return append(jsontext.AppendDecimal(append(b, ','), o.Shares), ']')
		})
	}
	return parts{entries: len(s.Bids) + len(s.Asks), encode: func(b []byte, c *cut, more bool) []byte {
		b = jsontext.Number(beginEvent(b, channel, kindSnapshot), "seq", s.Seq)
		return endEvent(memberMore(side(side(b, "bids", s.Bids, c), "asks", s.Asks, c), more))
	}}
}
