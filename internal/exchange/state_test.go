package exchange

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// session makes a random state and the events that lead to it, the way the engine
// does: reserve, submit, settle. Cash and shares are checked at every step.
func session(t *testing.T, seed uint64, steps int) (*State, []Event) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := NewState()
	var events []Event
	apply := func(e Event) {
		e.Time = int64(len(events))
		require.NoError(t, s.Apply(&e), "seed %d", seed)
		e.Fills = slices.Clone(e.Fills)
		events = append(events, e)
	}
	symbols := []Symbol{"A", "B", "C"}
	for _, sym := range symbols {
		apply(Event{Kind: SymbolMade, Symbol: sym})
	}
	for id := range 10 {
		account := AccountID(fmt.Sprint(id))
		apply(Event{Kind: AccountOpened, Account: account, Balance: Notional(Shares(r.IntN(3000)), 1e8)})
		for _, sym := range symbols {
			apply(Event{Kind: SharesPlaced, Symbol: sym, Account: account, Placed: Shares(1 + r.IntN(1000)).Position()})
		}
	}
	for range steps {
		sym := symbols[r.IntN(3)]
		if r.IntN(4) == 0 {
			cancelSome(s, sym, r, apply)
			continue
		}
		o := NewOrder(s.OrderID+1, s.Ledger.Account(AccountID(fmt.Sprint(r.IntN(10)))), Side(1+r.IntN(2)), Shares(1+r.IntN(50)), Price(90+r.IntN(20)))
		before := dump(s)
		li := s.Ledger.Listing(sym)
		if reason := s.Ledger.Reserve(li, o); reason != OK {
			require.Equal(t, before, dump(s), "a refused reservation changes nothing")
			continue
		}
		require.NoError(t, s.Ledger.Check())
		fills := s.Books[sym].Submit(o, int64(len(events)), nil)
		e := Event{Kind: OrderAccepted, Time: int64(len(events)), Order: o.ID, Account: o.Account.ID, Symbol: sym, Side: o.Side, Shares: o.Shares, Limit: o.Limit, Fills: fills}
		var copied Event
		require.NoError(t, DecodeEvent(AppendEvent(nil, &e), &copied))
		events = append(events, copied)
		s.Ledger.Settle(li, o, fills)
		s.OrderID = o.ID
		require.NoError(t, s.Ledger.Check())
	}
	require.NoError(t, s.Audit())
	return s, events
}

// cancelSome cancels the oldest open order of a symbol, if there is one.
func cancelSome(s *State, sym Symbol, r *rand.Rand, apply func(Event)) {
	open := slices.SortedFunc(s.Books[sym].Orders(), func(a, b *Order) int { return cmp.Compare(a.ID, b.ID) })
	open = slices.DeleteFunc(open, func(o *Order) bool { return o.Open == 0 })
	if len(open) > 0 {
		o := open[r.IntN(len(open))]
		apply(Event{Kind: OrderCanceled, Order: o.ID, Account: o.Account.ID, Symbol: sym, Side: o.Side, Shares: o.Open, Limit: o.Limit})
	}
}

// dump writes a state down in one canonical form.
func dump(s *State) (lines []string) {
	for _, id := range slices.Sorted(maps.Keys(s.Ledger.accounts)) {
		a := s.Ledger.accounts[id]
		lines = append(lines, fmt.Sprint("account ", id, " ", a.balance, " ", a.held))
		for _, sym := range slices.Sorted(maps.Keys(s.Ledger.listings)) {
			shares, held := s.Ledger.listings[sym].Position(a)
			lines = append(lines, fmt.Sprint("position ", id, " ", sym, " ", shares, " ", held))
		}
	}
	for _, sym := range slices.Sorted(maps.Keys(s.Books)) {
		lines = append(lines, fmt.Sprint("symbol ", sym, " ", s.Ledger.listings[sym].placed, " ", s.Books[sym].Best(Buy), " ", s.Books[sym].Best(Sell)))
		for _, o := range slices.SortedFunc(s.Books[sym].Orders(), func(a, b *Order) int { return cmp.Compare(a.ID, b.ID) }) {
			if o.Open > 0 {
				lines = append(lines, fmt.Sprint("order ", o.ID, " ", o.Account.ID, " ", o.Side, " ", o.Shares, " ", o.Limit, " ", o.Status()))
			}
		}
	}
	return append(lines, fmt.Sprint("last order ", s.OrderID))
}

