package exchange

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// toBig converts a to a big.Int.
func toBig(a Int128) *big.Int {
	b := new(big.Int).Lsh(big.NewInt(a.Hi), 64)
	return b.Add(b, new(big.Int).SetUint64(a.Lo))
}

// fits128 reports whether a number fits into an Int128.
func fits128(b *big.Int) bool {
	end := new(big.Int).Lsh(big.NewInt(1), 127)
	return b.Cmp(end) < 0 && b.Cmp(new(big.Int).Neg(end)) >= 0
}

// anyInt128 draws values from the whole range, and often from its ends.
func anyInt128() *rapid.Generator[Int128] {
	hi := rapid.OneOf(rapid.SampledFrom([]int64{0, -1, 1, math.MinInt64, math.MaxInt64, 1 << 62}), rapid.Int64())
	lo := rapid.OneOf(rapid.SampledFrom([]uint64{0, 1, math.MaxUint64, 1 << 63}), rapid.Uint64())
	return rapid.Custom(func(t *rapid.T) Int128 { return Int128{hi.Draw(t, "hi"), lo.Draw(t, "lo")} })
}

func TestInt128ComputesLikeBigInt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyInt128().Draw(t, "a"), anyInt128().Draw(t, "b")
		requireLikeBig(t, new(big.Int).Add(toBig(a), toBig(b)), func() Int128 { return a.Add(b) })
		requireLikeBig(t, new(big.Int).Sub(toBig(a), toBig(b)), func() Int128 { return a.Sub(b) })
		require.Equal(t, toBig(a).Cmp(toBig(b)), a.Cmp(b))
		require.Equal(t, toBig(a).Sign(), a.Sign())
	})
}

func TestOverflowPanics(t *testing.T) {
	most, least := Int128{Hi: math.MaxInt64, Lo: math.MaxUint64}, Int128{Hi: math.MinInt64}
	require.Panics(t, func() { most.Add(Int128{Lo: 1}) })
	require.Panics(t, func() { least.Sub(Int128{Lo: 1}) })
	require.Panics(t, func() { least.Add(Int128{Hi: -1, Lo: math.MaxUint64}) })
	require.Panics(t, func() { most.Sub(Int128{Hi: -1, Lo: math.MaxUint64}) })
	require.Panics(t, func() { mul64(math.MaxUint64, math.MaxUint64) })
	require.Equal(t, most, most.Add(Int128{}))
	require.Equal(t, least, least.Sub(Int128{}))
}

// requireLikeBig requires the result of math/big, or a panic if that does not fit.
func requireLikeBig(t require.TestingT, want *big.Int, compute func() Int128) {
	if fits128(want) {
		require.Equal(t, want.String(), toBig(compute()).String())
	} else {
		require.Panics(t, func() { compute() })
	}
}

func TestProductsAndQuotientsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64Min(1).Draw(t, "b")
		product := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		requireLikeBig(t, product, func() Int128 { return mul64(a, b) })

		n := anyInt128().Filter(func(n Int128) bool { return n.Sign() >= 0 }).Draw(t, "n")
		q, r := n.divmod64(b)
		wantQ, wantR := new(big.Int).DivMod(toBig(n), new(big.Int).SetUint64(b), new(big.Int))
		require.Equal(t, wantQ.String(), toBig(q).String())
		require.Equal(t, wantR.String(), new(big.Int).SetUint64(r).String())
	})
}

func TestNotionalIsExactForEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := rapid.Int64Range(0, math.MaxInt64).Draw(t, "shares"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "price")
		want := new(big.Int).Mul(big.NewInt(s), big.NewInt(p))
		require.Equal(t, want.String(), toBig(Int128(Notional(Shares(s), Price(p)))).String())
	})
}

func TestDecimalsPrintInTheirShortestExactForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyInt128().Filter(func(n Int128) bool { return n != Int128{Hi: math.MinInt64} }).Draw(t, "n")
		for scale, printed := range map[int]string{scaleShares: Position(n).String(), scaleCash: Cash(n).String()} {
			want := new(big.Rat).SetFrac(toBig(n), bigPow10(int64(scale)))
			got, ok := new(big.Rat).SetString(printed)
			require.True(t, ok, printed)
			require.Zero(t, want.Cmp(got), "%s at scale %d printed as %s", toBig(n), scale, printed)
			require.Regexp(t, `^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`, printed)
		}
	})
}

