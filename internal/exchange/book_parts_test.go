package exchange

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnOrderGoesOnAfterAnyOfItsParts stops a random session after each event that
// leaves an order unfinished, rebuilds the state by a replay and from a snapshot, and
// continues: the next parts and the resulting state must be those of the session.
func TestAnOrderGoesOnAfterAnyOfItsParts(t *testing.T) {
	s := newRandomSession(testRand(t))
	var cuts []int
	var after []string
	s.afterEvent = func() {
		after = append(after, dump(s.State))
		for _, b := range s.Books {
			if b.Unfinished() != 0 {
				cuts = append(cuts, len(s.events))
			}
		}
	}
	for len(cuts) < 20 {
		s.run(100)
	}
	for _, cut := range cuts {
		replayed := NewState()
		replay(t, replayed, s.events[:cut])
		require.NoError(t, replayed.Audit())
		loaded, err := snapshotOf(replayed, s.events[:cut]).Restore()
		require.NoError(t, err)
		require.Equal(t, replayed.Digest(), loaded.Digest())
		for _, state := range []*State{replayed, loaded} {
			state.Index.FillsMax = fewFills
			forgetClosed(state)
			d := &shard{State: state, now: s.events[cut].Time}
			sym := s.events[cut].Symbol
			d.finish(sym, new(Order))
			require.Equal(t, s.events[cut:cut+len(d.events)], d.events)
			require.NoError(t, state.Audit())
			want := NewState()
			replay(t, want, s.events[:cut+len(d.events)])
			require.Equal(t, want.Digest(), state.Digest())
			require.Zero(t, state.Books[sym].Unfinished())
		}
	}
}

// unfinished returns a book whose order 5, a buy at 12, has filled the sells 1 to 3 and would fill 4 next.
func unfinished(t *testing.T) *State {
	events := filled(t)
	last := &events[len(events)-1]
	s := NewState()
	last.Shares += 1e8
	last.Limit = 13e8
	replay(t, s, append(slices.Clone(events[:len(events)-1]), func() Event {
		d := newShard()
		replay(t, d.State, events[:len(events)-1])
		_, _, r := d.order("1", "SPY", Buy, shares(t, "310"), price(t, "13"))
		require.Equal(t, OK, r)
		return d.events[0]
	}()))
	require.Equal(t, OrderID(5), s.Books["SPY"].Unfinished())
	require.NoError(t, s.Audit())
	return s
}

// TestNothingHappensBeforeAnOrderIsFinished tries each kind of event of the symbol.
func TestNothingHappensBeforeAnOrderIsFinished(t *testing.T) {
	part := func(change func(e *Event)) Event {
		e := Event{Kind: OrderContinued, Account: "1", Symbol: "SPY", Terms: Terms{Side: Buy, Limit: 13e8}, Order: 5,
			Shares: 10e8,
			Before: 3,
			Fills:  []Fill{{Resting: 4, Account: "2", Shares: 10e8, Price: 13e8}}}
		change(&e)
		return e
	}
	for name, row := range map[string]struct {
		event Event
		want  string
	}{
		"shares placed": {
			Event{Kind: SharesDeposited, Symbol: "SPY", Account: "1", Deposited: Position{Lo: 1}},
			"order 5 is unfinished",
		},
		"an order": {
			Event{Kind: OrderAccepted, Account: "1", Symbol: "SPY", Terms: Terms{Side: Buy, Limit: 1}, Shares: 1, Order: 9},
			"order 5 is unfinished",
		},
		"its cancel": {
			Event{Kind: OrderCanceled, Account: "1", Symbol: "SPY", Terms: Terms{Side: Buy, Limit: 13e8}, Shares: 10e8,
				Order: 5},
			"order 5 is unfinished",
		},
		"another's cancel": {
			Event{Kind: OrderCanceled, Account: "2", Symbol: "SPY", Terms: Terms{Side: Sell, Limit: 13e8}, Shares: 100e8,
				Order: 4},
			"order 5 is unfinished",
		},
		"a halt":   {Event{Kind: SymbolHalted, Symbol: "SPY"}, "order 5 is unfinished"},
		"a resume": {Event{Kind: SymbolResumed, Symbol: "SPY"}, "order 5 is unfinished"},
		"a cancel of all": {
			Event{Kind: OrdersCanceled, Account: "1", Cancels: []Cancel{{5, "SPY", Terms{Side: Buy, Limit: 13e8}, 10e8}}},
			"order 5 is unfinished",
		},
		"a part of order 6":    {part(func(e *Event) { e.Order = 6 }), "order 5 is unfinished"},
		"a part of account 2":  {part(func(e *Event) { e.Account = "2" }), "order 5 is unfinished"},
		"a smaller part":       {part(func(e *Event) { e.Shares = 9e8; e.Fills[0].Shares = 9e8 }), "order 5 is unfinished"},
		"a part at 14":         {part(func(e *Event) { e.Limit = 14e8 }), "order 5 is unfinished"},
		"a part that sells":    {part(func(e *Event) { e.Side = Sell }), "order 5 is unfinished"},
		"a part after 2 fills": {part(func(e *Event) { e.Before = 2 }), "continues after 2 executions, but now after 3"},
		"a part after 4 fills": {part(func(e *Event) { e.Before = 4 }), "continues after 4 executions, but now after 3"},
		"a part filled less":   {part(func(e *Event) { e.Fills[0].Shares = 9e8 }), "was filled"},
		"a part with order 3":  {part(func(e *Event) { e.Fills[0].Resting = 3 }), "was filled"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, unfinished(t).Apply(&row.event), row.want)
		})
	}
	s := unfinished(t)
	e := part(func(*Event) {})
	require.NoError(t, s.Apply(&e))
	require.NoError(t, s.Audit())
	require.ErrorContains(t, s.Apply(&e), "now order 0 is unfinished")
}

