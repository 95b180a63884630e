package exchange

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
