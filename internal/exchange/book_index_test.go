package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBooksOfOneIndexHoldTheirOwnOrders(t *testing.T) {
	var x Index
	one, two := x.NewBook(), x.NewBook()
	require.Equal(t, []int{0, 1, 2}, []int{one.Number(), two.Number(), x.Books()})
	one.Submit(NewOrder(1, ann, Sell, 10, 5), 0, nil)
	two.Submit(NewOrder(2, ann, Buy, 10, 6), 0, nil)
	require.NoError(t, two.Restore(NewOrder(3, bob, Buy, 10, 4)))
	for id, book := range map[OrderID]*Book{1: one, 2: two, 3: two} {
		number, found := x.Book(id)
		require.True(t, found)
		require.Equal(t, book.Number(), number)
		for _, b := range []*Book{one, two} {
			_, found := b.Find(id)
			require.Equal(t, b == book, found)
		}
	}
	_, found := x.Book(4)
	require.False(t, found)
	_, r := one.Cancel(2, "1", 0)
	require.Equal(t, UnknownOrder, r)
	_, r = two.Cancel(2, "1", 0)
	require.Equal(t, OK, r)
	require.Equal(t, OrderID(2), two.Forget())
	_, found = x.Book(2)
	require.False(t, found)
	require.NoError(t, one.Check())
	require.NoError(t, two.Check())
}

func TestAnIDIsTakenInAllBooksOfAnIndex(t *testing.T) {
	var x Index
	one, two := x.NewBook(), x.NewBook()
	one.Submit(NewOrder(7, ann, Sell, 10, 5), 0, nil)
	require.ErrorContains(t, two.Restore(NewOrder(7, bob, Sell, 10, 5)), "order 7 cannot rest: it exists already")
	require.NoError(t, two.Restore(NewOrder(6, bob, Sell, 10, 5)), "the book is as it was")
	require.Panics(t, func() { two.Submit(NewOrder(7, bob, Sell, 10, 5), 0, nil) })
	number, _ := x.Book(7)
	require.Equal(t, one.Number(), number)
}

func TestReplayRefusesAnOrderThatAnotherSymbolHas(t *testing.T) {
	s := NewState()
	for _, e := range []Event{
		{Kind: AccountOpened, Account: "1", Balance: Notional(1e8, 1e10)},
		{Kind: SymbolMade, Symbol: "A"},
		{Kind: SymbolMade, Symbol: "B"},
		{Kind: OrderAccepted, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 1}, Order: 5, Shares: 1},
	} {
		require.NoError(t, s.Apply(&e))
	}
	again := Event{Kind: OrderAccepted, Account: "1", Symbol: "B", Terms: Terms{Side: Buy, Limit: 1}, Order: 5, Shares: 1}
	require.ErrorContains(t, s.Apply(&again), "order id 5 of B is used in another symbol")
}

func TestSnapshotWithOneOrderInTwoSymbolsIsRefused(t *testing.T) {
	s := Snapshot{
		Accounts: []AccountState{{ID: "1", Opened: Notional(4, 1), Balance: Notional(2, 1), Held: Notional(2, 1)}},
		Symbols:  []SymbolState{{Symbol: "A"}, {Symbol: "B"}},
		Orders: []OrderState{
			{ID: 5, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 1}, Shares: 1, Open: 1},
			{ID: 5, Account: "1", Symbol: "B", Terms: Terms{Side: Buy, Limit: 1}, Shares: 1, Open: 1},
		},
	}
	_, err := s.Restore()
	require.ErrorContains(t, err, "order 5")
	s.Orders[1].ID = 6
	_, err = s.Restore()
	require.NoError(t, err)
}

// TestAuditComparesTheIndexWithTheBooks makes changes that Book.Check alone cannot detect.
func TestAuditComparesTheIndexWithTheBooks(t *testing.T) {
	for name, spoil := range map[string]func(s *State){
		"an order that no book has":    func(s *State) { s.Index.places.Add(9, 1<<32+1) },
		"an order that is not indexed": func(s *State) { s.Index.places.Remove(1, s.Books["A"].place(s.Books["A"].find(1))) },
		"an order in the wrong place": func(s *State) {
			p := s.Index.places.Find(1)
			s.Index.places.Remove(1, p)
			s.Index.places.Add(1, p+1)
		},
		"an order in the wrong book": func(s *State) {
			p := s.Index.places.Find(1)
			s.Index.places.Remove(1, p)
			s.Index.places.Add(1, p+1<<32)
		},
		"a book with its own index":      func(s *State) { s.Books["B"] = NewBook() },
		"two books with the same number": func(s *State) { s.Books["B"].number = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			s.Ledger.Open("1", Notional(10, 1))
			for i, sym := range []Symbol{"A", "B"} {
				o := NewOrder(OrderID(i+1), s.Ledger.Account("1"), Buy, 1, 1)
				book := s.List(sym)
				require.Same(t, book, s.List(sym))
				require.Equal(t, OK, s.Ledger.Reserve(s.Ledger.Instrument(sym), o))
				s.Ledger.Settle(s.Ledger.Instrument(sym), o, book.Submit(o, 0, nil))
			}
			require.NoError(t, s.Audit())
			spoil(s)
			require.Error(t, s.Audit())
		})
	}
}

// TestCheckComparesClosedOrdersWithTheIndex covers closed orders; resting ones are covered by
// TestCheckFindsEveryBrokenInvariant.
func TestCheckComparesClosedOrdersWithTheIndex(t *testing.T) {
	b := NewBook()
	for id := range OrderID(3) {
		b.Submit(NewOrder(id+1, ann, Sell, 10, 5), 0, nil)
	}
	_, r := b.Cancel(2, "1", 0)
	require.Equal(t, OK, r)
	require.NoError(t, b.Check())
	b.index.places.Remove(2, b.place(b.find(2)))
	require.Error(t, b.Check())
}
