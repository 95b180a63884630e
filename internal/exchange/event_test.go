package exchange

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// decoded decodes an event, with nil instead of an empty list of fills.
func decoded(t require.TestingT, b []byte) Event {
	var e Event
	require.NoError(t, DecodeEvent(b, &e))
	if len(e.Fills) == 0 {
		e.Fills = nil
	}
	return e
}

func TestDecodeReadsWhatAppendWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent().Draw(t, "event")
		b := AppendEvent([]byte("before"), &e)
		require.Equal(t, "before", string(b[:6]))
		require.Equal(t, e, decoded(t, b[6:]))
		if e.Kind == SymbolHalted || e.Kind == OrdersCanceled || e.Kind == AccountRuled {
			return // their size is checked separately when they are appended
		}
		most := EventBytesMax
		for _, f := range e.Fills {
			most += fillBytesMax(len(f.Account))
		}
		if e.NeedsVersion() > 3 {
			most += instructionBytesMax + len(e.Own)*ownBytesMax
		}
		require.LessOrEqual(t, len(b)-6, most)
	})
}

// TestEventsStayWithinTheirBound uses the largest value of every type.
func TestEventsStayWithinTheirBound(t *testing.T) {
	account, sym := AccountID(strings.Repeat("9", AccountDigitsMax)), Symbol(strings.Repeat("Z", SymbolCharsMax))
	most, cash := int64(math.MaxInt64), Int128{Hi: math.MinInt64, Lo: math.MaxUint64}
	e := Event{Terms: Terms{Side: Sell, Limit: Price(most)}, Time: math.MinInt64, Account: account, Symbol: sym,
		Balance:   Cash(cash),
		Deposited: Position(cash),
		Order:     math.MaxUint64, Shares: Shares(most), Ref: Ref(strings.Repeat("r", RefCharsMax))}
	for _, kind := range []EventKind{AccountOpened, SymbolMade, SharesDeposited, OrderAccepted, OrderCanceled,
		OrderContinued} {
		e.Kind, e.Before = kind, math.MaxInt32
		require.LessOrEqual(t, len(AppendEvent(nil, &e)), EventBytesMax, kind)
	}
	e.Kind = OrderAccepted
	one := len(AppendEvent(nil, &e))
	e.Fills = []Fill{{Resting: math.MaxUint64, Account: account, Shares: Shares(most), Price: Price(most)}}
	require.LessOrEqual(t, len(AppendEvent(nil, &e))-one, fillBytesMax(len(account)))
}

// TestTheBoundsOfAnEventAreExact uses negative numbers, whose encoding is the longest. The parts of the bounds that
// no event reaches are added here, byte by byte; the length of a list with one entry takes one byte.
func TestTheBoundsOfAnEventAreExact(t *testing.T) {
	const lengthOfFew = 1
	account := AccountID(strings.Repeat("9", AccountDigitsMax))
	e := Event{Kind: OrderContinued, Terms: Terms{Side: Sell, Limit: -1}, Time: math.MinInt64, Account: account,
		Symbol: Symbol(strings.Repeat("Z", SymbolCharsMax)), Order: math.MaxUint64, Shares: -1, Before: -1,
		Ref: Ref(strings.Repeat("r", RefCharsMax))}
	none := len(AppendEvent(nil, &e))
	require.Equal(t, EventBytesMax, none+varintMax-lengthOfFew)
	for digits := 1; digits <= AccountDigitsMax; digits++ {
		e.Fills = []Fill{{Resting: math.MaxUint64, Account: account[:digits], Shares: -1, Price: -1}}
		require.Equal(t, fillBytesMax(digits), len(AppendEvent(nil, &e))-none, "%d digits", digits)
	}
	own := Cancel{Order: math.MaxUint64, Terms: Terms{Side: Buy, Limit: -1}, Shares: -1}
	e.Fills, e.Own, e.Rest = nil, []Cancel{own}, -1
	one := len(AppendEvent(nil, &e))
	require.Equal(t, one, none+varintMax+lengthOfFew+ownBytesMax, "the rest, the number of own orders, and one")
	e.Own = append(e.Own, own)
	require.Equal(t, ownBytesMax, len(AppendEvent(nil, &e))-one)
	e.Kind, e.Hold = OrderReplaced, Cash{Hi: math.MinInt64, Lo: math.MaxUint64}
	e.Amend = &Amendment{First: math.MaxUint64, Amount: -1, Limit: -1, Executed: -1, Old: own}
	few := varintMax + lengthOfFew // Before, which the event does not have, and the length of Own
	amend := 4*varintMax + ownBytesMax
	require.Equal(t, none-few+2*varintMax+varintMax+2*lengthOfFew+2*ownBytesMax+amend, len(AppendEvent(nil, &e)))
	require.LessOrEqual(t, 2*varintMax+varintMax+varintMax+amend, instructionBytesMax)
}

