package exchange

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestANodeTakes64Bytes checks the size that node's comment explains.
func TestANodeTakes64Bytes(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(node{}))
}

// TestReplayRefusesWhatInstructionsDidOtherwise changes one number at a time in records of version 4.
func TestReplayRefusesWhatInstructionsDidOtherwise(t *testing.T) {
	r := testRand(t)
	tried := map[string]int{}
	for pairs := 0; pairs < 60 || len(tried) < 15; pairs++ { // rare changes may take longer
		require.Less(t, pairs, 600, "%v", tried)
		p := newPair(t, r)
		for range 40 {
			p.step(t)
		}
		for i := range p.events {
			for name, change := range map[string]func(e *Event){
				"rest": func(e *Event) {
					mustBe(e.Rest > 0 || len(e.Fills)+len(e.Own) < fewFills) // a full part may have stopped at an own order
					e.Rest++
				},
				"no rest":           func(e *Event) { e.Rest = 0 },
				"own":               func(e *Event) { e.Own = append([]Cancel{}, e.Own...); e.Own[0].Shares++ },
				"another own order": func(e *Event) { e.Own = append([]Cancel{}, e.Own...); e.Own[len(e.Own)-1].Order++ },
				"no own":            func(e *Event) { e.Own = e.Own[1:] },
				"hold":              func(e *Event) { e.Hold.Lo++ },
				"no hold":           func(e *Event) { mustBe(e.Hold != Cash{}); e.Hold = Cash{} },
				"first":             func(e *Event) { a := *e.Amend; a.First++; e.Amend = &a },
				"executed before":   func(e *Event) { a := *e.Amend; a.Executed++; e.Amend = &a },
				"open after":        func(e *Event) { a := *e.Amend; mustBe(a.Open > 0); a.Open++; e.Amend = &a },
				"old":               func(e *Event) { a := *e.Amend; mustBe(a.Open == 0); a.Old.Order++; e.Amend = &a },
				"old shares":        func(e *Event) { a := *e.Amend; mustBe(a.Open == 0); a.Old.Shares++; e.Amend = &a },
				"cod of a replacement": func(e *Event) {
					mustBe(e.Kind == OrderReplaced)
					e.OnDisconnect = !e.OnDisconnect
				},
				"stp": func(e *Event) { mustBe(len(e.Own) > 0); e.STP = TradeWithSelf },
				"tif": func(e *Event) {
					mustBe(e.Rest > 0 && e.TIF == IOC && e.Type == Limited && e.STP == TradeWithSelf)
					e.TIF = GTC
				},
			} {
				e := p.events[i]
				if !changed(&e, change) || bytes.Equal(AppendEvent(nil, &e), AppendEvent(nil, &p.events[i])) {
					continue
				}
				s := NewState()
				s.Index.FillsMax = fewFills
				replay(t, s, p.events[:i])
				require.Error(t, s.Apply(&e), "%s of %s, %+v", name, e.Kind, p.events[i])
				tried[name]++
			}
		}
	}
	require.Len(t, tried, 15, "%v", tried)
}

// mustBe ends a change that does not apply to the event.
func mustBe(ok bool) {
	if !ok {
		panic("not this one")
	}
}

// changed calls change for e and reports whether it applied.
func changed(e *Event, change func(e *Event)) (ok bool) {
	defer func() { ok = recover() == nil }()
	change(e)
	return
}

