package market

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
)

// check proves the invariants.
func (l *levels) check(t require.TestingT) {
	var before *level
	for _, chunk := range l.chunks {
		require.NotEmpty(t, chunk)
		require.LessOrEqual(t, len(chunk), levelsMax)
		for i := range chunk {
			if before != nil {
				require.Less(t, before.key, chunk[i].key)
			}
			require.Positive(t, chunk[i].shares.Sign())
			before = &chunk[i]
		}
	}
}

func TestLevelsAreWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		up := rapid.SampledFrom([]int64{1, -1}).Draw(t, "up")
		prices := rapid.SampledFrom([]int64{3, 100, 2000}).Draw(t, "prices")
		l, want := levels{up: up}, map[exchange.Price]exchange.Shares{}
		random := rapid.Int64Range(1, prices)
		for range rapid.IntRange(0, 3000).Draw(t, "steps") {
			p, n := exchange.Price(random.Draw(t, "price")), exchange.Shares(rapid.Int64Range(-5, 5).Draw(t, "shares"))
			if rapid.Bool().Draw(t, "all of it") && want[p] > 0 {
				n = -want[p]
			}
			ok := l.add(p, n.Position())
			require.Equal(t, want[p]+n >= 0 && (want[p] > 0 || n > 0), ok, "%d of %d at %d", n, want[p], p)
			if ok {
				if want[p] += n; want[p] == 0 {
					delete(want, p)
				}
			}
		}
		l.check(t)
		sorted := slices.SortedFunc(maps.Keys(want),
			func(a, b exchange.Price) int { return cmp.Compare(int64(b)*up, int64(a)*up) })
		sorted = sorted[:min(len(sorted), rapid.IntRange(0, 3000).Draw(t, "depth"))]
		got := []exchange.Price{}
		l.best(len(sorted), func(p exchange.Price, n exchange.Position) {
			require.Equal(t, want[p].Position(), n)
			got = append(got, p)
		})
		require.Equal(t, append([]exchange.Price{}, sorted...), got)
	})
}

func TestALevelHoldsMoreThanOneOrderMay(t *testing.T) {
	l := levels{up: 1}
	const most = 9e18
	for range 1000 {
		require.True(t, l.add(1, exchange.Shares(most).Position()))
	}
	l.best(1, func(_ exchange.Price, n exchange.Position) { require.Equal(t, "90000000000000", n.String()) })
}

// TestEmptyChunksAreGivenUp removes most levels of a deep side, and leaves a few that are far apart.
func TestEmptyChunksAreGivenUp(t *testing.T) {
	l := levels{up: 1}
	one := exchange.Shares(1).Position()
	for p := range exchange.Price(100 * levelsMax) {
		require.True(t, l.add(p+1, one))
	}
	for p := range exchange.Price(100 * levelsMax) {
		if p%(2*levelsMax) != 0 {
			require.True(t, l.add(p+1, exchange.Shares(-1).Position()))
		}
	}
	l.check(t)
	require.LessOrEqual(t, len(l.chunks), 4, "50 levels")
}