// TestOneFillOfTheLargestValuesFitsWhatIsSetAside checks the room claimed before matching for an order that fills
// one order, as most do. All values are the largest that pass every check; only the resting account has a long id.
func TestOneFillOfTheLargestValuesFitsWhatIsSetAside(t *testing.T) {
	const most = orderUnitsMax - 1
	long, short := &Account{ID: AccountID(strings.Repeat("9", AccountDigitsMax))}, &Account{ID: "1"}
	for name, instruct := range map[string]func(o *Order){
		"plain":                      func(*Order) {},
		"with self-trade prevention": func(o *Order) { o.STP = CancelBoth },
		"at market":                  func(o *Order) { o.TIF, o.Type = IOC, Market },
	} {
		for _, accounts := range [][2]*Account{{long, short}, {short, long}, {long, {ID: long.ID[1:]}}} {
			b := NewBook()
			b.Submit(NewOrder(orderIDMax-1, accounts[0], Sell, most, most), math.MaxInt64, nil)
			o := NewOrder(orderIDMax, accounts[1], Buy, most, most)
			instruct(o)
			bytes, whole := b.FillBytesMax(o)
			require.True(t, whole, name)
			require.Equal(t, fillBytesMax(len(accounts[0].ID))+o.moreBytesMax(), bytes, name)
			var e Event
			fills := b.Submit(o, math.MaxInt64, nil)
			require.Len(t, fills, 1, name)
			e.Note(OrderAccepted, o, Symbol(strings.Repeat("Z", SymbolCharsMax)), most, math.MaxInt64)
			e.NoteMore(o, b.Own())
			e.Ref, e.Fills = Ref(strings.Repeat("r", RefCharsMax)), fills
			record := AppendEvent(nil, &e)
			require.LessOrEqual(t, len(record), EventBytesMax+bytes, name)
			require.NoError(t, DecodeEvent(record, new(Event)), "all of it passes every check")
		}
	}
}

func TestDecodeRefusesEveryTruncationAndEveryTrailingByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent().Draw(t, "event")
		b := AppendEvent(nil, &e)
		var got Event
		for n := range b {
			require.ErrorIs(t, DecodeEvent(b[:n], &got), ErrEvent, "%d of %d bytes", n, len(b))
		}
		extra := rapid.Byte().Draw(t, "trailing byte")
		require.ErrorIs(t, DecodeEvent(append(b, extra), &got), ErrEvent)
	})
}

func TestDecodeReusesTheFillsAndKeepsNothingElse(t *testing.T) {
	long := Event{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 1}, Order: 9, Shares: 3,
		Fills: []Fill{{Resting: 1, Account: "2", Shares: 1, Price: 1}, {Resting: 2, Account: "3", Shares: 1, Price: 1}}}
	placed := Event{Kind: SharesDeposited, Account: "7", Symbol: "T", Deposited: Position{Lo: 5}}
	b := AppendEvent(nil, &long)
	var e Event
	require.NoError(t, DecodeEvent(b, &e))
	first := &e.Fills[0]
	clear(b) // its strings are copies
	require.Equal(t, long, e)
	require.NoError(t, DecodeEvent(AppendEvent(nil, &placed), &e))
	e.Fills = e.Fills[:1]
	require.Same(t, first, &e.Fills[0])
	e.Fills = nil
	require.Equal(t, placed, e)
}