// snapshot takes what a database would hold.
func snapshot(s *State) *Snapshot {
	snap := &Snapshot{OrderID: s.OrderID}
	for id, a := range s.Ledger.accounts {
		snap.Accounts = append(snap.Accounts, AccountState{ID: id, Opened: a.balance.Add(a.held), Balance: a.balance, Held: a.held})
	}
	for sym, li := range s.Ledger.listings {
		snap.Symbols = append(snap.Symbols, SymbolState{sym, li.placed})
		for a, h := range li.holdings {
			snap.Positions = append(snap.Positions, PositionState{sym, a.ID, h.shares, h.held})
		}
		for o := range s.Books[sym].Orders() {
			if o.Open > 0 {
				snap.Orders = append(snap.Orders, OrderState{o.ID, o.Account.ID, sym, o.Side, o.Shares, o.Limit, o.Open, o.Executions})
			}
		}
	}
	slices.SortFunc(snap.Orders, func(a, b OrderState) int { return cmp.Compare(a.ID, b.ID) })
	return snap
}

func TestReplayGivesTheSameStateFromAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s, events := session(t, seed, 400)
	whole := NewState()
	for i := range events {
		if i%67 == 0 { // a start from a snapshot here must come to the same end
			restored, err := snapshot(whole).Restore()
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, dump(whole), dump(restored))
			for k := i; k < len(events); k++ {
				require.NoError(t, restored.Apply(&events[k]), "seed %d", seed)
			}
			require.Equal(t, dump(s), dump(restored))
		}
		require.NoError(t, whole.Apply(&events[i]))
		require.NoError(t, whole.Audit())
	}
	require.Equal(t, dump(s), dump(whole))
}

func TestReplayRefusesWhatDoesNotComeOut(t *testing.T) {
	_, events := session(t, 5, 300)
	i := slices.IndexFunc(events, func(e Event) bool { return len(e.Fills) > 1 })
	require.Positive(t, i)
	c := slices.IndexFunc(events, func(e Event) bool { return e.Kind == OrderCanceled })
	change := func(at int, harm func(*Event)) Event {
		e := events[at]
		e.Fills = slices.Clone(e.Fills)
		harm(&e)
		return e
	}
	for what, harmed := range map[string]struct {
		at int
		e  Event
	}{
		"fill dropped":   {i, change(i, func(e *Event) { e.Fills = e.Fills[1:] })},
		"fills swapped":  {i, change(i, func(e *Event) { e.Fills[0], e.Fills[1] = e.Fills[1], e.Fills[0] })},
		"fill added":     {i, change(i, func(e *Event) { e.Fills = append(e.Fills, Fill{Resting: 1, Account: "1", Shares: 1, Price: 1}) })},
		"other price":    {i, change(i, func(e *Event) { e.Fills[0].Price++ })},
		"other shares":   {i, change(i, func(e *Event) { e.Fills[0].Shares++ })},
		"other order":    {i, change(i, func(e *Event) { e.Fills[0].Resting++ })},
		"other owner":    {i, change(i, func(e *Event) { e.Fills[0].Account = "77" })},
		"older id":       {i, change(i, func(e *Event) { e.Order = 1 })},
		"too expensive":  {i, change(i, func(e *Event) { e.Side, e.Shares, e.Limit = Buy, 9e18, 9e18 })},
		"no account":     {i, change(i, func(e *Event) { e.Account = "77" })},
		"no symbol":      {i, change(i, func(e *Event) { e.Symbol = "Z" })},
		"cancel of more": {c, change(c, func(e *Event) { e.Shares++ })},
		"cancel foreign": {c, change(c, func(e *Event) { e.Account = "77" })},
		"symbol twice":   {0, events[0]},
		"account twice":  {3, events[3]},
	} {
		s := NewState()
		for k := range harmed.at {
			require.NoError(t, s.Apply(&events[k]))
		}
		if what == "symbol twice" || what == "account twice" {
			require.NoError(t, s.Apply(&harmed.e))
		}
		require.ErrorContains(t, s.Apply(&harmed.e), "replay", what)
	}
}

func TestRestoreRefusesWhatDoesNotAddUp(t *testing.T) {
	s, _ := session(t, 6, 200)
	for what, harm := range map[string]func(*Snapshot){
		"money made": func(s *Snapshot) { s.Accounts[0].Balance = s.Accounts[0].Balance.Add(Cash{Lo: 1}) },
		"hold moved": func(s *Snapshot) {
			s.Accounts[0].Balance, s.Accounts[0].Held = Cash{}, s.Accounts[0].Opened.Add(Cash{})
		},
		"shares made":     func(s *Snapshot) { s.Positions[0].Shares = s.Positions[0].Shares.Add(Position{Lo: 1}) },
		"order dropped":   func(s *Snapshot) { s.Orders = s.Orders[1:] },
		"order twice":     func(s *Snapshot) { s.Orders = append(s.Orders, s.Orders[0]) },
		"open changed":    func(s *Snapshot) { s.Orders[0].Open++ },
		"no such account": func(s *Snapshot) { s.Orders[0].Account = "77" },
		"account twice":   func(s *Snapshot) { s.Accounts = append(s.Accounts, s.Accounts[0]) },
		"position twice":  func(s *Snapshot) { s.Positions = append(s.Positions, s.Positions[0]) },
		"negative":        func(s *Snapshot) { s.Accounts[0].Balance = Cash{Hi: -1} },
	} {
		snap := snapshot(s)
		slices.SortFunc(snap.Accounts, func(a, b AccountState) int { return -a.Held.Cmp(b.Held) })
		if what == "hold moved" {
			slices.SortFunc(snap.Accounts, func(a, b AccountState) int { return -a.Balance.Cmp(b.Balance) })
		}
		harm(snap)
		_, err := snap.Restore()
		require.Error(t, err, what)
	}
}

