package exchange

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// TestAnAccountKnowsWhereItHasOpenOrders opens and closes orders of one account in numbers of symbols that make the
// ledger use a single symbol, a list and a map, and compares with a separate count.
func TestAnAccountKnowsWhereItHasOpenOrders(t *testing.T) {
	r := testRand(t)
	s := NewState()
	s.Ledger.Open("1", Notional(1e15, 1e8))
	a := s.Ledger.Account("1")
	for n := range 3 * openListMax {
		s.List(Symbol(fmt.Sprint("S", n)))
	}
	open := map[Symbol][]OrderID{}
	total, closing, shape := 0, false, map[string]bool{}
	for range budget.Of(20_000) {
		sym := Symbol(fmt.Sprint("S", r.IntN(3*openListMax)))
		in, book := s.Ledger.Instrument(sym), s.Books[sym]
		if (r.IntN(3) > 0) == closing && len(open[sym]) > 0 {
			o, reason := book.Cancel(open[sym][0], "1", 0)
			require.Equal(t, OK, reason)
			s.Ledger.Release(in, &o)
			open[sym] = open[sym][1:]
			total--
		} else if !closing {
			s.OrderID++
			o := NewOrder(s.OrderID, a, Buy, 1, 1)
			require.Equal(t, OK, s.Ledger.Reserve(in, o))
			s.Ledger.Settle(in, o, book.Submit(o, 0, nil))
			open[sym] = append(open[sym], s.OrderID)
			total++
		}
		closing = closing && total > 0 || total > 100
		var want, got []string
		for sym, orders := range open {
			if len(orders) > 0 {
				want = append(want, string(sym))
			}
			require.Equal(t, len(orders), a.OpenOrdersIn(s.Ledger.Instrument(sym)))
		}
		for _, in := range s.Ledger.AppendOpenIn(nil, a) {
			got = append(got, string(in.Symbol))
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got)
		require.Equal(t, [2]int{total, total}, [2]int{a.OpenOrders(), s.Ledger.OpenOrders()})
		shape[fmt.Sprint(a.openIn == nil, a.openIn != nil && a.openIn.many != nil)] = true
	}
	require.Len(t, shape, 3, "one symbol or none, a list, and a map")
	require.NoError(t, s.Audit())
}

// TestASpoiledCountOfOpenOrdersIsNoticed corrupts each count.
func TestASpoiledCountOfOpenOrdersIsNoticed(t *testing.T) {
	for name, spoil := range map[string]func(a *Account){
		"all":      func(a *Account) { a.open++ },
		"a symbol": func(a *Account) { a.openIn.list[0].orders, a.openIn.list[1].orders = 2, 0 },
	} {
		s := NewState()
		s.Ledger.Open("1", Notional(1e8, 1e8))
		for n, sym := range []Symbol{"A", "B"} {
			book, in := s.List(sym), s.Ledger.Instrument(sym)
			o := NewOrder(OrderID(n+1), s.Ledger.Account("1"), Buy, 1, 1)
			require.Equal(t, OK, s.Ledger.Reserve(in, o))
			s.Ledger.Settle(in, o, book.Submit(o, 0, nil))
		}
		require.NoError(t, s.Audit())
		spoil(s.Ledger.Account("1"))
		require.ErrorContains(t, s.Audit(), "open orders", name)
	}
}

// TestABookWithoutOrdersIsAsNew shrinks books with and without orders.
func TestABookWithoutOrdersIsAsNew(t *testing.T) {
	s := newRandomSession(testRand(t))
	s.run(300)
	for _, book := range s.Books {
		book.Shrink()
		require.NoError(t, book.Check(), "orders are there: nothing changes")
	}
	b := NewBook()
	a := &Account{ID: "1"}
	for id := OrderID(1); id < 200; id += 2 {
		require.Same(t, &noSides, b.sides)
		b.Submit(NewOrder(id, a, Buy, 1, Price(id)*cent), 0, nil)
		require.Len(t, b.Submit(NewOrder(id+1, a, Sell, 1, 1), 0, nil), 1)
		require.NoError(t, b.Check())
		for b.Forget() != 0 {
		}
		b.Shrink()
		require.NoError(t, b.Check())
	}
	require.Equal(t, *newSides(0), noSides, "it is shared by all books")
}