// TestEventsOfEarlierVersionsAreRead decodes events of versions 1 and 2: these bytes must never
// change, so that old journals remain readable. Their times are in seconds.
func TestEventsOfEarlierVersionsAreRead(t *testing.T) {
	long := strings.Repeat("x", HaltReasonCharsMax)
	for want, e := range map[string]Event{
		"\x01\x02\x0242\x00\x03": {Kind: AccountOpened, Time: 1, Account: "42", Balance: Cash{Lo: 3}},
		"\x02\x01\x03SPY":        {Kind: SymbolMade, Time: -1, Symbol: "SPY"},
		"\x03\x00\x03SPY\x0242\x02\x80\x01": {
			Kind: SharesDeposited, Account: "42", Symbol: "SPY", Deposited: Position{Hi: 1, Lo: 128},
		},
		"\x04\x00\x03\x017\x01S\x01\x05\x06\x01\x02\x018\x04\x05": {Kind: OrderAccepted, Account: "7", Symbol: "S",
			Terms: Terms{Side: Buy, Limit: 6}, Order: 3,
			Shares: 5, Fills: []Fill{{Resting: 2, Account: "8", Shares: 4, Price: 5}}},
		"\x05\x00\x03\x017\x01S\x02\x05\x06": {
			Kind: OrderCanceled, Account: "7", Symbol: "S", Terms: Terms{Side: Sell, Limit: 6}, Order: 3, Shares: 5,
		},
		"\x41\x02\x03a:7\x0242\x00\x03": {
			Kind: AccountOpened, Time: 1, Account: "42", Balance: Cash{Lo: 3}, Ref: "a:7",
		},
		"\x43\x00\x01.\x03SPY\x0242\x02\x80\x01": {
			Kind: SharesDeposited, Account: "42", Symbol: "SPY", Deposited: Position{Hi: 1, Lo: 128}, Ref: ".",
		},
		"\x44\x00\x02R1\x03\x017\x01S\x01\x05\x06\x00": {
			Kind: OrderAccepted, Account: "7", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 3, Shares: 5, Ref: "R1",
		},
		"\x06\x02\x03SPY\x03abc":       {Kind: SymbolHalted, Time: 1, Symbol: "SPY", Reason: "abc"},
		"\x06\x00\x01S\xc8\x01" + long: {Kind: SymbolHalted, Symbol: "S", Reason: long},
		"\x07\x02\x03SPY":              {Kind: SymbolResumed, Time: 1, Symbol: "SPY"},
		"\x08\x02\x017\x02\x03\x01A\x02\x05\x06\x02\x01B\x01\x07\x08": {Kind: OrdersCanceled, Time: 1, Account: "7",
			Cancels: []Cancel{{3, "A", Terms{Side: Sell, Limit: 6}, 5}, {2, "B", Terms{Side: Buy, Limit: 8}, 7}}},
	} {
		e.Time *= Second
		require.Equal(t, e, decoded(t, []byte(want)))
	}
}

// TestTheEncodingIsFixed checks the encoding of the current version: these bytes must never change, so
// that journals remain readable.
func TestTheEncodingIsFixed(t *testing.T) {
	long := strings.Repeat("x", HaltReasonCharsMax)
	for want, e := range map[string]Event{
		"\x81\x00\x02\x0242\x00\x03": {Kind: AccountOpened, Time: 1, Account: "42", Balance: Cash{Lo: 3}},
		"\x82\x00\x01\x03SPY":        {Kind: SymbolMade, Time: -1, Symbol: "SPY"},
		"\x83\x00\x00\x03SPY\x0242\x02\x80\x01": {
			Kind: SharesDeposited, Account: "42", Symbol: "SPY", Deposited: Position{Hi: 1, Lo: 128},
		},
		"\x84\x00\x00\x03\x017\x01S\x01\x05\x06\x01\x02\x018\x04\x05": {Kind: OrderAccepted, Account: "7", Symbol: "S",
			Terms: Terms{Side: Buy, Limit: 6}, Order: 3,
			Shares: 5, Fills: []Fill{{Resting: 2, Account: "8", Shares: 4, Price: 5}}},
		"\x85\x00\x00\x03\x017\x01S\x02\x05\x06": {
			Kind: OrderCanceled, Account: "7", Symbol: "S", Terms: Terms{Side: Sell, Limit: 6}, Order: 3, Shares: 5,
		},
		"\xc1\x00\x02\x03a:7\x0242\x00\x03": {
			Kind: AccountOpened, Time: 1, Account: "42", Balance: Cash{Lo: 3}, Ref: "a:7",
		},
		"\xc3\x00\x00\x01.\x03SPY\x0242\x02\x80\x01": {
			Kind: SharesDeposited, Account: "42", Symbol: "SPY", Deposited: Position{Hi: 1, Lo: 128}, Ref: ".",
		},
		"\xc4\x00\x00\x02R1\x03\x017\x01S\x01\x05\x06\x00": {
			Kind: OrderAccepted, Account: "7", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 3, Shares: 5, Ref: "R1",
		},
		"\x86\x00\x02\x03SPY\x03abc":       {Kind: SymbolHalted, Time: 1, Symbol: "SPY", Reason: "abc"},
		"\x86\x00\x00\x01S\xc8\x01" + long: {Kind: SymbolHalted, Symbol: "S", Reason: long},
		"\x87\x00\x02\x03SPY":              {Kind: SymbolResumed, Time: 1, Symbol: "SPY"},
		"\x88\x00\x02\x017\x02\x03\x01A\x02\x05\x06\x02\x01B\x01\x07\x08": {Kind: OrdersCanceled, Time: 1, Account: "7",
			Cancels: []Cancel{{3, "A", Terms{Side: Sell, Limit: 6}, 5}, {2, "B", Terms{Side: Buy, Limit: 8}, 7}}},
		"\x89\x00\x02\x03\x017\x01S\x01\x05\x06\x80\x20\x01\x02\x018\x04\x05": {Kind: OrderContinued, Time: 1, Account: "7",
			Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 3,
			Shares: 5, Before: 4096, Fills: []Fill{{Resting: 2, Account: "8", Shares: 4, Price: 5}}},
		"\x82\x00\xaa\xa4\xe2\xca\x96\xd0\xe7\x95\x2a\x01S": {Kind: SymbolMade, Time: 1519348326_123456789, Symbol: "S"},
	} {
		require.Equal(t, want, string(AppendEvent(nil, &e)))
		require.Equal(t, e, decoded(t, []byte(want)))
	}
}

