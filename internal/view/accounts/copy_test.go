package accounts

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// churn makes records of account 1, which places, amends and cancels orders, and of account 2, which executes them.
type churn struct {
	r    *rand.Rand
	open []exchange.Event // orders of account 1, as they are open
	id   int
}

// place returns the record of a new order of account 1.
func (c *churn) place() exchange.Event {
	c.id++
	c.open = append(c.open, placed(c.id, 1, c.id%2, exchange.Sell, 1000))
	return c.open[len(c.open)-1]
}

// next returns a record.
func (c *churn) next() exchange.Event {
	i := c.r.IntN(len(c.open))
	o := &c.open[i]
	switch c.r.IntN(5) {
	case 0:
		return c.place()
	case 1: // the amend only uses a ref
		e := *o
		e.Kind, e.Ref, e.Shares = exchange.OrderReduced, exchange.Ref(accountOf(c.id)), 0
		e.Amend = &exchange.Amendment{First: o.Order, Amount: o.Shares, Open: o.Shares}
		return e
	case 2:
		c.id++
		o.Shares--
		return taken(c.id, 2, int(o.Order)%2, 1, int(o.Order))
	case 3:
		e := *o
		e.Kind, e.Shares, o.Shares = exchange.OrderReduced, 1, o.Shares-1
		e.Amend = &exchange.Amendment{First: o.Order, Amount: o.Shares, Open: o.Shares}
		return e
	}
	return c.cancel(o.Order)
}

// cancel returns the record of the cancel of an order.
func (c *churn) cancel(id exchange.OrderID) exchange.Event {
	i := slices.IndexFunc(c.open, func(e exchange.Event) bool { return e.Order == id })
	e := c.open[i]
	e.Kind = exchange.OrderCanceled
	c.open = slices.Delete(c.open, i, i+1)
	return e
}

// TestWhatIsCopiedInPartsIsAsOfOneRecord changes the orders of an account between the parts, before and after the
// orders that are copied so far. The copy is what a snapshot in one piece has, and the same holds for the resting
// orders of a symbol. No part has more than partMax orders.
func TestWhatIsCopiedInPartsIsAsOfOneRecord(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c, m := &churn{r: rand.New(rand.NewPCG(seed, 0))}, new(memory)
	crowd(m, 2, 2)
	for range 4 * partMax {
		m.add(c.place())
	}
	v := newView(m, nil)
	take(t, v)
	for range 5 {
		h := new(heard)
		_, missed, w := v.subscribe("1", 0, false)
		require.Nil(t, missed)
		r := &reader[*exchange.AccountEvent]{tell: h.Event, flush: h.Flush, end: h.End, waits: true,
			copies: true}
		w.readers = append(w.readers, r)
		var copied copied
		market := &v.markets[v.symbols["SYM0"]]
		market.resting = newResting(&market.open)
		for more := true; more || market.resting.next != 0; {
			if before := len(copied.orders); more {
				more = copied.add(v, v.accounts["1"])
				require.LessOrEqual(t, len(copied.orders)-before, partMax)
				if !more {
					orders, _ := copied.after(r.waiting)
					require.Equal(t, v.snapshot(v.accounts["1"]).Orders, orders)
				}
			}
			market.resting.gather(&v.open, partMax/4)
			if next := market.resting.next; next != 0 {
				m.add(c.cancel(v.open.at(next).id))
			}
			for range 300 {
				m.add(c.next())
			}
			take(t, v)
		}
		requireRests(t, v, v.symbols["SYM0"])
		requireFits(t, v)
		w.remove(r)
		require.Empty(t, h.events)
	}
	// The order to gather next moves in memory, because most orders are canceled.
	market := &v.markets[v.symbols["SYM0"]]
	market.resting = newResting(&market.open)
	n, at, highest := 0, 0, place(0)
	for p := market.open.oldest; p != 0; p = v.open.at(p).newer {
		if n++; p > highest {
			at, highest = n-1, p
		}
	}
	market.resting.gather(&v.open, at)
	next, id := market.resting.next, v.open.at(highest).id
	require.Equal(t, highest, next)
	for _, o := range slices.Clone(c.open) {
		if o.Order != id && o.Order%100 != 0 {
			m.add(c.cancel(o.Order))
		}
	}
	take(t, v)
	require.NotEqual(t, next, market.resting.next)
	market.resting.gather(&v.open, partMax)
	requireRests(t, v, v.symbols["SYM0"])
}

