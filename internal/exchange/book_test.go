package exchange

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// naive is a book that scans a list: slow, and easy to believe.
type naive struct{ open []*Order }

func (n *naive) submit(o *Order, now int64) (fills []Fill) {
	for o.Open > 0 {
		var best *Order
		for _, r := range n.open { // in order of acceptance
			if r.Side != o.Side && o.crosses(r.Limit) &&
				(best == nil || o.Side == Buy && r.Limit < best.Limit || o.Side == Sell && r.Limit > best.Limit) {
				best = r
			}
		}
		if best == nil {
			break
		}
		e := Execution{min(o.Open, best.Open), best.Limit, now}
		o.Open, best.Open = o.Open-e.Shares, best.Open-e.Shares
		o.Executions, best.Executions = append(o.Executions, e), append(best.Executions, e)
		fills = append(fills, Fill{Resting: best.ID, Account: best.Account.ID, Shares: e.Shares, Price: e.Price})
		n.open = slices.DeleteFunc(n.open, func(r *Order) bool { return r.Open == 0 })
	}
	if o.Open > 0 {
		n.open = append(n.open, o)
	}
	return fills
}

// TestBookEqualsANaiveOne: same fills, same answers, over prices that fill many
// chunks of the level index, which are split early.
func TestBookEqualsANaiveOne(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, prices := range []int{5, 60, 4000} {
		r := rand.New(rand.NewPCG(seed, uint64(prices)))
		book, twin := NewBook(), &naive{}
		book.bids.chunkMax, book.asks.chunkMax = 8, 8
		account := &Account{ID: "1"}
		var all []*Order // the twin's
		var fills []Fill
		for id := OrderID(1); id <= 3000; id++ {
			side := Side(1 + r.IntN(2))
			limit := Price(1 + r.IntN(prices))
			if r.IntN(2) == 0 { // two ways to build up a wide book
				limit = Price(prices/2) + Price(r.IntN(prices/2+1))*Price(2*int(side)-3)
			}
			limit = max(limit, 1)
			shares := Shares(1 + r.IntN(20))
			theirs := NewOrder(id, account, side, shares, limit)
			all = append(all, theirs)
			want := twin.submit(theirs, int64(id))
			fills = book.Submit(NewOrder(id, account, side, shares, limit), int64(id), fills[:0])
			require.True(t, slices.EqualFunc(want, fills, Fill.same), "seed %d order %d: %v, %v", seed, id, want, fills)
			if r.IntN(3) == 0 {
				victim := all[r.IntN(len(all))]
				_, reason := book.Cancel(victim.ID, "1", int64(id))
				require.Equal(t, victim.Open > 0, reason == OK)
				if reason == OK {
					victim.Canceled, victim.CanceledAt, victim.Open = victim.Open, int64(id), 0
					twin.open = slices.DeleteFunc(twin.open, func(o *Order) bool { return o == victim })
				}
			}
			if id%50 == 0 {
				require.NoError(t, book.Check(), "seed %d order %d", seed, id)
			}
		}
		for _, o := range all {
			require.Equal(t, o.Status(), book.Find(o.ID).Status())
		}
		require.Equal(t, len(twin.open), book.Resting())
	}
}

func TestCancelSaysWhyNot(t *testing.T) {
	b := NewBook()
	mine, other := &Account{ID: "1"}, &Account{ID: "2"}
	b.Submit(NewOrder(1, mine, Sell, 5, 10), 1, nil)
	b.Submit(NewOrder(2, other, Buy, 5, 10), 1, nil)
	b.Submit(NewOrder(3, mine, Sell, 5, 10), 1, nil)
	reason := func(id OrderID, owner AccountID) RejectReason {
		_, r := b.Cancel(id, owner, 2)
		return r
	}
	require.Equal(t, AlreadyExecuted, reason(1, "1"))
	require.Equal(t, ForeignOrder, reason(3, "2"))
	require.Equal(t, UnknownOrder, reason(4, "1"))
	require.Equal(t, OK, reason(3, "1"))
	require.Equal(t, AlreadyCanceled, reason(3, "1"))
	b.Forget(3)
	require.Equal(t, UnknownOrder, reason(3, "1"))
	require.Nil(t, b.Find(3))
	require.Zero(t, b.Resting())
	require.Zero(t, b.Best(Sell))
}

func TestMisuseOfABookPanics(t *testing.T) {
	b := NewBook()
	a := &Account{ID: "1"}
	b.Submit(NewOrder(2, a, Sell, 5, 10), 1, nil)
	require.Panics(t, func() { b.Submit(NewOrder(2, a, Sell, 5, 10), 1, nil) }, "an id twice")
	require.Panics(t, func() { b.Submit(NewOrder(1, a, Sell, 5, 10), 1, nil) }, "an older id")
	require.Panics(t, func() { b.Submit(NewOrder(3, a, Sell, 0, 10), 1, nil) })
	require.Panics(t, func() { b.Forget(2) }, "it is open")
	require.Panics(t, func() { b.Forget(9) })
	require.Error(t, b.Restore(NewOrder(1, a, Sell, 5, 10)), "an older id")
	require.Error(t, b.Restore(NewOrder(3, a, Buy, 5, 10)), "it crosses")
	require.NoError(t, b.Restore(NewOrder(3, a, Buy, 5, 9)))
	require.NoError(t, b.Check())
}

func TestCheckFindsDamage(t *testing.T) {
	for what, harm := range map[string]func(*Book){
		"count":     func(b *Book) { b.resting++ },
		"open":      func(b *Book) { b.Find(1).Open-- },
		"limit":     func(b *Book) { b.Find(1).Limit++ },
		"level":     func(b *Book) { b.asks.at(99) },
		"sort":      func(b *Book) { b.asks.chunks[0][0], b.asks.chunks[0][1] = b.asks.chunks[0][1], b.asks.chunks[0][0] },
		"forgotten": func(b *Book) { delete(b.orders, 1) },
		"crossed": func(b *Book) {
			b.bids.at(11).push(&Order{ID: 9, Side: Buy, Limit: 11, Shares: 1, Open: 1})
			b.resting++
		},
	} {
		b := NewBook()
		a := &Account{ID: "1"}
		b.Submit(NewOrder(1, a, Sell, 5, 10), 1, nil)
		b.Submit(NewOrder(2, a, Sell, 5, 12), 1, nil)
		require.NoError(t, b.Check())
		harm(b)
		require.Error(t, b.Check(), what)
	}
}

func ExampleBook() {
	b := NewBook()
	alice, bob := &Account{ID: "1"}, &Account{ID: "2"}
	b.Submit(NewOrder(1, bob, Sell, 100e8, 12e8), 1519348326, nil)
	b.Submit(NewOrder(2, bob, Sell, 100e8, 11e8), 1519348326, nil)
	for _, f := range b.Submit(NewOrder(3, alice, Buy, 150e8, 12e8), 1519348327, nil) {
		fmt.Printf("%s at %s with order %d\n", f.Shares, f.Price, f.Resting)
	}
	fmt.Println("open:", b.Find(1).Status().Open)
	// Output:
	// 100 at 11 with order 2
	// 50 at 12 with order 1
	// open: 50
}