// TestDecodeRefusesWhatNoCommandLeadsTo decodes events that only a damaged or forged
// journal can contain.
func TestDecodeRefusesWhatNoCommandLeadsTo(t *testing.T) {
	order := func(change func(*Event)) Event {
		e := Event{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 9, Shares: 5,
			Fills: []Fill{{Resting: 2, Account: "8", Shares: 4, Price: 5}}}
		change(&e)
		return e
	}
	all := func(change func([]Cancel) []Cancel) Event {
		return Event{Kind: OrdersCanceled, Account: "1", Cancels: change([]Cancel{{2, "A", Terms{Side: Buy, Limit: 6}, 5},
			{1, "B",
				Terms{Side: Buy, Limit: 6}, 5}})}
	}
	for name, e := range map[string]Event{
		"a halt of no symbol":               {Kind: SymbolHalted, Reason: "x"},
		"a halt with a reason of two lines": {Kind: SymbolHalted, Symbol: "S", Reason: "x\n"},
		"a halt with too long a reason": {
			Kind: SymbolHalted, Symbol: "S", Reason: strings.Repeat("x", HaltReasonCharsMax+1),
		},
		"a resume of no symbol":          {Kind: SymbolResumed},
		"a cancel-all without owner":     {Kind: OrdersCanceled, Cancels: []Cancel{{2, "A", Terms{Side: Buy, Limit: 6}, 5}}},
		"a cancel-all without orders":    {Kind: OrdersCanceled, Account: "1"},
		"a cancel-all of an order twice": all(func(c []Cancel) []Cancel { return append(c, c[1]) }),
		"a cancel-all out of order":      all(func(c []Cancel) []Cancel { c[0], c[1] = c[1], c[0]; return c }),
		"a cancel-all of no symbol":      all(func(c []Cancel) []Cancel { c[0].Symbol = ""; return c }),
		"a cancel-all of order 0":        all(func(c []Cancel) []Cancel { c[0].Order = 0; return c }),
		"a cancel-all of no side":        all(func(c []Cancel) []Cancel { c[0].Side = 0; return c }),
		"a cancel-all of no shares":      all(func(c []Cancel) []Cancel { c[1].Shares = 0; return c }),
		"a cancel-all of no limit":       all(func(c []Cancel) []Cancel { c[1].Limit = 0; return c }),
		"an account that is not digits":  {Kind: AccountOpened, Account: "x"},
		"no account":                     {Kind: AccountOpened},
		"a negative balance":             {Kind: AccountOpened, Account: "1", Balance: Cash{Hi: -1}},
		"a balance of 10^18":             {Kind: AccountOpened, Account: "1", Balance: balanceMax},
		"a balance that adds up to bugs": {Kind: AccountOpened, Account: "1", Balance: Cash{Hi: math.MaxInt64}},
		"a symbol with a space":          {Kind: SymbolMade, Symbol: "S P"},
		"no symbol":                      {Kind: SymbolMade},
		"a symbol of 33 characters":      {Kind: SymbolMade, Symbol: Symbol(strings.Repeat("S", 33))},
		"no shares placed":               {Kind: SharesDeposited, Account: "1", Symbol: "S"},
		"negative shares placed":         {Kind: SharesDeposited, Account: "1", Symbol: "S", Deposited: Position{Hi: -1}},
		"10^18 shares placed":            {Kind: SharesDeposited, Account: "1", Symbol: "S", Deposited: depositMax},
		"shares without an account":      {Kind: SharesDeposited, Symbol: "S", Deposited: Position{Lo: 1}},
		"order 0":                        order(func(e *Event) { e.Order, e.Fills = 0, nil }),
		"an order id of 2^63":            order(func(e *Event) { e.Order = 1 << 63 }),
		"no side":                        order(func(e *Event) { e.Side = 0 }),
		"a third side":                   order(func(e *Event) { e.Side = 3 }),
		"no shares":                      order(func(e *Event) { e.Shares, e.Fills = 0, nil }),
		"negative shares":                order(func(e *Event) { e.Shares, e.Fills = -5, nil }),
		"too many shares":                order(func(e *Event) { e.Shares = orderUnitsMax }),
		"no limit":                       order(func(e *Event) { e.Limit = 0 }),
		"a negative limit":               order(func(e *Event) { e.Limit = -6 }),
		"too high a limit":               order(func(e *Event) { e.Limit = orderUnitsMax }),
		"no symbol for an order":         order(func(e *Event) { e.Symbol = "" }),
		"a fill with order 0":            order(func(e *Event) { e.Fills[0].Resting = 0 }),
		"a fill with itself":             order(func(e *Event) { e.Fills[0].Resting = 9 }),
		"a fill with a later order":      order(func(e *Event) { e.Fills[0].Resting = 10 }),
		"a fill without an account":      order(func(e *Event) { e.Fills[0].Account = "" }),
		"a fill of 0 shares":             order(func(e *Event) { e.Fills[0].Shares = 0 }),
		"a fill of negative shares":      order(func(e *Event) { e.Fills[0].Shares = -1 }),
		"a fill of more than the order":  order(func(e *Event) { e.Fills[0].Shares = 6 }),
		"fills of more than the order": order(func(e *Event) {
			e.Fills = append(e.Fills, Fill{3, "8", 2, 5, false, nil})
		}),
		"a fill at price 0":          order(func(e *Event) { e.Fills[0].Price = 0 }),
		"a fill at a negative price": order(func(e *Event) { e.Fills[0].Price = -1 }),
		"a ref with a space":         order(func(e *Event) { e.Ref = "a b" }),
		"a ref of 65 characters":     order(func(e *Event) { e.Ref = Ref(strings.Repeat("r", RefCharsMax+1)) }),
		"a symbol with a ref":        {Kind: SymbolMade, Symbol: "S", Ref: "r"},
		"a cancel with a ref": {
			Kind: OrderCanceled, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 9, Shares: 5, Ref: "r",
		},
		"a part without fills":     order(func(e *Event) { e.Kind, e.Before, e.Fills = OrderContinued, 1, nil }),
		"a part that is the first": order(func(e *Event) { e.Kind = OrderContinued }),
		"a part after too many":    order(func(e *Event) { e.Kind, e.Before = OrderContinued, math.MaxInt32 }),
		"a part with a ref":        order(func(e *Event) { e.Kind, e.Before, e.Ref = OrderContinued, 1, "r" }),
		"a cancel of order 0": {Kind: OrderCanceled, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6},
			Shares: 5},
		"a cancel of 0 shares": {Kind: OrderCanceled, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6},
			Order: 9},
		"a cancel of negative shares": {
			Kind: OrderCanceled, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 9, Shares: -5,
		},
		"a cancel of an order of no side": {Kind: OrderCanceled, Account: "1", Symbol: "S", Order: 9, Shares: 5,
			Terms: Terms{Limit: 6}},
		"a cancel of an order of no limit": {Kind: OrderCanceled, Account: "1", Symbol: "S", Terms: Terms{Side: Buy},
			Order: 9, Shares: 5},
	} {
		t.Run(name, func(t *testing.T) {
			var got Event
			require.ErrorIs(t, DecodeEvent(AppendEvent(nil, &e), &got), ErrEvent)
		})
	}
	var got Event
	require.NoError(t, DecodeEvent(AppendEvent(nil, &[]Event{order(func(*Event) {})}[0]), &got),
		"the unchanged order is valid")
	require.ErrorIs(t, DecodeEvent(nil, &got), ErrEvent)
	require.ErrorContains(t, DecodeEvent([]byte{15, 0}, &got), "unknown kind 15")
	require.ErrorContains(t, DecodeEvent([]byte{0x80 | 15, 0, 0}, &got), "unknown kind 15")
	for flag := range 8 {
		require.ErrorContains(t, DecodeEvent([]byte{0x87, 1 << flag, 0, 1, 'S'}, &got), "unknown flags")
	}
	require.ErrorContains(t, DecodeEvent(binary.AppendVarint([]byte{2}, math.MaxInt64/Second+1), &got), "at second")
	require.ErrorContains(t, DecodeEvent([]byte{0x41, 2, 0, 1, '1', 0, 0}, &got), "without the ref")
}

