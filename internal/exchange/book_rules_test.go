package exchange

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	ann = &Account{ID: "1"}
	bob = &Account{ID: "2"}
)

func TestSubmitPanicsOnOrdersThatNoEngineMakes(t *testing.T) {
	partly := NewOrder(9, ann, Buy, 10, 5)
	partly.Open = 9
	for name, o := range map[string]*Order{
		"an id taken before":     NewOrder(3, ann, Buy, 10, 5),
		"an id below the newest": NewOrder(2, ann, Buy, 10, 5),
		"no id":                  NewOrder(0, ann, Buy, 10, 5),
		"no shares":              NewOrder(9, ann, Buy, 0, 5),
		"negative shares":        NewOrder(9, ann, Buy, -1, 5),
		"no limit":               NewOrder(9, ann, Buy, 10, 0),
		"a negative limit":       NewOrder(9, ann, Buy, 10, -5),
		"an executed part":       partly,
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook()
			b.Submit(NewOrder(3, ann, Buy, 10, 5), 0, nil)
			require.Panics(t, func() { b.Submit(o, 0, nil) })
			require.Equal(t, 1, b.Resting())
			require.NoError(t, b.Check())
		})
	}
}

func TestSubmitAppendsToTheFillsItIsGiven(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, ann, Sell, 10, 5), 0, nil)
	before := Fill{Resting: 99}
	fills := b.Submit(NewOrder(2, bob, Buy, 4, 5), 0, []Fill{before})
	require.Len(t, fills, 2)
	require.Equal(t, before, fills[0])
	require.True(t, Fill{Resting: 1, Account: "1", Shares: 4, Price: 5}.same(fills[1]))
}

func TestCancelThatIsRefusedChangesNothing(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, ann, Sell, 10, 5), 100, nil) // executed in part
	b.Submit(NewOrder(2, bob, Buy, 4, 5), 100, nil)   // executed
	b.Submit(NewOrder(3, bob, Buy, 4, 3), 100, nil)   // canceled
	_, r := b.Cancel(3, "2", 101)
	require.Equal(t, OK, r)
	before := dumpBook(b)
	for _, row := range []struct {
		id    OrderID
		owner AccountID
		want  RejectReason
	}{
		{0, "1", UnknownOrder},
		{4, "1", UnknownOrder},
		{1, "2", ForeignOrder},
		{2, "1", ForeignOrder},
		{3, "1", ForeignOrder},
		{2, "2", AlreadyExecuted},
		{3, "2", AlreadyCanceled},
	} {
		o, r := b.Cancel(row.id, row.owner, 102)
		require.Nil(t, o)
		require.Equal(t, row.want, r, "order %d", row.id)
	}
	require.Equal(t, before, dumpBook(b))
	require.NoError(t, b.Check())
}

func TestForgetDropsClosedOrdersOnly(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, ann, Sell, 10, 5), 0, nil)
	b.Submit(NewOrder(2, bob, Buy, 4, 5), 0, nil)
	require.Panics(t, func() { b.Forget(1) }, "open")
	require.Panics(t, func() { b.Forget(7) }, "unknown")
	b.Forget(2)
	require.Nil(t, b.Find(2))
	_, r := b.Cancel(2, "2", 0)
	require.Equal(t, UnknownOrder, r)
	require.Panics(t, func() { b.Forget(2) }, "forgotten before")
	require.NotNil(t, b.Find(1))
	require.NoError(t, b.Check())
	require.Panics(t, func() { b.Submit(NewOrder(2, bob, Buy, 4, 5), 0, nil) }, "a forgotten id is still taken")
}

func TestAStatusStaysTrueWhileItsOrderGoesOn(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, ann, Sell, 10, 1), 0, nil)
	o, want := b.Find(1), Status{Open: 10}
	for id := OrderID(2); id <= 11; id++ { // with and without room behind what there is
		early, before := o.Status(), want
		own := append(early.Executions, Execution{Shares: 99})
		b.Submit(NewOrder(id, bob, Buy, 1, 1), int64(id), nil)
		want.Open--
		want.Executions = append(slices.Clone(want.Executions), Execution{Shares: 1, Price: 1, Time: int64(id)})
		require.Equal(t, before, early)
		require.Equal(t, Execution{Shares: 99}, own[len(own)-1], "who adds to a status does not reach the order")
		require.Equal(t, want, o.Status())
	}
}

func TestAStatusCostsTheSameForEveryOrder(t *testing.T) {
	o := NewOrder(1, ann, Sell, 10, 5)
	o.Executions = make([]Execution, 1000)
	var s Status
	require.Zero(t, testing.AllocsPerRun(10, func() { s = o.Status() }))
	require.Len(t, s.Executions, 1000)
}

func TestRestoredOrdersKeepTheirPriority(t *testing.T) {
	b := NewBook()
	for id := OrderID(1); id <= 3; id++ {
		o := NewOrder(id, ann, Sell, 10, 5)
		if id == 1 {
			o.Open, o.Executions = 4, []Execution{{Shares: 6, Price: 5}}
		}
		require.NoError(t, b.Restore(o))
	}
	require.NoError(t, b.Check())
	fills := b.Submit(NewOrder(4, bob, Buy, 12, 5), 0, nil)
	require.Equal(t, []OrderID{1, 2}, []OrderID{fills[0].Resting, fills[1].Resting})
	require.Equal(t, []Shares{4, 8}, []Shares{fills[0].Shares, fills[1].Shares})
}

