package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// instructedSeeds returns events of version 4, most of which can be applied to smallState.
func instructedSeeds() []Event {
	own := Terms{Side: Sell, Limit: 5}
	return []Event{
		{
			Kind:         OrderAccepted,
			Account:      "2",
			Symbol:       "S",
			Terms:        Terms{Side: Buy, TIF: IOC, STP: CancelBoth, Limit: 6},
			Order:        3,
			Shares:       7,
			Rest:         7,
			Own:          []Cancel{{Order: 1, Terms: own, Shares: 100}},
			OnDisconnect: true,
			Unsent:       UnsentSTP,
		},
		{Kind: OrderAccepted, Account: "2", Symbol: "S", Terms: Terms{Side: Buy, STP: CancelOldest, Limit: 6}, Order: 3,
			Shares: 7, Own: []Cancel{{Order: 1, Terms: own, Shares: 100}}},
		{
			Kind:    OrderAccepted,
			Account: "1",
			Symbol:  "S",
			Terms:   Terms{Side: Buy, TIF: FOK, Type: Market, Limit: 6},
			Order:   3,
			Shares:  5,
			Unsent:  UnsentLimit,
			Fills:   []Fill{{Resting: 1, Account: "2", Shares: 5, Price: 5}},
		},
		{
			Kind:    OrderAccepted,
			Account: "1",
			Symbol:  "S",
			Terms:   Terms{Side: Buy, TIF: IOC, Type: Market, Limit: 6},
			Order:   3,
			Shares:  5,
			Hold:    Cash{Lo: 5},
			Fills:   []Fill{{Resting: 1, Account: "2", Shares: 4, Price: 5}},
		},
		{
			Kind:    OrderAccepted,
			Account: "1",
			Symbol:  "S",
			Terms:   Terms{Side: Buy, Post: true, Limit: 4},
			Order:   3,
			Shares:  5,
		},
		{Kind: OrderContinued, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, TIF: IOC, STP: CancelNewest, Limit: 6},
			Order: 3, Shares: 5, Before: 1, Rest: 5},
		{Kind: OrderReduced, Account: "2", Symbol: "S", Terms: own, Order: 1, Shares: 40,
			Amend: &Amendment{First: 1, Amount: 60, Open: 60}},
		{
			Kind:    OrderReduced,
			Account: "2",
			Symbol:  "S",
			Terms:   own,
			Order:   1,
			Ref:     "R",
			Amend:   &Amendment{First: 1, Open: 100},
		},
		{
			Kind:    OrderReplaced,
			Account: "2",
			Symbol:  "S",
			Terms:   Terms{Side: Sell, Limit: 4},
			Order:   3,
			Shares:  120,
			Ref:     "R",
			Amend:   &Amendment{First: 1, Amount: 120, Limit: 4, Old: Cancel{Order: 1, Terms: own, Shares: 100}},
		},
		{
			Kind:    AccountRuled,
			Account: "1",
			AccountRules: &AccountRules{Block: &Halt{Since: 5, Reason: "why"}, STP: CancelBoth,
				SharesMax: 7, NotionalMax: Cash{Lo: 8}, OpenMax: 9},
		},
		{Kind: AccountRuled, Account: "1", AccountRules: new(AccountRules)},
		{Kind: SymbolRuled, Symbol: "S", SymbolRules: &SymbolRules{Tick: 2, Lot: 3, Protect: 4, Band: 5}},
		{Kind: SymbolMade, Symbol: "T", SymbolRules: &SymbolRules{Tick: 2}},
		{Kind: SwitchSet, Account: "1", Due: 1e18},
		{Kind: OrdersCanceled, Account: "1", Cause: BySwitch},
		{Kind: OrdersCanceled, Account: "2", Cause: ByDisconnect, Cancels: []Cancel{{1, "S", own, 100}}},
	}
}

