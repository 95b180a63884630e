package client

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	exchange "outcry/internal/exchange"
)

func TestDecimalsAreReadAndPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "+0.00": "0", "00100": "100", "-.5": "-0.5", "5.": "5", "0.00000001": "0.00000001",
		"-0.00000001": "-0.00000001",
		"145.67":      "145.67", "1.10": "1.1", "999999999999999999.99999999": "999999999999999999.99999999",
		"-999999999999999999.99999999": "-999999999999999999.99999999", "0000000000000000000000000000001": "1",
		"184467440737.09551616": "184467440737.09551616",
	} {
		d, err := ParseDecimal(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d.String(), text)
		require.Equal(t, MustDecimal(want), d, "one number, one value")
	}
	for text, want := range map[string]string{
		"": "not a decimal", ".": "not a decimal", "-": "not a decimal", "+.": "not a decimal", "1e3": "not a decimal",
		" 1": "not a decimal", "1_0": "not a decimal",
		"0x1": "not a decimal", "NaN": "not a decimal", "1.2.3": "not a decimal", "--1": "not a decimal",
		"1,5": "not a decimal", "٣": "not a decimal",
		"1.000000000": "more than 8 fractional digits", "1000000000000000000": "not below 10^18",
		strings.Repeat("9", 5000): "not below 10^18",
	} {
		_, err := ParseDecimal(text)
		require.ErrorContains(t, err, want, text)
		require.Less(t, len(err.Error()), 200)
		require.Panics(t, func() { MustDecimal(text) })
	}
	require.Equal(t, MustDecimal("-9223372036854775808"[:19]), Whole(-922337203685477580))
	require.Equal(t, "-9223372036854775808", Whole(-1<<63).String())
	require.Equal(t, "9223372036854775807", Whole(1<<63-1).String())
}

// anyDecimal draws a decimal, and returns it with its exact value.
func anyDecimal(t *rapid.T, label string) (Decimal, *big.Rat) {
	text := rapid.StringMatching(`-?[0-9]{1,18}(\.[0-9]{1,8})?`).Draw(t, label)
	rat, ok := new(big.Rat).SetString(text)
	require.True(t, ok)
	return MustDecimal(text), rat
}

func TestDecimalsCountLikeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, x := anyDecimal(t, "a")
		b, y := anyDecimal(t, "b")
		rat := func(d Decimal) *big.Rat {
			r, ok := new(big.Rat).SetString(d.String())
			require.True(t, ok, d.String())
			return r
		}
		require.Zero(t, rat(a).Cmp(x))
		require.Zero(t, rat(a.Add(b)).Cmp(new(big.Rat).Add(x, y)))
		require.Zero(t, rat(a.Sub(b)).Cmp(new(big.Rat).Sub(x, y)))
		require.Zero(t, rat(a.Neg()).Cmp(new(big.Rat).Neg(x)))
		require.Equal(t, x.Cmp(y), a.Cmp(b))
		require.Equal(t, x.Cmp(y) == 0, a == b)
		require.Equal(t, x.Sign(), a.Sign())
		scaled := a // larger than a 64-bit number
		for range 20 {
			scaled = scaled.Add(scaled)
		}
		require.Zero(t, rat(scaled).Cmp(new(big.Rat).Mul(x, big.NewRat(1<<20, 1))))
	})
}

func TestDecimalsThatOverflowPanic(t *testing.T) {
	for _, d := range []Decimal{Whole(1 << 62), Whole(-1 << 62)} {
		require.PanicsWithValue(t, "client: a sum of decimals is out of range", func() {
			for range 64 {
				d = d.Add(d)
			}
		})
	}
}

func TestDecimalsAreTextInJSON(t *testing.T) {
	b, err := json.Marshal(map[string]Decimal{"limit": MustDecimal("145.67")})
	require.NoError(t, err)
	require.Equal(t, `{"limit":"145.67"}`, string(b))
	var back map[string]Decimal
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, MustDecimal("145.67"), back["limit"])
	d := Whole(7)
	require.Error(t, d.UnmarshalText([]byte("x")))
	require.Equal(t, Whole(7), d)
}

// FuzzParseDecimal: apart from the sign, ParseDecimal accepts the same texts as the exchange does for a
// balance, and prints them in the same way.
func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"1", "-0.5", "+.00000001", "5.", "1e5", "", "-", "999999999999999999.99999999",
		"1000000000000000000", "00", "0.000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDecimal(s)
		balance, refused := exchange.ParseBalance(strings.TrimPrefix(s, "-"))
		twoSigns := strings.HasPrefix(s, "--") || strings.HasPrefix(s, "-+")
		require.Equal(t, refused == nil && !twoSigns, err == nil, "%q: %v, %v", s, err, refused)
		if err != nil {
			return
		}
		if d.Sign() < 0 {
			d = d.Neg()
		}
		require.Equal(t, balance.String(), d.String())
	})
}
