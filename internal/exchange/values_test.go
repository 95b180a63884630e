package exchange

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDecimalsAreReadAndShownExactly(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "+0.0": "0", "007": "7", ".5": "0.5", "5.": "5", "+1.50": "1.5", "0.00000001": "0.00000001",
		"999999999999999999.99999999": "999999999999999999.99999999", strings.Repeat("0", 300) + "12": "12",
	} {
		c, err := ParseBalance(in)
		require.NoError(t, err, in)
		require.Equal(t, want, c.String(), in)
	}
	for in, want := range map[string]string{
		"": "not a decimal", ".": "not a decimal", "+": "not a decimal", "1e3": "not a decimal", "0x1": "not a decimal", "1_0": "not a decimal", " 1": "not a decimal",
		"1 ": "not a decimal", "NaN": "not a decimal", "--1": "not a decimal", "1.2.3": "not a decimal", "１": "not a decimal", "-1": "negative", "-0.00000001": "negative",
		"1.000000000": "8 fractional", "1000000000000000000": "out of range", "99999999999999999999999999": "out of range",
	} {
		_, err := ParseBalance(in)
		require.ErrorContains(t, err, want, in)
		require.ErrorContains(t, err, fmt.Sprintf("%q", in))
	}
}

func TestLimitsOfAmountsLimitsAndPlacements(t *testing.T) {
	for _, in := range []string{"89999999999.99999999", "-89999999999.99999999", "0.00000001", "-0.00000001"} {
		side, shares, err := ParseAmount(in)
		require.NoError(t, err)
		require.Equal(t, strings.TrimPrefix(in, "-"), shares.String())
		require.Equal(t, strings.HasPrefix(in, "-"), side == Sell)
	}
	for _, in := range []string{"0", "-0", "90000000000", "-90000000000", "0.000000001", "x"} {
		_, _, err := ParseAmount(in)
		require.ErrorContains(t, err, "amount "+fmt.Sprintf("%q", in))
	}
	for _, in := range []string{"0", "-1", "-0", "90000000000", "1.000000000", ""} {
		_, err := ParseLimit(in)
		require.ErrorContains(t, err, "limit "+fmt.Sprintf("%q", in))
	}
	p, err := ParseLimit("89999999999.99999999")
	require.NoError(t, err)
	require.Equal(t, "89999999999.99999999", p.String())
	require.Equal(t, "8099999999999999998200.0000000000000001", Notional(Shares(p), p).String(), "the largest product fits")
	for _, in := range []string{"0", "-1", "1000000000000000000"} {
		_, err := ParsePlacement(in)
		require.Error(t, err, in)
	}
	placed, err := ParsePlacement("999999999999999999.99999999")
	require.NoError(t, err)
	require.Equal(t, "999999999999999999.99999999", placed.String())
}

