package exchange

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// replay applies events after encoding and decoding each, as a journal does.
func replay(t *testing.T, s *State, events []Event) {
	t.Helper()
	var b []byte
	var e Event
	s.Index.FillsMax = fewFills
	for i := range events {
		b = AppendEvent(b[:0], &events[i])
		require.NoError(t, DecodeEvent(b, &e))
		require.NoError(t, s.Apply(&e), "event %d: %+v", i, e)
	}
}

func TestReplayedEventsLeadToTheSameState(t *testing.T) {
	s := newRandomSession(testRand(t))
	s.run(3000)
	again := NewState()
	replay(t, again, s.events)
	require.NoError(t, again.Audit())
	require.Equal(t, dump(s.State), dump(again))
}

func TestAnyPrefixOfEventsReplays(t *testing.T) {
	s := newRandomSession(testRand(t))
	var after []string // the state after each event
	s.afterEvent = func() { after = append(after, dump(s.State)) }
	s.run(300)
	require.Len(t, after, len(s.events))
	again := NewState()
	for i := range s.events {
		replay(t, again, s.events[i:i+1])
		require.NoError(t, again.Audit())
		require.Equal(t, after[i], dump(again))
	}
}

// filled returns events; the last one is an order with three fills.
func filled(t *testing.T) []Event {
	d := newShard()
	require.Equal(t, OK, d.open("1", dollars(t, "10000")))
	require.Equal(t, OK, d.open("2", dollars(t, "10000")))
	d.list("SPY")
	require.Equal(t, OK, d.place("SPY", "2", placed(t, "400")))
	for _, limit := range []string{"10", "11", "12", "13"} {
		_, _, r := d.order("2", "SPY", Sell, shares(t, "100"), price(t, limit))
		require.Equal(t, OK, r)
	}
	_, fills, r := d.order("1", "SPY", Buy, shares(t, "250"), price(t, "12"))
	require.Equal(t, OK, r)
	require.Len(t, fills, 3)
	return d.events
}

// TestReplayRefusesForeignFills changes the recorded fills of one order in every
// way that still decodes: the replay must find that the book fills it differently.
func TestReplayRefusesForeignFills(t *testing.T) {
	for name, change := range map[string]func(e *Event){
		"a fill dropped":         func(e *Event) { e.Fills = e.Fills[:2] },
		"the first fill dropped": func(e *Event) { e.Fills = e.Fills[1:] },
		"all fills dropped":      func(e *Event) { e.Fills = nil },
		"a fill added": func(e *Event) {
			e.Fills = append(e.Fills, Fill{Resting: 4, Account: "2", Shares: 1e8, Price: 1300000000})
			e.Fills[2].Shares -= 1e8
		},
		"a fill twice":              func(e *Event) { e.Fills[1] = e.Fills[0] },
		"fills in another order":    func(e *Event) { e.Fills[0], e.Fills[1] = e.Fills[1], e.Fills[0] },
		"fewer shares":              func(e *Event) { e.Fills[2].Shares-- },
		"another price":             func(e *Event) { e.Fills[0].Price-- },
		"another resting order":     func(e *Event) { e.Fills[0].Resting = 4 },
		"another owner":             func(e *Event) { e.Fills[0].Account = "1" },
		"a limit that fills less":   func(e *Event) { e.Limit = 1100000000 },
		"an order that fills less":  func(e *Event) { e.Shares -= 1e8; e.Fills[2].Shares -= 2e8 },
		"the other side of a trade": func(e *Event) { e.Account = "2"; e.Side = Sell },
	} {
		t.Run(name, func(t *testing.T) {
			events := filled(t)
			last := &events[len(events)-1]
			last.Fills = slices.Clone(last.Fills)
			change(last)
			s := NewState()
			replay(t, s, events[:len(events)-1])
			e := decoded(t, AppendEvent(nil, last))
			err := s.Apply(&e)
			require.ErrorContains(t, err, "exchange: replay: order 5")
			require.NotContains(t, err.Error(), "0x", "an address in an error is different every time")
		})
	}
}

