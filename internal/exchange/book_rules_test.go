package exchange

import (
	"math"
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
		"an id used before":      NewOrder(3, ann, Buy, 10, 5),
		"an id below the newest": NewOrder(2, ann, Buy, 10, 5),
		"no id":                  NewOrder(0, ann, Buy, 10, 5),
		"no shares":              NewOrder(9, ann, Buy, 0, 5),
		"negative shares":        NewOrder(9, ann, Buy, -1, 5),
		"no limit":               NewOrder(9, ann, Buy, 10, 0),
		"a negative limit":       NewOrder(9, ann, Buy, 10, -5),
		"a limit out of range":   NewOrder(9, ann, Sell, 10, orderUnitsMax),
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
		require.Zero(t, o)
		require.Equal(t, row.want, r, "order %d", row.id)
	}
	require.Equal(t, before, dumpBook(b))
	require.NoError(t, b.Check())
}

// found reports whether the book has an order.
func found(b *Book, id OrderID) bool {
	_, there := b.Find(id)
	return there
}

// node returns the node of an order that is in the book.
func (b *Book) node(id OrderID) *node { return b.orders.at(b.find(id)) }

func TestForgetDropsClosedOrdersInTheOrderTheyClosed(t *testing.T) {
	b := NewBook()
	require.Zero(t, b.Forget())
	b.Submit(NewOrder(1, ann, Sell, 10, 5), 0, nil)
	require.Zero(t, b.Forget(), "it is open")
	b.Submit(NewOrder(2, ann, Sell, 10, 6), 0, nil)
	b.Submit(NewOrder(3, ann, Sell, 10, 7), 0, nil)
	_, r := b.Cancel(2, "1", 0)
	require.Equal(t, OK, r)
	b.Submit(NewOrder(4, bob, Buy, 12, 7), 0, nil) // closes order 1, then itself
	require.Equal(t, 3, b.Closed())
	for _, want := range []OrderID{2, 1, 4} {
		require.True(t, found(b, want))
		require.Equal(t, want, b.Forget())
		require.False(t, found(b, want))
		_, r := b.Cancel(want, "1", 0)
		require.Equal(t, UnknownOrder, r)
		require.NoError(t, b.Check())
	}
	require.Zero(t, b.Forget(), "nothing else is closed")
	require.Zero(t, b.Closed())
	require.True(t, found(b, 3))
	require.Panics(t, func() { b.Submit(NewOrder(4, bob, Buy, 4, 5), 0, nil) }, "a forgotten id cannot be used again")
}

func TestAStatusStaysTrueWhileItsOrderGoesOn(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, ann, Sell, 10, 1), 0, nil)
	status := func() Status {
		o, _ := b.Find(1)
		return o.Status()
	}
	want := Status{Open: 10}
	for id := OrderID(2); id <= 11; id++ { // with and without spare capacity in the slice
		early, before := status(), want
		own := append(early.Executions, Execution{Shares: 99})
		b.Submit(NewOrder(id, bob, Buy, 1, 1), int64(id), nil)
		want.Open--
		want.Executions = append(slices.Clone(want.Executions), Execution{Shares: 1, Price: 1, Time: int64(id)})
		require.Equal(t, before, early)
		require.Equal(t, Execution{Shares: 99}, own[len(own)-1], "appending to a status does not change the order")
		require.Equal(t, want, status())
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
		"an id in use":                 NewOrder(5, ann, Buy, 10, 5),
		"an id out of order":           NewOrder(4, ann, Buy, 10, 5),
		"nothing open":                 open(NewOrder(6, ann, Buy, 10, 5), 0),
		"negative open":                open(NewOrder(6, ann, Buy, 10, 5), -1),
		"more open than the order has": open(NewOrder(6, ann, Buy, 10, 5), 11),
		"no limit":                     NewOrder(6, ann, Buy, 10, 0),
		"a limit out of range":         NewOrder(6, ann, Sell, 10, math.MaxInt64),
		"no account":                   NewOrder(6, nil, Buy, 10, 5),
		"a crossing buy":               NewOrder(6, ann, Buy, 10, 7),
		"a crossing sell":              NewOrder(6, ann, Sell, 10, 5),
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook()
			require.NoError(t, b.Restore(NewOrder(2, bob, Sell, 10, 7)))
			require.NoError(t, b.Restore(NewOrder(5, bob, Buy, 10, 5)))
			require.ErrorContains(t, b.Restore(o), "cannot rest")
			require.Equal(t, 2, b.Resting())
			require.Same(t, b.node(5), b.orders.at(b.side(Buy).best.oldest))
			require.NoError(t, b.Check())
		})
	}
}