func TestRestoreRefusesWhatCannotRest(t *testing.T) {
	open := func(o *Order, open Shares) *Order { o.Open = open; return o }
	for name, o := range map[string]*Order{
		"an id that is there":     NewOrder(5, ann, Buy, 10, 5),
		"an id out of order":      NewOrder(4, ann, Buy, 10, 5),
		"nothing open":            open(NewOrder(6, ann, Buy, 10, 5), 0),
		"negative open":           open(NewOrder(6, ann, Buy, 10, 5), -1),
		"more open than there is": open(NewOrder(6, ann, Buy, 10, 5), 11),
		"no limit":                NewOrder(6, ann, Buy, 10, 0),
		"no account":              NewOrder(6, nil, Buy, 10, 5),
		"a crossing buy":          NewOrder(6, ann, Buy, 10, 7),
		"a crossing sell":         NewOrder(6, ann, Sell, 10, 5),
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook()
			require.NoError(t, b.Restore(NewOrder(2, bob, Sell, 10, 7)))
			require.NoError(t, b.Restore(NewOrder(5, bob, Buy, 10, 5)))
			require.ErrorContains(t, b.Restore(o), "cannot rest")
			require.Equal(t, 2, b.Resting())
			require.Same(t, b.Find(5), b.orders.at(b.bids.best.oldest))
			require.NoError(t, b.Check())
		})
	}
}

// TestCheckFindsEveryBrokenInvariant breaks a good book in one way at a time.
func TestCheckFindsEveryBrokenInvariant(t *testing.T) {
	for name, spoil := range map[string]func(b *Book){
		"a wrong count of resting orders": func(b *Book) { b.resting++ },
		"a wrong count of levels":         func(b *Book) { b.asks.levels++ },
		"shares from nowhere":             func(b *Book) { b.Find(1).Open++ },
		"a closed order that rests":       func(b *Book) { b.Find(1).Open, b.Find(1).Shares = 0, 0 },
		"an open order that does not":     func(b *Book) { b.leave(b.Find(1)) },
		"open and canceled":               func(b *Book) { b.Find(1).Open -= 3; b.Find(1).Canceled = 3 },
		"a price that is not the level's": func(b *Book) { b.Find(1).Limit++ },
		"an order on the wrong side":      func(b *Book) { b.Find(1).Side = Sell },
		"an order of another level":       func(b *Book) { b.Find(2).level = b.Find(4).level },
		"an order that nobody knows":      func(b *Book) { b.orders.remove(1, b.orders.find(1)) },
		"an empty level":                  func(b *Book) { b.bids.best.oldest, b.bids.best.last = 0, 0 },
		"a level of nobody":               func(b *Book) { b.asks.at(99) },
		"levels swapped":                  func(b *Book) { c := b.asks.chunks[0]; c[0], c[1] = c[1], c[0] },
		"another level as best":           func(b *Book) { b.asks.best = b.asks.slab.at(b.asks.chunks[0][0].level) },
		"no level as best":                func(b *Book) { b.asks.best = nil },
		"a best of no levels": func(b *Book) {
			b.leave(b.Find(1))
			b.Find(1).Open, b.Find(1).Canceled = 0, 10
			b.bids.best = new(level)
		},
		"a newest that is older": func(b *Book) { b.asks.best.last = b.asks.best.oldest },
		"levels out of order":    func(b *Book) { b.asks.best.price, b.orders.at(b.asks.best.oldest).Limit = 100, 100 },
		"time priority turned round": func(b *Book) {
			lv := b.asks.best
			older, newer := lv.oldest, lv.last
			lv.oldest, lv.last = newer, older
			b.orders.at(newer).prev, b.orders.at(newer).next = 0, older
			b.orders.at(older).prev, b.orders.at(older).next = newer, 0
		},
		"a crossed book": func(b *Book) {
			lv := b.bids.best
			lv.price, b.orders.at(lv.oldest).Limit = 50, 50
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook()
			b.Submit(NewOrder(1, ann, Buy, 10, 5), 0, nil)
			b.Submit(NewOrder(2, bob, Sell, 10, 7), 0, nil)
			b.Submit(NewOrder(3, bob, Sell, 10, 7), 0, nil)
			b.Submit(NewOrder(4, bob, Sell, 10, 8), 0, nil)
			require.NoError(t, b.Check())
			spoil(b)
			require.Error(t, b.Check())
		})
	}
}

func TestOrdersRangesOverOpenAndClosed(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, ann, Sell, 10, 5), 0, nil)
	b.Submit(NewOrder(2, bob, Buy, 4, 5), 0, nil)
	seen := map[OrderID]bool{}
	for o := range b.Orders() {
		seen[o.ID] = true
	}
	require.Equal(t, map[OrderID]bool{1: true, 2: true}, seen)
}