// TestReplayRefusesWhatDoesNotFollow applies events to a state in which they
// are impossible.
func TestReplayRefusesWhatDoesNotFollow(t *testing.T) {
	buy := func(change func(e *Event)) Event {
		e := Event{Kind: OrderAccepted, Account: "1", Symbol: "SPY", Terms: Terms{Side: Buy, Limit: 1e8}, Shares: 1e8,
			Order: 9}
		change(&e)
		return e
	}
	cancel := func(change func(e *Event)) Event {
		e := Event{Kind: OrderCanceled, Account: "2", Symbol: "SPY", Terms: Terms{Side: Sell, Limit: 12e8}, Shares: 50e8,
			Order: 3}
		change(&e)
		return e
	}
	for name, row := range map[string]struct {
		event Event
		want  string
	}{
		"an account that exists": {Event{Kind: AccountOpened, Account: "1"}, "account_exists"},
		"a symbol that exists":   {Event{Kind: SymbolMade, Symbol: "SPY"}, "created twice"},
		"shares of no symbol": {
			Event{Kind: SharesDeposited, Symbol: "QQQ", Account: "1", Deposited: Position{Lo: 1}},
			"never created",
		},
		"shares for no account": {
			Event{Kind: SharesDeposited, Symbol: "SPY", Account: "9", Deposited: Position{Lo: 1}},
			"unknown_account",
		},
		"an event of no kind":            {Event{Kind: 77, Symbol: "SPY"}, "unknown event event(77)"},
		"an order of no account":         {buy(func(e *Event) { e.Account = "9" }), "account 9"},
		"an order of no symbol":          {buy(func(e *Event) { e.Symbol = "QQQ" }), "never created"},
		"an order id that is taken":      {buy(func(e *Event) { e.Order = 5 }), "order 5 after order 5"},
		"an order id out of order":       {buy(func(e *Event) { e.Order = 2 }), "order 2 after order 5"},
		"an order that cannot be paid":   {buy(func(e *Event) { e.Shares = 1e8 * 1e8 }), "insufficient_funds"},
		"a sell of too many shares":      {buy(func(e *Event) { e.Side, e.Shares = Sell, 251e8 }), "insufficient_shares"},
		"a cancel of no order":           {cancel(func(e *Event) { e.Order = 9 }), "unknown_order"},
		"a cancel of another's order":    {cancel(func(e *Event) { e.Account = "1" }), "foreign_order"},
		"a cancel of an executed order":  {cancel(func(e *Event) { e.Order = 1 }), "already_executed"},
		"a cancel of no symbol":          {cancel(func(e *Event) { e.Symbol = "QQQ" }), "never created"},
		"a cancel of more than was open": {cancel(func(e *Event) { e.Shares++ }), "of order 3"},
		"a cancel of less than was open": {cancel(func(e *Event) { e.Shares-- }), "of order 3"},
		"a cancel at another limit":      {cancel(func(e *Event) { e.Limit++ }), "of order 3"},
		"a cancel of the other side":     {cancel(func(e *Event) { e.Side = Buy }), "of order 3"},
		"more cash than there may be": {
			Event{Kind: AccountOpened, Account: "9", Balance: CashTotalMax},
			"balance_total_exceeded",
		},
		"more shares than there may be": {
			Event{Kind: SharesDeposited, Symbol: "SPY", Account: "1", Deposited: PositionTotalMax},
			"position_total_exceeded",
		},
		"a halt of no symbol":              {Event{Kind: SymbolHalted, Symbol: "QQQ"}, "never created"},
		"a resume of a symbol that trades": {Event{Kind: SymbolResumed, Symbol: "SPY"}, "was not halted"},
		"a cancel-all of no order": {
			Event{Kind: OrdersCanceled, Account: "2", Cancels: []Cancel{{3, "SPY", Terms{Side: Sell, Limit: 12e8}, 50e8}, {9,
				"SPY",
				Terms{Side: Sell, Limit: 1}, 1}}},
			"unknown_order",
		},
		"a cancel-all of another's order": {
			Event{Kind: OrdersCanceled, Account: "1", Cancels: []Cancel{{3, "SPY", Terms{Side: Sell, Limit: 12e8}, 50e8}}},
			"foreign_order",
		},
		"a cancel-all of more than is open": {
			Event{Kind: OrdersCanceled, Account: "2", Cancels: []Cancel{{3, "SPY", Terms{Side: Sell, Limit: 12e8}, 51e8}}},
			"of order 3",
		},
		"an order that should have filled": {buy(func(e *Event) { e.Limit = 13e8 }), "was filled"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			replay(t, s, filled(t))
			require.ErrorContains(t, s.Apply(&row.event), row.want)
		})
	}
}