// TestOnlyWhatMayRestIsRestored covers terms and the lineage of amends.
func TestOnlyWhatMayRestIsRestored(t *testing.T) {
	plain := Terms{Side: Buy, Limit: 6}
	for name, o := range map[string]Order{
		"an IOC":                               {Terms: Terms{Side: Buy, TIF: IOC, Limit: 6}},
		"an FOK":                               {Terms: Terms{Side: Buy, TIF: FOK, Limit: 6}},
		"invalid terms":                        {Terms: Terms{Side: Buy, TIF: IOC, Post: true, Limit: 6}},
		"reduced below":                        {Terms: plain, Lineage: &Lineage{Changes: Changes{Reduced: 2}, First: 3}},
		"a first order without an earlier one": {Terms: Terms{Side: Buy, Limit: 6}, Lineage: &Lineage{First: 2}},
		"an earlier order without a first one": {Terms: Terms{Side: Buy, Limit: 6}, Lineage: &Lineage{Replaces: 2}},
		"replaced by an older order":           {Terms: plain, Lineage: &Lineage{Changes: Changes{Replaced: 2}, First: 3}},
		"replaces a newer order":               {Terms: Terms{Side: Buy, Limit: 6}, Lineage: &Lineage{First: 2, Replaces: 4}},
	} {
		o.ID, o.Account, o.Shares, o.Open = 3, ann, 5, 4
		if o.Lineage == nil || o.Lineage.Reduced == 0 {
			o.Executions = []Execution{{Shares: 1, Price: 6, Time: 1}}
		}
		b := NewBook()
		require.Error(t, b.Restore(&o), name)
		require.NoError(t, b.Check())
	}
}

// TestAnUnfinishedOrderOfEveryKindSurvivesARestore covers orders without executions, too.
func TestAnUnfinishedOrderOfEveryKindSurvivesARestore(t *testing.T) {
	for _, terms := range []Terms{
		{Side: Buy, Limit: 10}, {Side: Buy, TIF: IOC, Limit: 10}, {Side: Buy, TIF: FOK, Limit: 10},
		{Side: Buy, TIF: IOC, Type: Market, Limit: 10}, {Side: Buy, STP: CancelOldest, Limit: 10},
		{Side: Buy, TIF: IOC, Type: Market, STP: CancelOldest, Limit: 10}, {Side: Buy, STP: CancelNewest, Limit: 10},
		{Side: Buy, TIF: FOK, STP: CancelBoth, Limit: 10},
	} {
		owners := []AccountID{"2", "2", "2", "2", "2"}
		if terms.STP == CancelOldest {
			owners = []AccountID{"1", "1", "1", "2", "1"}
		}
		d := newDesk(t, []AccountID{"1", "2"}, 1000, 100)
		for _, a := range owners {
			_, r := d.submit(&Order{Account: d.Ledger.Account(a), Terms: Terms{Side: Sell, Limit: 9}, Shares: 2, Open: 2})
			require.Equal(t, OK, r)
		}
		at := len(d.events)
		size := Shares(9)
		if terms.TIF == FOK {
			size = 8
		}
		_, r := d.submit(&Order{Account: d.Ledger.Account("1"), Terms: terms, Shares: size, Open: size})
		require.Equal(t, OK, r)
		require.Len(t, d.events, at+2)
		s := NewState()
		s.Index.FillsMax = fewFills
		replay(t, s, d.events[:at+1])
		require.NotZero(t, s.Books[deskSymbol].Unfinished())
		restored, err := snapshotOf(s, d.events[:at+1]).Restore()
		require.NoError(t, err, terms.words())
		restored.Index.FillsMax = fewFills
		replay(t, restored, d.events[at+1:])
		require.NoError(t, restored.Audit())
		require.Equal(t, d.Digest(), restored.Digest())
	}
}

