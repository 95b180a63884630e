package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingIsLookedForTwiceWhereThereIsNone checks that a query for a symbol that an account never traded
// reads its rows once, and not for each step of the search.
func TestNothingIsLookedForTwiceWhereThereIsNone(t *testing.T) {
	const rows, first, most = 100_000, 1 << 39, 1 << 40
	read := uint64(0)
	_, err := firstReached(0, most, func(from, end uint64) (uint64, bool, error) {
		if from, end := max(from, first), min(end, first+rows); from < end {
			read += end - from
		}
		return from, true, nil
	})
	require.NoError(t, err)
	require.Equal(t, uint64(rows), read)
}

// TestFirstReachedIsTheFirst compares firstReached with a linear search.
func TestFirstReachedIsTheFirst(t *testing.T) {
	there := []uint64{3, 4, 9, 17, 40}
	for from := range uint64(50) {
		got, err := firstReached(1, 60, func(least, end uint64) (uint64, bool, error) {
			for _, n := range there {
				if n >= least && n < end {
					return n, n >= from, nil
				}
			}
			return least, true, nil
		})
		require.NoError(t, err)
		var want, found uint64
		for _, n := range there {
			if n >= from && want == 0 {
				want = n
			}
			if n >= got && found == 0 {
				found = n
			}
		}
		require.Equal(t, want, found, "from %d", from)
	}
}
