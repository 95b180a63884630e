package replica

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThreeAgree appends from many goroutines and checks that all nodes have the same records.
func TestThreeAgree(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 50 {
				_, err := leader.put(fmt.Sprintf("record %d of %d", i, g))
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 800, leader.Synced())
	require.Len(t, c.alike(), 800)
}