// TestBandAndProtectionAreExact tries prices one unit inside and outside of each bound.
func TestBandAndProtectionAreExact(t *testing.T) {
	rules := SymbolRules{Band: 5e6, Protect: 3e6} // 5 % and 3 %
	for _, row := range []struct{ last, buyMax, sellMin Price }{
		{100e8, 105e8, 95e8}, {1, 1, 1}, {19, 19, 19}, {20, 21, 19}, {21, 22, 20},
		{limitMax, limitMax, 8_550_000_000_000_000_000},
		{0, limitMax, 1},
	} {
		buyMax, sellMin := rules.Bounds(row.last)
		require.Equal(t, []Price{row.buyMax, row.sellMin}, []Price{buyMax, sellMin}, "last %d", row.last)
		for _, outside := range []Price{0, 1} {
			if row.buyMax < limitMax {
				_, out := rules.Outside(Buy, buyMax+outside, row.last)
				require.Equal(t, outside == 1, out)
			}
			if row.sellMin > 1 {
				_, out := rules.Outside(Sell, sellMin-outside, row.last)
				require.Equal(t, outside == 1, out)
			}
		}
	}
	require.Equal(t, Price(103), rules.Protection(Buy, 100, 0))
	require.Equal(t, Price(97), rules.Protection(Sell, 100, 0))
	require.Equal(t, Price(101), rules.Protection(Buy, 99, 0), "rounded towards the best price")
	require.Equal(t, Price(97), rules.Protection(Sell, 99, 0), "rounded towards the best price")
	require.Equal(t, Price(105), rules.Protection(Buy, 104, 100), "within the band")
	require.Equal(t, Price(95), rules.Protection(Sell, 96, 100), "within the band")
	require.Equal(t, Price(110), SymbolRules{}.Protection(Buy, 100, 0))
	require.Equal(t, limitMax, rules.Protection(Buy, limitMax, 0))
	require.Equal(t, Price(1), SymbolRules{Protect: math.MaxUint32}.Protection(Sell, limitMax, 0))
	require.Equal(t, limitMax, SymbolRules{Protect: math.MaxUint32}.Protection(Buy, limitMax, 0))
	require.True(t, SymbolRules{Tick: 5}.OnTick(10) && !SymbolRules{Tick: 5}.OnTick(11) && SymbolRules{}.OnTick(11))
	require.True(t, SymbolRules{Lot: 5}.OnLot(10) && !SymbolRules{Lot: 5}.OnLot(9) && SymbolRules{}.OnLot(9))
}

// TestRulesComeBack checks that a replay and a snapshot restore rules, and that digests and comparisons cover them.
func TestRulesComeBack(t *testing.T) {
	base := func() *desk { return newDesk(t, []AccountID{"1", "2"}, 1000, 100) }
	blocked := func(why string) *AccountRules {
		return &AccountRules{Block: &Halt{Since: 7 * Second, Reason: why}}
	}
	seen := map[[32]byte]string{base().Digest(): "nothing"}
	for name, e := range map[string]Event{
		"block":   {Kind: AccountRuled, Account: "1", AccountRules: blocked("x")},
		"reason":  {Kind: AccountRuled, Account: "1", AccountRules: blocked("y")},
		"another": {Kind: AccountRuled, Account: "2", AccountRules: blocked("x")},
		"stp":     {Kind: AccountRuled, Account: "1", AccountRules: &AccountRules{STP: CancelBoth}},
		"shares":  {Kind: AccountRuled, Account: "1", AccountRules: &AccountRules{SharesMax: 1}},
		"dollars": {Kind: AccountRuled, Account: "1", AccountRules: &AccountRules{NotionalMax: Cash{Lo: 1}}},
		"orders":  {Kind: AccountRuled, Account: "1", AccountRules: &AccountRules{OpenMax: 1}},
		"switch":  {Kind: SwitchSet, Account: "1", Due: 5},
		"later":   {Kind: SwitchSet, Account: "1", Due: 6},
		"tick":    {Kind: SymbolRuled, Symbol: deskSymbol, SymbolRules: &SymbolRules{Tick: 5}},
		"lot":     {Kind: SymbolRuled, Symbol: deskSymbol, SymbolRules: &SymbolRules{Lot: 5}},
		"protect": {Kind: SymbolRuled, Symbol: deskSymbol, SymbolRules: &SymbolRules{Protect: 5}},
		"band":    {Kind: SymbolRuled, Symbol: deskSymbol, SymbolRules: &SymbolRules{Band: 5}},
	} {
		d := base()
		require.NoError(t, d.Apply(&e))
		require.Empty(t, seen[d.Digest()], name)
		seen[d.Digest()] = name
		snap := snapshotOf(d.State, d.events)
		restored, err := snap.Restore()
		require.NoError(t, err)
		require.Equal(t, d.Digest(), restored.Digest(), name)
		require.NoError(t, restored.SameHoldings(snap))
		require.Error(t, base().SameHoldings(snap), name)
		for _, off := range []Event{
			{Kind: AccountRuled, Account: e.Account, AccountRules: new(AccountRules)},
			{Kind: SwitchSet, Account: e.Account}, {Kind: SymbolRuled, Symbol: deskSymbol, SymbolRules: new(SymbolRules)},
		} {
			if off.Kind == e.Kind {
				require.NoError(t, d.Apply(&off))
			}
		}
		require.Equal(t, "nothing", seen[d.Digest()], "%s is taken back", name)
	}
	d := base()
	require.NoError(t, d.Apply(&Event{Kind: SwitchSet, Account: "1", Due: 5}))
	require.EqualValues(t, 5, d.Ledger.Account("1").Due())
	require.NoError(t, d.Apply(&Event{Kind: OrdersCanceled, Account: "1", Cause: BySwitch}))
	require.Zero(t, d.Ledger.Account("1").Due(), "it has fired")
	for _, e := range []Event{{Kind: SwitchSet, Account: "9", Due: 5},
		{Kind: OrdersCanceled, Account: "9", Cause: BySwitch},
		{Kind: AccountRuled, Account: "9", AccountRules: new(AccountRules)},
		{Kind: SymbolRuled, Symbol: "X", SymbolRules: new(SymbolRules)}} {
		require.ErrorContains(t, d.Apply(&e), "replay")
	}
}