// TestSmallStateTakesTheSeeds applies all seeds except the two that are further parts of an order.
func TestSmallStateTakesTheSeeds(t *testing.T) {
	for i, e := range instructedSeeds() {
		require.Equal(t, 4, e.NeedsVersion())
		require.Equal(t, e, decoded(t, AppendEvent(nil, &e)))
		s := smallState(t)
		if err := s.Apply(&e); i != 3 && i != 5 {
			require.NoError(t, err, "seed %d", i)
			require.NoError(t, s.Audit())
		} else {
			require.Error(t, err)
		}
	}
}

// FuzzDecodeEvent decodes arbitrary bytes: DecodeEvent must not panic and must allocate in
// proportion to its input, and a decoded event must encode and decode to itself. Applying
// the event to a state either fails or leaves a valid state.
func FuzzDecodeEvent(f *testing.F) {
	for _, e := range []Event{
		{Kind: AccountOpened, Time: 1, Account: "42", Balance: Cash{Hi: 5, Lo: 3}},
		{Kind: SymbolMade, Time: -1, Symbol: "SPY"},
		{Kind: SharesDeposited, Account: "1", Symbol: "S", Deposited: Position{Lo: 128}},
		{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 3, Shares: 5,
			Fills: []Fill{{Resting: 1, Account: "2", Shares: 4, Price: 5}}},
		{Kind: OrderCanceled, Account: "2", Symbol: "S", Terms: Terms{Side: Sell, Limit: 5}, Order: 1, Shares: 100},
		{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 4}, Order: 3, Shares: 5, Ref: "R-1"},
		{Kind: SymbolHalted, Symbol: "S", Reason: "news"},
		{Kind: SymbolResumed, Symbol: "S"},
		{Kind: OrdersCanceled, Account: "2", Cancels: []Cancel{{1, "S", Terms{Side: Sell, Limit: 5}, 100}}},
		{Kind: OrderContinued, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 3, Shares: 5, Before: 1,
			Fills: []Fill{{Resting: 1, Account: "2", Shares: 4, Price: 5}}},
	} {
		f.Add(AppendEvent(nil, &e))
	}
	for _, e := range instructedSeeds() {
		f.Add(AppendEvent(nil, &e))
	}
	f.Add([]byte{4, 0, 1, 1, '1', 1, 'S', 1, 1, 1, 255, 255, 255, 255, 15}) // a billion fills
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Event
		err := DecodeEvent(b, &e)
		require.LessOrEqual(t, cap(e.Fills), len(b)/2+8) // a fill takes at least 4 bytes; append may double
		require.LessOrEqual(t, cap(e.Cancels), len(b)/cancelBytesMin)
		require.LessOrEqual(t, cap(e.Own), len(b)/ownBytesMin)
		if err != nil {
			require.ErrorIs(t, err, ErrEvent)
			return
		}
		if len(e.Fills) == 0 {
			e.Fills = nil
		}
		again := AppendEvent(nil, &e)
		require.Equal(t, e, decoded(t, again))
		if e.NeedsVersion() < 4 && b[0]&flagsFollows != 0 {
			require.Zero(t, again[1], "records for earlier programs have no flags")
		}
		var kept KeptEvent
		require.NoError(t, new(Decoder).DecodeKept(b, &kept))
		require.True(t, e.Same(kept.Event(new(Event))))

		s := smallState(t)
		if s.Apply(&e) == nil {
			require.NoError(t, s.Audit())
		}
	})
}

// smallState returns a state with two accounts, a symbol, and an open sell.
func smallState(t testing.TB) *State {
	d := newShard()
	require.Equal(t, OK, d.open("1", dollars(t, "1000")))
	require.Equal(t, OK, d.open("2", dollars(t, "10")))
	d.list("S")
	require.Equal(t, OK, d.place("S", "2", Position{Lo: 1000}))
	_, _, r := d.order("2", "S", Sell, 100, 5)
	require.Equal(t, OK, r)
	return d.State
}