// TestPositionsAreCopiedInParts changes the positions of an account between the parts: some begin, some change, some
// end. Together with the orders, no part has more than partMax.
func TestPositionsAreCopiedInParts(t *testing.T) {
	const symbols = 3 * partMax
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r, m := rand.New(rand.NewPCG(seed, 0)), new(memory)
	crowd(m, 2, 0)
	for s := range symbols {
		m.add(exchange.Event{Kind: exchange.SymbolMade, Symbol: symbolOf(s)})
	}
	has, id := make(map[int]bool), 0
	change := func() {
		s := r.IntN(symbols)
		if !has[s] || r.IntN(2) == 0 {
			m.add(exchange.Event{Kind: exchange.SharesDeposited, Account: "1", Symbol: symbolOf(s),
				Deposited: exchange.Shares(1).Position()})
			if has[s] { // sell it again, so that each position has one share
				id += 2
				m.add(placed(id, 1, s, exchange.Sell, 1), taken(id+1, 2, s, 1, id))
			}
			has[s] = true
			return
		}
		id += 2
		m.add(placed(id, 1, s, exchange.Sell, 1), taken(id+1, 2, s, 1, id))
		has[s] = false
	}
	for range symbols {
		change()
	}
	for range partMax / 2 { // their number stays
		id++
		m.add(placed(id, 2, 0, exchange.Buy, 1))
	}
	v := newView(m, nil)
	take(t, v)
	for _, account := range []exchange.AccountID{"1", "2"} {
		h, a := new(heard), v.accounts[account]
		_, _, w := v.subscribe(account, 0, false)
		reader := &reader[*exchange.AccountEvent]{tell: h.Event, waits: true, copies: true}
		w.readers = append(w.readers, reader)
		c, parts := newCopied(a), 1
		for before := 0; c.add(v, a); parts++ {
			require.LessOrEqual(t, len(c.orders)+len(c.positions)-before, partMax)
			before = len(c.orders) + len(c.positions)
			for range partMax / 2 {
				change()
			}
			take(t, v)
		}
		require.Greater(t, parts, 1)
		want := v.snapshot(a)
		orders, positions := c.after(reader.waiting)
		require.Equal(t, want.Orders, orders)
		require.Equal(t, want.Positions, positions)
		w.remove(reader)
	}
}

// TestRestingOrdersAreCopiedInParts changes the resting orders of a symbol between the parts, on both sides, before and
// after what is copied so far. The copy is as of one record, and no part has more than partMax orders.
func TestRestingOrdersAreCopiedInParts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r, m := rand.New(rand.NewPCG(seed, 0)), new(memory)
	crowd(m, 2, 1)
	var open []exchange.Event
	id := 0
	place := func() {
		id++
		e := placed(id, 1, 0, exchange.Buy, 10)
		if e.Limit = exchange.Price(1 + r.IntN(40)); r.IntN(2) == 0 {
			e.Side, e.Limit = exchange.Sell, e.Limit+40
		}
		open = append(open, e)
		m.add(e)
	}
	change := func() {
		i := r.IntN(len(open))
		o := &open[i]
		gone := false
		switch kind := r.IntN(4); {
		case kind == 0 || o.Shares < 2:
			e := *o
			e.Kind, gone = exchange.OrderCanceled, true
			m.add(e)
		case kind == 1 && o.Side == exchange.Sell:
			id++
			o.Shares--
			m.add(taken(id, 2, 0, 1, int(o.Order)))
		case kind == 2:
			e := *o
			e.Kind, e.Shares, o.Shares = exchange.OrderReduced, 1, o.Shares-1
			e.Amend = &exchange.Amendment{First: o.Order, Amount: o.Shares, Open: o.Shares}
			m.add(e)
		default:
			place()
		}
		if gone {
			open = slices.Delete(open, i, i+1)
		}
	}
	for range 5 * partMax {
		place()
	}
	v := newView(m, nil)
	take(t, v)
	for more := true; more; {
		var err error
		if more, err = v.gather("SYM0"); err == nil && !more {
			v.feeding.Unlock()
		}
	}
	b := v.markets[0].resting
	for range 5 {
		reader := &reader[*OrdersChange]{waits: true}
		b.readers = append(b.readers, reader)
		c, before, parts := new(copiedOrders), 0, 1
		for ; c.add(b); parts++ {
			require.LessOrEqual(t, len(c.bids)+len(c.asks)-before, partMax)
			before = len(c.bids) + len(c.asks)
			for range partMax / 2 {
				change()
			}
			take(t, v)
		}
		require.Greater(t, parts, 4)
		bids, asks := c.after(reader.waiting)
		require.Equal(t, b.bids.snapshot(), bids)
		require.Equal(t, b.asks.snapshot(), asks)
		b.remove(reader)
	}
}