func TestPrintedValuesAreKnown(t *testing.T) {
	require.Equal(t, "0", Cash{}.String())
	require.Equal(t, "0.0000000000000001", Cash{Lo: 1}.String())
	require.Equal(t, "-0.0000000000000001", Cash{}.Sub(Cash{Lo: 1}).String())
	require.Equal(t, "1000000000000000000000", CashTotalMax.String())
	require.Equal(t, "1000000000000000000000", PositionTotalMax.String())
	require.Equal(t, "92233720368.54775807", Price(math.MaxInt64).String())
	require.Equal(t, "-92233720368.54775808", Shares(math.MinInt64).String())
	require.Equal(t, "8099999999999999998200.0000000000000001", Notional(orderUnitsMax-1, orderUnitsMax-1).String())
	require.Equal(t, "x125.5", string(Price(12550000000).Append([]byte("x"))))
}

// TestZerosInsideANumberArePrinted tests numbers that are printed in several parts, each padded
// with zeros.
func TestZerosInsideANumberArePrinted(t *testing.T) {
	for k := range 19 {
		n := mul64(1e19, 7).Add(Int128{Lo: pow10[k]})
		require.Equal(t, toBig(n).String(), string(n.appendDecimal(nil, 0)))
		n = mul64(1e19, 1e18).Add(Int128{Lo: pow10[k] - 1})
		require.Equal(t, toBig(n).String(), string(n.appendDecimal(nil, 0)))
	}
	for k := range scaleCash {
		require.Equal(t, "0."+strings.Repeat("0", scaleCash-k-1)+"1", Cash{Lo: pow10[k]}.String())
	}
}

func TestPrintedValuesParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Int64Range(1, orderUnitsMax-1)
		p := Price(order.Draw(t, "price"))
		backPrice, err := ParseLimit(p.String())
		require.NoError(t, err)
		require.Equal(t, p, backPrice)

		s := Shares(order.Draw(t, "shares"))
		side, backShares, err := ParseAmount("-" + s.String())
		require.NoError(t, err)
		require.Equal(t, Sell, side)
		require.Equal(t, s, backShares)

		units := mul64(rapid.Uint64Range(0, wholeMax-1).Draw(t, "whole"), 1e8).
			Add(Int128{Lo: rapid.Uint64Range(1, 1e8-1).Draw(t, "fraction")})
		backPlaced, err := ParseDeposit(Position(units).String())
		require.NoError(t, err)
		require.Equal(t, Position(units), backPlaced)

		balance, err := ParseBalance(Position(units).String())
		require.NoError(t, err)
		require.Equal(t, Position(units).String(), balance.String())
	})
}

// FuzzParse gives arbitrary text to every parser: an accepted value must equal that of big.Rat
// and be within the protocol's limits; an error must be one short line.
func FuzzParse(f *testing.F) {
	for _, row := range decimals {
		f.Add(row.in)
	}
	f.Add("999999999999999999.99999999")
	f.Add("89999999999.99999999")
	f.Add("9223372036854775807")
	f.Add(strings.Repeat("7", 65))
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range parsers {
			printed, err := p.parse(s)
			if err != nil {
				requireShortLine(t, err)
				require.False(t, mayParse(s, p.limit, p.zero, p.sells), "%s %q refused: %v", p.name, s, err)
				continue
			}
			require.True(t, mayParse(s, p.limit, p.zero, p.sells), "%s %q taken", p.name, s)
			want, _ := new(big.Rat).SetString(s)
			got, ok := new(big.Rat).SetString(printed)
			require.True(t, ok && want.Cmp(got) == 0, "%s %q read as %s", p.name, s, printed)
		}
		fuzzNames(t, s)
	})
}

// mayParse implements the protocol's grammar independently.
func mayParse(s string, limit *big.Int, zero, negative bool) bool {
	if strings.Trim(s, "+-.0123456789") != "" || strings.LastIndexAny(s, "+-") > 0 || strings.Count(s, ".") > 1 {
		return false
	}
	_, fraction, _ := strings.Cut(s, ".")
	value, ok := new(big.Rat).SetString(s)
	if !ok || len(fraction) > 8 {
		return false
	}
	if value.Sign() == 0 && !zero || value.Sign() < 0 && !negative {
		return false
	}
	return value.Abs(value).Cmp(new(big.Rat).SetInt(limit)) < 0
}

func fuzzNames(t *testing.T, s string) {
	if id, err := ParseOrderID(s); err != nil {
		requireShortLine(t, err)
	} else {
		want, ok := new(big.Int).SetString(s, 10)
		require.True(t, ok && want.IsUint64() && want.Uint64() == uint64(id) && id > 0 && id <= orderIDMax,
			"%q read as %d", s, id)
	}
	if id, err := ParseAccountID(s); err != nil {
		requireShortLine(t, err)
	} else {
		require.Equal(t, s, string(id))
		require.Empty(t, strings.Trim(s, "0123456789"))
	}
	if sym, err := ParseSymbol(s); err != nil {
		requireShortLine(t, err)
	} else {
		require.Equal(t, s, string(sym))
		require.Regexp(t, `^[A-Za-z0-9]{1,32}$`, s)
	}
}
