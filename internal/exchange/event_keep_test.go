package exchange

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fragile returns a string of memory that spoil overwrites later.
func fragile[S ~string](s S, spoil *[]func()) S {
	memory := []byte(s)
	*spoil = append(*spoil, func() {
		for i := range memory {
			memory[i] = '!'
		}
	})
	return S(unsafe.String(unsafe.SliceData(memory), len(memory)))
}

// fragileEvent returns a copy of e like an event of an engine: the text of a command is in its frame, and lists,
// amendments and rules are in memory that the next command reuses. spoil overwrites all of that.
func fragileEvent(e Event) (_ *Event, spoil func()) {
	var all []func()
	switch e.Kind {
	case OrderAccepted, OrderCanceled, OrdersCanceled, OrderContinued, OrderReduced, OrderReplaced:
		// Their names belong to the ledger.
	case AccountOpened, SymbolMade, SharesDeposited, AccountRuled, SymbolRuled, SwitchSet, SymbolHalted, SymbolResumed:
		e.Account, e.Symbol = fragile(e.Account, &all), fragile(e.Symbol, &all)
	}
	e.Ref, e.Reason = fragile(e.Ref, &all), fragile(e.Reason, &all)
	fills, own, cancels := append([]Fill{}, e.Fills...), append([]Cancel{}, e.Own...), append([]Cancel{}, e.Cancels...)
	for i := range fills {
		fills[i].Closed, fills[i].owner = true, new(Account)
	}
	e.Fills, e.Own, e.Cancels = fills, own, cancels
	all = append(all, func() {
		for i := range fills {
			fills[i] = Fill{Account: "spoiled"}
		}
		for _, list := range [][]Cancel{own, cancels} {
			for i := range list {
				list[i] = Cancel{Symbol: "spoiled"}
			}
		}
	})
	if e.Amend != nil {
		amend := *e.Amend
		e.Amend = &amend
		all = append(all, func() { amend = Amendment{} })
	}
	if e.AccountRules != nil {
		rules := *e.AccountRules
		if e.AccountRules = &rules; rules.Block != nil {
			block := *rules.Block
			block.Reason = fragile(block.Reason, &all)
			rules.Block = &block
			all = append(all, func() { block = Halt{} })
		}
		all = append(all, func() { rules = AccountRules{} })
	}
	if e.SymbolRules != nil {
		rules := *e.SymbolRules
		e.SymbolRules = &rules
		all = append(all, func() { rules = SymbolRules{} })
	}
	return &e, func() {
		for _, one := range all {
			one()
		}
		e = Event{}
	}
}

// bareLists makes empty lists nil.
func bareLists(e Event) Event {
	if len(e.Fills) == 0 {
		e.Fills = nil
	}
	if len(e.Own) == 0 {
		e.Own = nil
	}
	if len(e.Cancels) == 0 {
		e.Cancels = nil
	}
	return e
}

// TestAKeptEventStaysAsItIs keeps or decodes events in a few places, which are recycled and reused, overwrites the
// memory that the events were made from, and expects the last event of each place to be unchanged.
func TestAKeptEventStaysAsItIs(t *testing.T) {
	kinds := map[EventKind]int{}
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		events := rapid.SliceOfN(anyEvent(), 1, 30).Draw(t, "events")
		var kept [3]KeptEvent
		var last [3]*Event
		for i := range events {
			kinds[events[i].Kind]++
			at := rapid.IntRange(0, len(kept)-1).Draw(t, "place")
			kept[at].Recycle()
			last[at] = &events[i]
			if rapid.Bool().Draw(t, "decoded") {
				record := AppendEvent(nil, &events[i])
				require.NoError(t, d.DecodeKept(record, &kept[at]))
				clear(record)
			} else {
				e, spoil := fragileEvent(events[i])
				kept[at].Keep(e)
				spoil()
			}
		}
		var into Event
		for i, e := range last {
			if e == nil {
				continue
			}
			require.Equal(t, bareLists(*e), bareLists(*kept[i].Event(&into)))
			require.Equal(t, 1+len(e.Fills)+len(e.Own)+len(e.Cancels), kept[i].Work())
			lists := len(e.Fills)*int(unsafe.Sizeof(Fill{})) + (len(e.Own)+len(e.Cancels))*int(unsafe.Sizeof(Cancel{}))
			if kept[i].rare {
				require.GreaterOrEqual(t, kept[i].Extra(), max(lists, len(e.Ref)+len(e.Reason)))
			}
		}
	})
	for kind := range EventKinds() {
		require.NotZero(t, kinds[kind], kind)
	}
}