// TestARefOfAChainLeadsToItsNewest also checks that two amends are the same use of a ref only with the same chain
// and values.
func TestARefOfAChainLeadsToItsNewest(t *testing.T) {
	d := newDesk(t, []AccountID{"1"}, 1000, 100)
	_, r := d.submit(&Order{Account: d.Ledger.Account("1"), Terms: Terms{Side: Sell, Limit: 9}, Shares: 20, Open: 20})
	require.Equal(t, OK, r)
	_, _, r = d.amend(1, 30, 9)
	require.Equal(t, OK, r)
	_, _, r = d.amend(2, 25, 9)
	require.Equal(t, OK, r)
	replaced, reduced := d.events[len(d.events)-2], d.events[len(d.events)-1]
	replaced.Ref, reduced.Ref = "a", "b"
	u, v := replaced.Use(), reduced.Use()
	require.Equal(
		t,
		RefUse{Kind: AmendOrder, Symbol: deskSymbol, Terms: Terms{Side: Sell, Limit: 9}, Quantity: Int128{Lo: 30},
			Order: 2, Amend: &AmendUse{First: 1, Named: 1, Amended: Amended{By: 2}}},
		u,
	)
	require.Equal(
		t,
		RefUse{Kind: AmendOrder, Symbol: deskSymbol, Terms: Terms{Side: Sell}, Quantity: Int128{Lo: 25}, Order: 2,
			Amend: &AmendUse{First: 1, Named: 2, Amended: Amended{Open: 25, Reduced: 5, Time: d.now}}},
		v,
	)
	require.Equal(t, OrderID(2), d.book.Newest(v.First()))
	c := Command{Kind: AmendOrder, Account: "1", Symbol: deskSymbol, Shares: 30, Terms: Terms{Side: Sell, Limit: 9}}
	use := c.Use()
	use.Amend.First = 1
	require.True(t, use.Same(u))
	use.Amend.First = 2
	require.False(t, use.Same(u), "of another chain")
	use = c.Use()
	use.Amend.First, use.Quantity = 1, Int128{Lo: 31}
	require.False(t, use.Same(u))
	require.Equal(t, OrderID(1), d.book.Forget())
	require.Equal(t, OrderID(2), d.book.Newest(1), "an older order of the chain is forgotten")
	// If the newest order is forgotten, the chain leads to its first order again.
	_, r = d.deskCancel("1", 2)
	require.Equal(t, OK, r)
	forgetAll(d.book)
	require.Equal(t, OrderID(1), d.book.Newest(1))
	require.Empty(t, d.book.more.lineage)
	require.Empty(t, d.book.more.newest)
}