func TestAppendPanicsOnAnUnknownKind(t *testing.T) {
	require.Panics(t, func() { AppendEvent(nil, &Event{}) })
	require.Panics(t, func() { AppendEvent(nil, &Event{Kind: eventKindMax + 1}) })
}

// TestDecodeDoesNotBelieveACountOfFills checks that a few bytes cannot claim gigabytes of fills.
func TestDecodeDoesNotBelieveACountOfFills(t *testing.T) {
	e := Event{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Buy, Limit: 6}, Order: 9, Shares: 5}
	b := AppendEvent(nil, &e)
	for _, n := range []uint64{1, 1000, math.MaxInt32, math.MaxInt64, math.MaxUint64} {
		claim := append(binary.AppendUvarint(b[:len(b)-1:len(b)-1], n), 1, 1, 1)
		var got Event
		require.ErrorContains(t, DecodeEvent(claim, &got), "cut short")
		require.Zero(t, cap(got.Fills))
	}
}

func TestKindsHaveNames(t *testing.T) {
	require.Equal(
		t,
		"account symbol place order cancel halt resume cancel-all continue reduce replace account-rules "+
			"symbol-rules switch event(15)",
		strings.Join([]string{AccountOpened.String(), SymbolMade.String(),
			SharesDeposited.String(), OrderAccepted.String(), OrderCanceled.String(), SymbolHalted.String(),
			SymbolResumed.String(), OrdersCanceled.String(), OrderContinued.String(), OrderReduced.String(),
			OrderReplaced.String(), AccountRuled.String(), SymbolRuled.String(), SwitchSet.String(),
			EventKind(15).String()}, " "),
	)
	for k := OpenAccount; k <= commandKindMax; k++ {
		require.NotEqual(t, "unknown", k.String())
	}
	require.Equal(t, "unknown", CommandKind(0).String())
	require.Equal(t, "buy sell no side", Buy.String()+" "+Sell.String()+" "+Side(0).String())
}

