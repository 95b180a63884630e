//go:build slow

package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryOfALargeView uses 100,000 accounts, 1,000,000 open orders, and 2,000,000 fills, half of them of one
// account.
func TestMemoryOfALargeView(t *testing.T) {
	took := memoryOf(t, 100_000, 5, 1_000_000, 1_000_000)
	t.Logf("%d bytes", took)
	require.Less(t, took, uint64(300<<20))
}