func TestIdsAndSymbols(t *testing.T) {
	for _, in := range []string{"0", "007", strings.Repeat("9", 64)} {
		id, err := ParseAccountID(in)
		require.NoError(t, err)
		require.Equal(t, AccountID(in), id)
	}
	for _, in := range []string{"", strings.Repeat("9", 65), "-1", "1a", "٣", " 1"} {
		_, err := ParseAccountID(in)
		require.Error(t, err, in)
	}
	for in, want := range map[string]OrderID{"1": 1, "0009": 9, "9223372036854775807": 1<<63 - 1} {
		id, err := ParseOrderID(in)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
	for _, in := range []string{"", "0", "-1", "+1", "1.0", "9223372036854775808", strings.Repeat("9", 100)} {
		_, err := ParseOrderID(in)
		require.Error(t, err, in)
	}
	for _, in := range []string{"", "A B", "A-B", "é", strings.Repeat("A", 33)} {
		_, err := ParseSymbol(in)
		require.Error(t, err, in)
	}
	sym, err := ParseSymbol(strings.Repeat("z", 32))
	require.NoError(t, err)
	require.Len(t, sym, 32)
}

func bigOf(v Int128) *big.Int {
	b := big.NewInt(v.Hi)
	return b.Lsh(b, 64).Add(b, new(big.Int).SetUint64(v.Lo))
}

func TestArithmeticAgreesWithBigNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Int128 {
			return Int128{rapid.Int64Range(-1<<61, 1<<61).Draw(t, name+" hi"), rapid.Uint64().Draw(t, name+" lo")}
		}
		a, b := draw("a"), draw("b")
		require.Zero(t, new(big.Int).Add(bigOf(a), bigOf(b)).Cmp(bigOf(a.Add(b))))
		require.Zero(t, new(big.Int).Sub(bigOf(a), bigOf(b)).Cmp(bigOf(a.Sub(b))))
		require.Equal(t, bigOf(a).Cmp(bigOf(b)), a.Cmp(b))
		require.Equal(t, bigOf(a).Sign(), a.Sign())
		x, y := rapid.Uint64Range(0, 1<<63-1).Draw(t, "x"), rapid.Uint64Range(0, 1<<63-1).Draw(t, "y")
		product := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(y))
		require.Zero(t, product.Cmp(bigOf(mul64(x, y))))
		shown, ok := new(big.Rat).SetString(Cash(a).String())
		require.True(t, ok)
		want := new(big.Rat).SetFrac(bigOf(a), new(big.Int).Exp(big.NewInt(10), big.NewInt(16), nil))
		require.Zero(t, want.Cmp(shown), Cash(a).String())
	})
}

func TestOverflowPanics(t *testing.T) {
	top, bottom := Int128{Hi: 1<<63 - 1, Lo: 1<<64 - 1}, Int128{Hi: -1 << 63}
	require.Panics(t, func() { top.Add(Int128{Lo: 1}) })
	require.Panics(t, func() { bottom.Sub(Int128{Lo: 1}) })
	require.Panics(t, func() { mul64(1<<64-1, 1<<64-1) })
	require.Equal(t, "-1", fmt.Sprint(Int128{}.Sub(Int128{Lo: 1}).Sign()))
}

// FuzzParse: no parser panics, errors are one bounded line, and what is accepted
// is what big.Rat reads.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "1.5", ".5", "5.", "+1", "1e3", "NaN", "89999999999.99999999", "90000000000", "999999999999999999.99999999",
		"1.000000000", "0x1p-2", "1_0", "9223372036854775808", "\x00", "1\n", "٣", "SPY"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		check := func(shown string, err error) {
			if err != nil {
				if text := err.Error(); strings.ContainsAny(text, "\n\r") || len(text) > 400 {
					t.Fatalf("%q: %q", s, text)
				}
				return
			}
			want, ok := new(big.Rat).SetString(strings.TrimSuffix(s, "."))
			got, ok2 := new(big.Rat).SetString(shown)
			if !ok || !ok2 || want.Abs(want).Cmp(got) != 0 {
				t.Fatalf("%q is read as %s", s, shown)
			}
		}
		c, err := ParseBalance(s)
		check(c.String(), err)
		p, err := ParsePlacement(s)
		check(p.String(), err)
		_, shares, err := ParseAmount(s)
		check(shares.String(), err)
		limit, err := ParseLimit(s)
		check(limit.String(), err)
		id, err := ParseOrderID(s)
		check(fmt.Sprint(id), err)
		account, err := ParseAccountID(s)
		if err == nil && string(account) != s {
			t.Fatalf("%q becomes account %q", s, account)
		}
		sym, err := ParseSymbol(s)
		if err == nil && string(sym) != s {
			t.Fatalf("%q becomes symbol %q", s, sym)
		}
	})
}

func ExampleParseAmount() {
	side, shares, err := ParseAmount("-0.50")
	fmt.Println(side, shares, err)
	_, _, err = ParseAmount("1e9")
	fmt.Println(err)
	// Output:
	// sell 0.5 <nil>
	// amount "1e9" is not a decimal number
}
