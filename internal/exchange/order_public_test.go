package exchange

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDecodePublicReadsWhatDecodeEventReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyEvent().Draw(t, "event")
		b := AppendEvent(nil, &want)
		got := Event{Fills: make([]Fill, 3)}
		symbol, err := DecodePublic(b, &got)
		require.NoError(t, err)
		switch want.Kind {
		case AccountOpened, SharesDeposited, AccountRuled, SwitchSet:
			require.Empty(t, symbol)
			want = Event{Kind: want.Kind, Time: want.Time}
		default:
			require.Equal(t, want.Symbol, Symbol(symbol))
		}
		want.Account, want.Symbol, want.Ref, want.Fills = "", "", "", append([]Fill{}, want.Fills...)
		for i := range want.Fills {
			want.Fills[i].Account = ""
		}
		require.Equal(t, want, got)
	})
}

func TestDecodePublicRefusesWhatDecodeEventRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent().Draw(t, "event")
		if e.Kind == AccountOpened || e.Kind == SharesDeposited || e.Kind == AccountRuled || e.Kind == SwitchSet {
			return // DecodePublic does not decode the fields of these kinds
		}
		b := AppendEvent(nil, &e)
		var got Event
		for n := range b {
			_, err := DecodePublic(b[:n], &got)
			require.ErrorIs(t, err, ErrEvent, "%d of %d bytes", n, len(b))
		}
		_, err := DecodePublic(append(b, 0), &got)
		require.ErrorIs(t, err, ErrEvent)
	})
	for _, b := range []string{"", "\x0f\x00", "\x04\x00\x03\x017\x01S\x03\x05\x06\x00",
		"\x04\x00\x03\x017\x01S\x01\x05\x06\x01\x02\x018\x06\x05"} {
		_, err := DecodePublic([]byte(b), new(Event))
		require.ErrorIs(t, err, ErrEvent, "%q", b)
	}
}

func TestDecodePublicAllocatesNothing(t *testing.T) {
	e := Event{Kind: OrderAccepted, Account: "1234567890", Symbol: "SYM1234567", Terms: Terms{Side: Buy, Limit: 1},
		Order: 9, Shares: 3,
		Fills: []Fill{{Resting: 1, Account: "2345678901", Shares: 1, Price: 1}}}
	b := AppendEvent(nil, &e)
	got := Event{Fills: make([]Fill, 1)}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := DecodePublic(b, &got); err != nil {
			panic(err)
		}
	}))
}

// TestTurnoverIsExactBeyondCash compares sums with those of math/big, far beyond
// the range of a Cash.
func TestTurnoverIsExactBeyondCash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sum Turnover
		want := new(big.Int)
		for _, units := range rapid.SliceOfN(rapid.Uint64Range(1, 1e19), 0, 200).Draw(t, "parts") {
			part := mul64(units, rapid.Uint64Range(1, 1e18-1).Draw(t, "times"))
			sum = sum.Add(Cash(part))
			want.Add(want, new(big.Int).Add(new(big.Int).Lsh(big.NewInt(part.Hi), 64), new(big.Int).SetUint64(part.Lo)))
		}
		text := new(big.Rat).SetFrac(want, new(big.Int).Exp(big.NewInt(10), big.NewInt(scaleCash), nil))
		got, ok := new(big.Rat).SetString(sum.String())
		require.True(t, ok, sum.String())
		require.Zero(t, text.Cmp(got), "%s is not %s", sum, text.FloatString(scaleCash))
		require.True(t, inRange(CashTotalMax, sum.Rest))
	})
	var sum Turnover
	for range 1000 {
		sum = sum.Add(CashTotalMax.Sub(Cash{Lo: 1}))
	}
	require.Equal(t, "999999999999999999999999.9999999999999", sum.String())
	for want, sum := range map[string]Turnover{
		"0":                            {},
		"1000000000000000000000":       {Rounds: 1},
		"17000000000000000000000.5":    {Rounds: 17, Rest: Cash(mul64(5e15, 1))},
		"2000000000000000000125":       {Rounds: 2, Rest: Cash(mul64(125, 1e16))},
		"999999999999999999999.999999": {Rest: CashTotalMax.Sub(Cash(mul64(1e10, 1)))},
	} {
		require.Equal(t, want, sum.String())
	}
}