func TestReplayRefusesAnOrderForAHaltedSymbol(t *testing.T) {
	s := NewState()
	replay(t, s, append(filled(t), Event{Kind: SymbolHalted, Time: 7, Symbol: "SPY"}))
	order := Event{Kind: OrderAccepted, Account: "1", Symbol: "SPY", Terms: Terms{Side: Buy, Limit: 1e8}, Shares: 1e8,
		Order: 9}
	require.ErrorContains(t, s.Apply(&order), "order 9 was accepted, but now symbol_halted since 7")
}

func TestReplayRefusesAnyEventTwice(t *testing.T) {
	events := filled(t)
	ok := Event{Kind: OrderCanceled, Account: "2", Symbol: "SPY", Terms: Terms{Side: Sell, Limit: 12e8}, Shares: 50e8,
		Order: 3}
	events = append(events, ok, Event{Kind: OrdersCanceled, Account: "2",
		Cancels: []Cancel{{4, "SPY", Terms{Side: Sell, Limit: 13e8}, 100e8}}},
		Event{Kind: SymbolHalted, Symbol: "SPY"}, Event{Kind: SymbolResumed, Symbol: "SPY"},
		Event{Kind: SymbolHalted, Symbol: "SPY"})
	for i, e := range events {
		if e.Kind == SharesDeposited {
			continue // repeated deposits are valid: the journal's sequence numbers distinguish them
		}
		s := NewState()
		replay(t, s, events[:i+1])
		require.Error(t, s.Apply(&e), "event %d", i)
	}
}

// TestAuditFindsHoldsThatNoOrderNeeds makes the ledger and the books inconsistent with each other, although each is
// valid by itself.
func TestAuditFindsHoldsThatNoOrderNeeds(t *testing.T) {
	for name, spoil := range map[string]func(s *State){
		"cash held without an order": func(s *State) {
			a := s.Ledger.Account("1")
			a.balance, a.held = a.balance.Sub(Cash{Lo: 7}), a.held.Add(Cash{Lo: 7})
		},
		"shares held without an order": func(s *State) {
			h := s.Ledger.instruments["SPY"].positions[s.Ledger.Account("2")]
			h.shares, h.held = h.shares.Sub(Position{Lo: 7}), h.held.Add(Position{Lo: 7})
		},
		"a buy without a hold": func(s *State) {
			s.Books["SPY"].Submit(NewOrder(9, s.Ledger.Account("2"), Buy, 1, 1), 0, nil)
		},
		"a sell without a hold": func(s *State) {
			s.Books["SPY"].Submit(NewOrder(9, s.Ledger.Account("2"), Sell, 1, 99e8), 0, nil)
		},
		"a sell without a position": func(s *State) {
			s.Ledger.Open("3", Cash{})
			s.Books["SPY"].Submit(NewOrder(9, s.Ledger.Account("3"), Sell, 1, 99e8), 0, nil)
		},
		"a broken ledger": func(s *State) { s.Ledger.opened = Cash{} },
		"a broken book":   func(s *State) { s.Books["SPY"].resting[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			events := filled(t)
			replay(t, s, append(events, Event{Kind: SharesDeposited, Symbol: "SPY", Account: "2", Deposited: Position{Lo: 100}}))
			require.NoError(t, s.Audit())
			spoil(s)
			require.Error(t, s.Audit())
		})
	}
}