// TestTheCommonEventsAreKeptWithoutAllocation keeps an order without a fill, one with a fill, and a cancel, and makes
// their events in the same memory one after the other.
func TestTheCommonEventsAreKeptWithoutAllocation(t *testing.T) {
	order := Event{Kind: OrderAccepted, Time: 1, Account: "1", Symbol: "S", Order: 7, Shares: 5,
		Terms: Terms{Side: Buy, Limit: 3}}
	filled, canceled := order, order
	filled.Fills, canceled.Kind = []Fill{{Resting: 1, Account: "2", Shares: 5, Price: 3}}, OrderCanceled
	var into Event
	for _, e := range []*Event{&order, &filled, &canceled} {
		var k KeptEvent
		keep := func() {
			k.Keep(e)
			k.Event(&into)
			k.Recycle()
		}
		keep() // memory for into
		require.Zero(t, testing.AllocsPerRun(100, keep), e.Kind)
		k.Keep(e) // into has what it had for the event before
		require.Equal(t, bareLists(*e), bareLists(*k.Event(&into)))
	}
}

// TestAStateKeepsNothingOfAKeptEvent applies events to two states: to one directly, to the other as kept events that
// are overwritten immediately afterwards, like those of a follower. Both states must be the same.
func TestAStateKeepsNothingOfAKeptEvent(t *testing.T) {
	order := Event{Kind: OrderAccepted, Account: "1", Symbol: "S", Order: 1, Shares: 5, Ref: "third",
		Terms: Terms{Side: Buy, Limit: 4}}
	amend := Event{Kind: OrderReduced, Account: "1", Symbol: "S", Order: 1, Shares: 1, Ref: "fourth", Terms: order.Terms,
		Amend: &Amendment{First: 1, Amount: 4, Open: 4}}
	events := []Event{
		{Kind: SymbolMade, Symbol: "S", SymbolRules: &SymbolRules{Tick: 2}},
		{Kind: AccountOpened, Account: "1", Balance: Notional(1e8, 1e8), Ref: "first"},
		{Kind: SharesDeposited, Account: "1", Symbol: "S", Deposited: Shares(7).Position(), Ref: "second"},
		order, amend,
		{Kind: SymbolRuled, Symbol: "S", SymbolRules: &SymbolRules{Tick: 4}},
		{Kind: AccountRuled, Account: "1", AccountRules: &AccountRules{Block: &Halt{Since: 3, Reason: "late"}, OpenMax: 9}},
		{Kind: SymbolHalted, Symbol: "S", Time: 5, Reason: "news"},
	}
	want, got := NewState(), NewState()
	var kept KeptEvent
	for i := range events {
		require.NoError(t, want.Apply(&events[i]))
		kept.Keep(&events[i])
		require.NoError(t, got.Apply(kept.Event(new(Event))))
		kept.Recycle()
		kept.Keep(&Event{Kind: SymbolHalted, Symbol: "T", Reason: "some other text", Amend: &Amendment{First: 7},
			AccountRules: &AccountRules{Block: &Halt{Since: 8, Reason: "x"}}, SymbolRules: &SymbolRules{Tick: 9}})
		kept.Recycle()
	}
	require.Equal(t, "news", got.Books["S"].Halted().Reason)
	require.Equal(t, &Halt{Since: 3, Reason: "late"}, got.Ledger.Account("1").Rules().Block)
	for _, ref := range []Ref{"first", "second", "third", "fourth"} {
		a := want.Ledger.Account("1")
		use, used := want.Refs.Find(a, ref)
		require.True(t, used)
		again, used := got.Refs.Find(got.Ledger.Account("1"), ref)
		require.True(t, used, ref)
		require.Equal(t, use, again)
	}
	require.Equal(t, want.Digest(), got.Digest())
}