func TestABookWithAnUnfinishedOrderPanicsAtAnythingElse(t *testing.T) {
	s := unfinished(t)
	b := s.Books["SPY"]
	require.Panics(t, func() { b.Submit(NewOrder(9, s.Ledger.Account("1"), Buy, 1, 1), 0, nil) })
	require.Panics(t, func() { b.Cancel(5, "1", 0) })
	require.Panics(t, func() { b.Cancel(4, "2", 0) })
	b.Continue(new(Order), 0, nil)
	require.Panics(t, func() { b.Continue(new(Order), 0, nil) })
}

// TestOnlyTheNewestOrderMayCross changes the stored values of an unfinished order.
func TestOnlyTheNewestOrderMayCross(t *testing.T) {
	for name, spoil := range map[string]func(b *Book, orders []OrderState) []OrderState{
		"it has executed nothing": func(b *Book, o []OrderState) []OrderState {
			o[1].Shares, o[1].Executions = o[1].Open, nil
			return o
		},
		"an older one crosses": func(b *Book, o []OrderState) []OrderState {
			o[0].ID, o[1].ID = 5, 4
			o[0], o[1] = o[1], o[0]
			return o
		},
		"a newer one is there": func(b *Book, o []OrderState) []OrderState {
			return append(o, OrderState{ID: 6, Account: "1", Symbol: "SPY", Terms: Terms{Side: Buy, Limit: 1}, Shares: 1,
				Open: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := unfinished(t)
			snap := &Snapshot{}
			for o := range s.Books["SPY"].Orders() {
				if o.Open > 0 {
					snap.Orders = append(snap.Orders, OrderState{ID: o.ID, Account: o.Account.ID, Symbol: "SPY",
						Terms:  Terms{Side: o.Side, Limit: o.Limit},
						Shares: o.Shares, Open: o.Open, Executions: o.Executions})
				}
			}
			slices.SortFunc(snap.Orders, func(a, b OrderState) int { return int(a.ID) - int(b.ID) })
			restore := func(orders []OrderState) error {
				st := NewState()
				st.Ledger.Open("1", Cash{})
				st.Ledger.Open("2", Cash{})
				book := st.List("SPY")
				for i := range orders {
					if err := orders[i].restore(st); err != nil {
						return err
					}
				}
				return book.Check()
			}
			require.NoError(t, restore(snap.Orders))
			require.Error(t, restore(spoil(s.Books["SPY"], snap.Orders)))
		})
	}
}

// TestARefusalLooksAtNoMoreThanAPart checks that FillBytesMax counts the orders of one part only, for an order that
// meets all orders of a long book.
func TestARefusalLooksAtNoMoreThanAPart(t *testing.T) {
	b := NewBook()
	for id := OrderID(1); id <= 3*FillsMax; id++ {
		b.Submit(NewOrder(id, ann, Sell, 1, 5), 0, nil)
	}
	o := NewOrder(3*FillsMax+1, bob, Buy, 3*FillsMax+7, 5)
	bytes, whole := b.FillBytesMax(o)
	require.False(t, whole)
	require.Equal(t, FillsMax*fillBytesMax(1), bytes, "only the orders of one part are counted")
	parts, each := b.PartsMax(o, 1)
	require.Equal(t, 3, parts)
	require.Equal(t, EventBytesMax+FillsMax*fillBytesMax(1), each)
	parts, _ = b.PartsMax(NewOrder(o.ID, bob, Buy, FillsMax, 5), 1)
	require.Equal(t, 1, parts, "an order of so few shares fills no more")
	fills := b.Submit(o, 0, nil)
	require.Len(t, fills, FillsMax)
	require.Len(t, b.Continue(o, 0, nil), FillsMax)
	require.Equal(t, o.ID, b.Unfinished())
	require.Len(t, b.Continue(o, 0, nil), FillsMax)
	require.Zero(t, b.Unfinished())
	require.Equal(t, Shares(7), o.Open)
	require.Len(t, o.Executions, 3*FillsMax)
	require.Equal(t, o.ID, b.orders.at(b.side(Buy).best.oldest).id, "its remainder is the best bid")
}

// TestATimeIsRoundedDownToSeconds checks Seconds, which replies and tables use.
func TestATimeIsRoundedDownToSeconds(t *testing.T) {
	for time, want := range map[int64]int64{0: 0, 1: 0, Second - 1: 0, Second: 1, -1: -1, -Second: -1, -Second - 1: -2} {
		require.Equal(t, want, Seconds(time), time)
	}
	b := NewBook()
	require.Equal(t, int64(7), b.Moment(7))
	require.Equal(t, int64(7), b.Moment(5), "times never go back")
	require.Equal(t, int64(8), b.Moment(8))
}

// TestAReplayEndsAPartWhereItEnded replays parts of every size that a part may have, and checks that
// a smaller part is rejected if something remains to be executed.
func TestAReplayEndsAPartWhereItEnded(t *testing.T) {
	const resting = PartFillsMin + 10
	for fills, want := range map[int]bool{PartFillsMin - 1: false, PartFillsMin: true, PartFillsMin + 9: true} {
		recorded, replayed := NewState(), NewState()
		recorded.Index.FillsMax = fills
		both := func(e Event) error {
			require.NoError(t, recorded.Apply(&e))
			return replayed.Apply(&e)
		}
		require.NoError(t, both(Event{Kind: AccountOpened, Account: "1", Balance: Notional(1000, 1000)}))
		require.NoError(t, both(Event{Kind: SymbolMade, Symbol: "A"}))
		require.NoError(t, both(Event{Kind: SharesDeposited, Symbol: "A", Account: "1", Deposited: Shares(1000).Position()}))
		order := Event{Kind: OrderAccepted, Account: "1", Symbol: "A", Terms: Terms{Side: Sell, Limit: 5}, Shares: 1}
		for order.Order = 1; order.Order <= resting; order.Order++ {
			require.NoError(t, both(order))
		}
		order.Side, order.Shares = Buy, resting
		book := recorded.Books["A"]
		o := NewOrder(order.Order, recorded.Ledger.Account("1"), Buy, resting, 5)
		require.Equal(t, OK, recorded.Ledger.Reserve(recorded.Ledger.Instrument("A"), o))
		order.Fills = book.Submit(o, 0, nil)
		require.Len(t, order.Fills, fills)
		err := replayed.Apply(&order)
		require.Equal(t, want, err == nil, "%d fills: %v", fills, err)
		if want {
			more := order
			more.Kind, more.Shares, more.Before = OrderContinued, o.Open, fills
			more.Fills = book.Continue(o, 0, nil)
			require.NoError(t, replayed.Apply(&more))
			require.Zero(t, replayed.Books["A"].Unfinished())
			require.NoError(t, replayed.Audit())
		}
	}
}

// TestPartsFitIntoTheirRecords checks PartFillsFor for many sizes of a record.
func TestPartsFitIntoTheirRecords(t *testing.T) {
	for bytes := EventBytesMax + PartFillsMin*fillBytesMax(AccountDigitsMax); bytes < 1<<20; bytes += 997 {
		fills := PartFillsFor(bytes)
		require.LessOrEqual(t, EventBytesMax+fills*fillBytesMax(AccountDigitsMax), bytes)
		require.GreaterOrEqual(t, fills, PartFillsMin)
		require.LessOrEqual(t, fills, FillsMax)
	}
	require.Equal(t, FillsMax, PartFillsFor(1<<20))
}
