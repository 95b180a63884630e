package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// requireFits checks the invariants of all that a view has.
func requireFits(t testing.TB, v *View) {
	t.Helper()
	for _, a := range v.list {
		var last uint64
		for c, chunk := range a.orders.chunks {
			require.NotEmpty(t, chunk)
			require.LessOrEqual(t, len(chunk), ordersChunk)
			for i := range chunk {
				require.Greater(t, uint64(chunk[i].id), last, "chunk %d, place %d", c, i)
				last = uint64(chunk[i].id)
				require.Positive(t, int64(chunk[i].open))
			}
		}
		for i := range a.positions {
			p := &a.positions[i]
			require.True(t, p.shares.Sign() != 0 || p.held.Sign() != 0)
			require.True(t, i == 0 || a.positions[i-1].symbol < p.symbol)
		}
		kept, before := 0, slot(0)
		for s := a.fills.oldest; s != 0; s = v.fills.at(s).next {
			require.Equal(t, before, v.fills.at(s).prev)
			require.Equal(t, a.number, v.fills.at(s).account)
			before = s
			kept++
		}
		require.Equal(t, before, a.fills.newest)
		require.Equal(t, kept, a.fills.kept)
		require.LessOrEqual(t, kept, v.fills.accountMost)
		require.LessOrEqual(t, uint64(kept), a.fills.count)
	}
	all, before := 0, slot(0)
	for s := v.fills.oldest; s != 0; s = v.fills.at(s).newer {
		require.Equal(t, before, v.fills.at(s).older)
		before = s
		all++
	}
	require.Equal(t, before, v.fills.newest)
	require.Equal(t, v.fills.used, all)
	require.LessOrEqual(t, all, v.fills.most)
}
