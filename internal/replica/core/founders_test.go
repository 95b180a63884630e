package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFoundersOfDifferentListsAreNoCluster starts some nodes with three voters and others with
// five. Two majorities of such nodes could have no node in common.
func TestFoundersOfDifferentListsAreNoCluster(t *testing.T) {
	c := newCluster(t, 1, 2, 3, 4, 5)
	for _, id := range []uint64{1, 3} {
		c.disks[id].Mark = founding(1, 2, 3)
		c.start(id)
		c.nodes[id].MayCampaign(false)
	}
	n := c.leader()
	c.tick(20)
	for _, id := range []uint64{1, 3} {
		require.ErrorContains(t, c.broken[id], "--peers")
	}
	require.Contains(t, []uint64{2, 4, 5}, n.id)
	c.propose(1)
	c.same(1, 2, 4, 5)
}

// TestADeposedLeaderThatMayNotCampaignDoesNotStand checks that it does not campaign for the next
// term at once.
func TestADeposedLeaderThatMayNotCampaignDoesNotStand(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.tick(2 * retryElections * electionTicks)
	require.Equal(t, Leader, n.Status().Role)
	n.MayCampaign(false)
	require.False(t, n.canBeElected())
}