// TestCheckFindsEveryBrokenInvariant breaks a valid book in one way at a time.
func TestCheckFindsEveryBrokenInvariant(t *testing.T) {
	for name, spoil := range map[string]func(b *Book){
		"a wrong count of resting orders":  func(b *Book) { b.resting[0]++ },
		"a wrong count of levels":          func(b *Book) { b.side(Sell).levels++ },
		"too many open shares":             func(b *Book) { b.node(1).left++ },
		"a closed order that rests":        func(b *Book) { b.node(1).left, b.node(1).shares = 0, 0 },
		"an open order that does not rest": func(b *Book) { b.leave(b.node(1)) },
		"open and canceled":                func(b *Book) { b.node(1).flags |= canceled },
		"a price that is not the level's":  func(b *Book) { b.node(1).limit++ },
		"an order on the wrong side":       func(b *Book) { b.node(1).packed = packed(Sell) },
		"an order of another level":        func(b *Book) { b.node(2).level = b.node(4).level },
		"an order missing from the index":  func(b *Book) { b.index.places.Remove(1, b.place(b.find(1))) },
		"an empty level":                   func(b *Book) { b.side(Buy).best.oldest, b.side(Buy).best.last = 0, 0 },
		"a level without orders":           func(b *Book) { b.side(Sell).at(99) },
		"a level in a block marked empty":  func(b *Book) { b.side(Sell).others.chunks[0][1].block.used = 0 },
		"blocks swapped": func(b *Book) {
			c := b.side(Sell).others.chunks[0]
			c[0], c[1] = c[1], c[0]
		},
		"a block at another key": func(b *Book) {
			b.side(Sell).others.chunks[0][1].block.first += blockTicks
		},
		"a block of another tick":    func(b *Book) { b.side(Sell).others.chunks[0][1].block.tick = cent },
		"a stretch at another place": func(b *Book) { b.side(Sell).stretches[1].place++ },
		"a stretch of another block": func(b *Book) {
			b.side(Sell).stretches[1].block = b.side(Sell).stretches[2].block
		},
		"a level in a stretch marked empty":   func(b *Book) { b.side(Sell).stretches[1].used = 0 },
		"a wrong count of idle stretches":     func(b *Book) { b.side(Sell).idle++ },
		"an empty block not listed as vacant": func(b *Book) { b.side(Sell).others.block(0, 1) },
		"a block without its neighbour":       func(b *Book) { b.side(Sell).others.chunks[0][1].block.worse = nil },
		"another best between the cents":      func(b *Book) { b.side(Sell).others.best++ },
		"a stretch that is not listed":        func(b *Book) { clear(b.side(Sell).stretches) },
		"a chunk that is too long":            func(b *Book) { b.side(Sell).others.chunkMax = 1 },
		"whole cents among the others":        func(b *Book) { l := b.side(Sell); l.others, l.cents = l.cents, l.others },
		"another level as best":               func(b *Book) { b.side(Sell).best = b.side(Sell).level(b.node(4).level) },
		"another price as best":               func(b *Book) { b.side(Sell).bestKey++ },
		"another slot as best":                func(b *Book) { b.side(Sell).bestSlot++ },
		"no level as best":                    func(b *Book) { b.side(Sell).best = nil },
		"a best level without levels": func(b *Book) {
			_, r := b.Cancel(1, "1", 0)
			if r == OK {
				b.side(Buy).best = new(level)
			}
		},
		"a last order that is older": func(b *Book) { b.side(Sell).best.last = b.side(Sell).best.oldest },
		"reversed time priority": func(b *Book) {
			lv := b.side(Sell).best
			older, newer := lv.oldest, lv.last
			lv.oldest, lv.last = newer, older
			b.orders.at(newer).prev, b.orders.at(newer).next = 0, older
			b.orders.at(older).prev, b.orders.at(older).next = newer, 0
		},
		"a crossed book": func(b *Book) {
			b.leave(b.node(1))
			b.node(1).limit = 50
			b.rest(b.find(1), b.node(1))
		},
		"a newest order that crosses and has executed nothing": func(b *Book) {
			b.leave(b.node(4))
			b.node(4).limit = 4
			b.rest(b.find(4), b.node(4))
		},
		"an open order that may be forgotten": func(b *Book) { b.close(b.find(1)) },
		"a closed order that is not listed":   func(b *Book) { b.Cancel(1, "1", 0); b.oldest, b.latest, b.closed = 0, 0, 0 },
		"a wrong count of closed orders":      func(b *Book) { b.closed++ },
		"another closed last":                 func(b *Book) { b.Cancel(1, "1", 0); b.latest = b.find(2) },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook()
			b.Submit(NewOrder(1, ann, Buy, 10, 5), 0, nil)
			b.Submit(NewOrder(2, bob, Sell, 10, 7), 0, nil)
			b.Submit(NewOrder(3, bob, Sell, 10, 7), 0, nil)
			b.Submit(NewOrder(4, bob, Sell, 10, 800), 0, nil)
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
