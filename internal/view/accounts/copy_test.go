package accounts

import (
	"math/rand/v2"
	"slices"
	"testing"

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
		r := &reader[*exchange.AccountEvent]{tell: h.Event, flush: h.Flush, end: h.End, waits: true}
		w.readers = append(w.readers, r)
		var copied copied
		market := &v.markets[v.symbols["SYM0"]]
		market.resting = newResting(&market.open)
		for more := true; more || market.resting.next != 0; {
			if before := len(copied.orders); more {
				more = copied.add(v, v.accounts["1"])
				require.LessOrEqual(t, len(copied.orders)-before, partMax)
				if !more {
					require.Equal(t, v.snapshot(v.accounts["1"]).Orders, copied.after(r.waiting))
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