func TestLedgerPanicsOnMisuse(t *testing.T) {
	l := NewLedger()
	l.Open("1", Cash{Lo: 5})
	require.Panics(t, func() { l.Open("1", Cash{}) })
	require.Equal(t, BalanceTotalExceeded, l.MayOpen("2", CashTotalMax))
	require.Panics(t, func() { l.Open("2", CashTotalMax) })
	li := l.List("S")
	require.Same(t, li, l.List("S"))
	require.Equal(t, PositionTotalExceeded, l.MayPlace(li, "1", PositionTotalMax))
	require.Panics(t, func() { l.Place(li, "1", PositionTotalMax) })
	require.Panics(t, func() { l.Place(li, "9", Position{Lo: 1}) })
	o := NewOrder(1, l.Account("1"), Buy, 1, 1)
	o.Canceled = 1
	require.Panics(t, func() { l.Release(li, o) }, "nothing is held")
}

func drawEvent(t *rapid.T) Event {
	e := Event{Kind: EventKind(rapid.IntRange(1, 5).Draw(t, "kind")), Time: rapid.Int64().Draw(t, "time")}
	account := rapid.Map(rapid.StringMatching(`[0-9]{1,64}`), func(s string) AccountID { return AccountID(s) })
	if e.Kind != SymbolMade {
		e.Account = account.Draw(t, "account")
	}
	if e.Kind != AccountOpened {
		e.Symbol = Symbol(rapid.StringMatching(`[A-Za-z0-9]{1,32}`).Draw(t, "symbol"))
	}
	wide := rapid.Custom(func(t *rapid.T) Int128 {
		return Int128{rapid.Int64Range(0, 1<<22).Draw(t, "hi"), rapid.Uint64Range(1, 1<<64-1).Draw(t, "lo")}
	})
	shares := rapid.Int64Range(1, orderUnitsMax-1)
	switch e.Kind {
	case AccountOpened:
		e.Balance = Cash(wide.Draw(t, "balance"))
	case SharesPlaced:
		e.Placed = Position(wide.Draw(t, "placed"))
	case OrderAccepted, OrderCanceled:
		e.Order, e.Side = 1+OrderID(shares.Draw(t, "order")), Side(rapid.IntRange(1, 2).Draw(t, "side"))
		e.Shares, e.Limit = Shares(shares.Draw(t, "shares")), Price(shares.Draw(t, "limit"))
	}
	if e.Kind == OrderAccepted {
		for left := e.Shares; left > 0 && len(e.Fills) < 5; {
			f := Fill{OrderID(rapid.Uint64Range(1, uint64(e.Order)-1).Draw(t, "resting")), account.Draw(t, "owner"), Shares(rapid.Int64Range(1, int64(left)).Draw(t, "filled")), Price(shares.Draw(t, "price")), nil}
			e.Fills = append(e.Fills, f)
			left -= f.Shares
		}
	}
	return e
}

func TestEventsAreReadBackAndNothingElseIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		b := AppendEvent(nil, &e)
		var got Event
		require.NoError(t, DecodeEvent(b, &got))
		require.Equal(t, e, got)
		for n := range b {
			require.ErrorIs(t, DecodeEvent(b[:n], &got), ErrEvent, "cut after %d bytes of %d", n, len(b))
		}
		require.ErrorIs(t, DecodeEvent(append(b, 0), &got), ErrEvent)
	})
}

// FuzzDecodeEvent: nothing panics, and what is accepted can be written and read
// again.
func FuzzDecodeEvent(f *testing.F) {
	f.Add(AppendEvent(nil, &sampleEvent))
	f.Add(AppendEvent(nil, &Event{Kind: AccountOpened, Account: "1", Balance: Cash{Lo: 5}}))
	f.Add(AppendEvent(nil, &Event{Kind: SymbolMade, Symbol: "S"}))
	f.Add([]byte{4, 0, 1, 1, '1', 1, 'S', 1, 1, 1, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again Event
		if DecodeEvent(b, &e) != nil {
			return
		}
		if err := DecodeEvent(AppendEvent(nil, &e), &again); err != nil {
			t.Fatal(err)
		}
		require.Equal(t, e, again)
	})
}
