package exchange

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPricesOfRulesAreExact compares bounds and protection prices with rational numbers.
func TestPricesOfRulesAreExact(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 100_000 {
		last := Price(1 + random.Int64N(1<<random.IntN(63)))
		last = min(last, orderUnitsMax-1)
		band := Fraction(1 + random.Uint32N(1<<random.IntN(32)))
		buy, sell := SymbolRules{Band: band}.Bounds(last)
		factor := func(sign int64) *big.Rat {
			return new(big.Rat).Mul(big.NewRat(int64(last), 1),
				new(big.Rat).Add(big.NewRat(1, 1), big.NewRat(sign*int64(band), 1e8)))
		}
		inside := func(p Price) bool { // the definition of the band
			return 0 < p && p < orderUnitsMax
		}
		for _, p := range []Price{buy, buy + 1} {
			if inside(p) {
				require.Equal(
					t,
					p > buy,
					big.NewRat(int64(p), 1).Cmp(factor(1)) > 0,
					"seed %d: buy %d, last %d, band %d",
					seed,
					p,
					last,
					band,
				)
			}
		}
		for _, p := range []Price{sell, sell - 1} {
			if inside(p) {
				require.Equal(
					t,
					p < sell,
					big.NewRat(int64(p), 1).Cmp(factor(-1)) < 0,
					"seed %d: sell %d, last %d, band %d",
					seed,
					p,
					last,
					band,
				)
			}
		}
	}
	buy, sell := SymbolRules{}.Bounds(5)
	require.Equal(t, [2]Price{1, orderUnitsMax - 1}, [2]Price{sell, buy})
	buy, sell = SymbolRules{Band: 1}.Bounds(0)
	require.Equal(t, [2]Price{1, orderUnitsMax - 1}, [2]Price{sell, buy}, "nothing was traded")
	require.Equal(t, Price(16), SymbolRules{}.Protection(Buy, 15, 0), "16.5, towards the best price")
	require.Equal(t, Price(14), SymbolRules{}.Protection(Sell, 15, 0), "13.5")
	require.Equal(t, Price(15), SymbolRules{Band: 1e6}.Protection(Buy, 15, 15), "the band is narrower")
	require.Equal(t, Price(15), SymbolRules{Band: 1e6}.Protection(Sell, 15, 15))
}

// TestFractionsAreReadAsTheyAreWritten covers the smallest and the largest percentage, too.
func TestFractionsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Fraction{"10%": ProtectStandard, "100%": FractionOne, "0.000001%": 1,
		"1000%": FractionMax, "2.5%": 2_500_000} {
		got, err := ParseFraction(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, got.String())
	}
	for text, want := range map[string]string{
		"10": "percent", "": "percent", "%": "not a decimal", "0%": "not more than 0", "-1%": "not more than 0",
		"1000.000001%": "is more than 1000%", "99999999999%": "is more than 1000%", "0.0000001%": "more than 6 fractional",
		"1e1%": "not a decimal",
	} {
		_, err := ParseFraction(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, `"`+text+`"`)
	}
}