// TestADecoderReadsWhatDecodeEventReads decodes several events with one Decoder.
func TestADecoderReadsWhatDecodeEventReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		for _, want := range rapid.SliceOfN(anyEvent(), 1, 20).Draw(t, "events") {
			b := AppendEvent(nil, &want)
			var e, again Event
			require.NoError(t, d.Decode(b, &e))
			clear(b) // the strings must not share its memory
			if len(e.Fills) == 0 {
				e.Fills = nil
			}
			require.Equal(t, want, e)
			require.ErrorIs(t, d.Decode(b, &again), ErrEvent)
		}
	})
}

// TestNamesStayWhatTheyAre reads more names than the cache has places: every name must be correct, also after
// another name has replaced it, and a name read twice in a row must not be copied.
func TestNamesStayWhatTheyAre(t *testing.T) {
	var n names
	var all, got []string
	for i := range 3 * len(n) {
		all = append(all, fmt.Sprint(2_000_000_000+i), fmt.Sprintf("SYM%d", i), strings.Repeat("x", i%256))
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	b := make([]byte, 256) // reused for all names, as a reader reuses its buffer
	for _, want := range all {
		got = append(got, n.get(b[:copy(b, want)]))
	}
	require.Equal(t, all, got)
	used := 0
	for _, s := range n {
		if s != "" {
			used++
		}
	}
	require.Greater(t, used, len(n)*9/10, "names are spread over the places")
	require.Zero(t, testing.AllocsPerRun(100, func() { n.get(b[:copy(b, all[0])]) }))
}