// TestAPanicOfASubscriberEndsItAlone: the panic of a goroutine that copies, or that begins to listen, unlocks the view
// and leaves no listener in it.
func TestAPanicOfASubscriberEndsItAlone(t *testing.T) {
	v, m := newWatched(t)
	require.Panics(t, func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		_, _ = v.copyInParts(v.accounts["1"], &reader[*exchange.AccountEvent]{waiting: []*exchange.AccountEvent{nil}})
	})
	require.Panics(t, func() { _, _ = v.Subscribe("1", 0, false, new(heard), nil) })
	require.Panics(t, func() { _, _ = v.ListenOrders("SYM0", silent{}, nil) })
	require.Empty(t, v.accounts["1"].watch.readers)
	require.Empty(t, v.markets[0].resting.readers)
	require.Zero(t, v.listening.Load())
	m.add(placed(1, 1, 0, exchange.Sell, 5))
	take(t, v)
}

// TestNewsThatWaitsIsPassedInParts: between two parts, the view continues, and further news is added at the end. If the
// view ends in the meantime, the reader gets the rest and the reason.
func TestNewsThatWaitsIsPassedInParts(t *testing.T) {
	v, _ := newWatched(t)
	h, news := new(heard), uint64(0)
	var r *reader[*exchange.AccountEvent]
	add := func() {
		for range partMax {
			news++
			r.waiting = append(r.waiting, &exchange.AccountEvent{N: news})
		}
	}
	var ended atomic.Bool
	r = &reader[*exchange.AccountEvent]{waits: true, end: h.End, tell: h.Event, flush: func() {
		require.LessOrEqual(t, len(h.events)-h.flushed, partMax)
		if h.Flush(); !ended.Load() && len(h.events) < 1000*partMax {
			add()
			time.Sleep(time.Millisecond)
		}
	}}
	add()
	add()
	v.feeding.Lock()
	defer v.feeding.Unlock()
	go func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		v.ended = errEnded
		ended.Store(true)
	}()
	passWaiting(v, r)
	require.True(t, ended.Load(), "the view continues between two parts")
	require.Len(t, h.events, int(news))
	for i, e := range h.events {
		require.EqualValues(t, i+1, e.N)
	}
	require.Equal(t, len(h.events), h.flushed)
	require.Equal(t, []error{errEnded}, h.ended)
	require.False(t, r.waits)
}

// TestAnAccountOfManyOrdersIsSubscribedToWhileItTrades: the snapshot and the events after it have no gap, and together
// they are the state of the account.
func TestAnAccountOfManyOrdersIsSubscribedToWhileItTrades(t *testing.T) {
	c, m := &churn{r: rand.New(rand.NewPCG(1, 0))}, new(memory)
	crowd(m, 2, 2)
	for range 20 * partMax {
		m.add(c.place())
	}
	first := uint64(len(m.records))
	for range 20_000 {
		m.add(c.next())
	}
	last := uint64(len(m.records))
	f := running(t, m)
	f.limit.Store(first)
	require.NoError(t, f.Await(background, first))
	go func() {
		for seq := first; seq < last; seq++ {
			f.limit.Store(seq + 1)
			if seq%500 == 0 {
				_ = f.Await(background, seq)
			}
		}
	}()
	var listeners []*whole
	for seq := first; seq < last; seq = f.Seq() {
		l := &whole{gapless: gapless{t: t}, orders: make(map[exchange.OrderID]exchange.OrderDetail)}
		_, err := f.Subscribe("1", 0, false, l, l.begin)
		require.NoError(t, err)
		_, err = f.ListenOrders("SYM1", silent{}, func(*OrdersSnapshot) {})
		require.NoError(t, err)
		listeners = append(listeners, l)
	}
	require.NoError(t, f.Await(background, last))
	f.stop()
	requireFits(t, f.View)
	for _, l := range listeners {
		want := f.snapshot(f.accounts["1"])
		require.Equal(t, want.N, l.last)
		require.Len(t, l.orders, len(want.Orders))
		for _, o := range want.Orders {
			got := l.orders[o.ID]
			got.NewRef = o.NewRef // a used ref is no event
			require.Equal(t, o, got)
		}
	}
	require.NotEmpty(t, listeners)
}

// whole is a Listener that keeps the open orders.
type whole struct {
	gapless
	orders map[exchange.OrderID]exchange.OrderDetail
}

func (w *whole) begin(snap *Snapshot, missed []*exchange.AccountEvent) {
	w.gapless.begin(snap, missed)
	for _, o := range snap.Orders {
		w.orders[o.ID] = o
	}
}

func (w *whole) Event(e *exchange.AccountEvent) {
	w.gapless.Event(e)
	for _, o := range e.Orders {
		if w.orders[o.ID] = o.OrderDetail; o.State != exchange.StatusOpen {
			delete(w.orders, o.ID)
		}
	}
}
