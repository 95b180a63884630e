package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

func TestReadsShareARoundAndTheNextGathers(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	first := n.Read()
	require.NotZero(t, first)
	require.Equal(t, first+1, n.Read(), "a read after the start of a round waits for the next round")
	require.Equal(t, first+1, n.Read())
	c.run()
	require.Equal(t, first+1, c.rounds[n.id])
	require.Equal(t, first+2, n.Read())
}

func TestARoundIsConfirmedByAMajorityOnly(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	for _, id := range c.ids() {
		c.cut[id] = id != n.id
	}
	round := n.Read()
	c.tick(20)
	require.Less(t, c.rounds[n.id], round)
	c.cut[n.id%3+1] = false
	c.tick(5)
	require.Equal(t, round, c.rounds[n.id], "the next heartbeat repeats the round")
}

func TestALeaderThatIsDeposedConfirmsNoRound(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.cut[n.id] = true
	round := n.Read()
	c.tick(100)
	c.cut[n.id] = false
	c.tick(100)
	require.Equal(t, 1, c.deposed[n.id])
	require.Less(t, c.rounds[n.id], round)
	require.Zero(t, n.Read(), "a node that does not lead has no round")
}

func TestALeaderThatHasCommittedNothingInItsTermHasNoRound(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.lost[raftpb.MsgApp] = true
	elected := func() (leaders []*Node) {
		for _, id := range c.ids() {
			if n := c.nodes[id]; n.lead.term != 0 {
				leaders = append(leaders, n)
			}
		}
		return leaders
	}
	for range 1000 { // split votes delay the election
		if c.tick(1); len(elected()) > 0 {
			break
		}
	}
	c.tick(20)
	require.NotEmpty(t, elected())
	for _, n := range elected() {
		require.Zero(t, n.Read())
		require.ErrorIs(t, n.Propose(1, [][]byte{nil}), ErrNotLeading)
		require.NotEqual(t, Leader, n.Status().Role)
	}
	require.Empty(t, c.leads)
	clear(c.lost)
	require.NotZero(t, c.leader().Read())
}

func TestTransferGoesToTheFurthest(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	behind, fit := n.id%3+1, (n.id+1)%3+1
	c.cut[behind] = true
	c.propose(1)
	c.cut[behind] = false
	require.NoError(t, n.Transfer(0))
	require.False(t, n.CanPropose())
	c.run()
	require.Equal(t, 1, c.leads[fit])
	require.Equal(t, 1, c.deposed[n.id])
	require.ErrorIs(t, n.Transfer(0), ErrNotLeading)
}

func TestTransferRefuses(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	require.ErrorContains(t, n.Transfer(n.id), "already leads")
	require.ErrorContains(t, n.Transfer(9), "node 9 is not a voter")
	other := n.id%3 + 1
	c.cut[other] = true
	for _, id := range c.ids() {
		c.nodes[id].ticks += 1000 // makes all other nodes inactive
	}
	require.ErrorContains(t, n.Transfer(other), "has not answered lately")
	require.ErrorContains(t, n.Transfer(0), "no other voter is active")
}

func TestATransferThatFailsIsTriedWithAnother(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	refuses, other := n.id%3+1, (n.id+1)%3+1
	c.nodes[refuses].MayCampaign(false)
	for range 2 {
		require.NoError(t, n.Transfer(0))
		c.tick(40)
		if c.leads[other] > 0 {
			return
		}
		require.Equal(t, Leader, n.Status().Role, "it still leads")
		require.True(t, n.CanPropose())
	}
	t.Fatal("the leadership was not transferred")
}

func TestANodeThatMayNotCampaignIsNotChosen(t *testing.T) {
	for id := range uint64(3) {
		t.Run(fmt.Sprintf("node %d leads first", id+1), func(t *testing.T) { testUnfitIsNotChosen(t, id+1) })
	}
}

func testUnfitIsNotChosen(t *testing.T, leads uint64) {
	c := newCluster(t, 1, 2, 3)
	if n := c.leader(); n.id != leads {
		require.NoError(t, n.Transfer(leads))
		c.run()
	}
	first := c.leader()
	require.Equal(t, leads, first.id)
	first.MayCampaign(false)
	elections := first.Status().Elections
	c.run()
	require.Equal(t, 1, c.deposed[first.id], "it transfers the leadership")
	second := c.leader()
	require.NotEqual(t, first.id, second.id)
	third := c.nodes[6-first.id-second.id]
	second.MayCampaign(false)
	c.tick(350)
	if first.id < third.id { // of two nodes with equal logs, the leader tries the lower number first
		require.Equal(t, Leader, second.Status().Role, "the first node refuses")
		require.NoError(t, second.Transfer(0), "its owner tries again")
		c.tick(350)
	}
	require.Equal(t, third.id, c.leader().id)
	third.MayCampaign(false)
	c.tick(1000)
	require.Equal(t, third.id, c.leader().id, "no other node can lead")
	require.Equal(t, elections, first.Status().Elections)
	c.propose(1)
	c.cut[third.id] = true
	elections += second.Status().Elections
	c.tick(200)
	require.Equal(t, elections, first.Status().Elections+second.Status().Elections)
	first.MayCampaign(true)
	require.Equal(t, first.id, c.leader().id, "a node that may campaign again is elected")
}

// TestALeaderGoesOnWhereNobodyIsFit checks that a leader that may not campaign continues if no
// other node may. Its owner decides how often to retry a transfer, since nothing can be proposed
// during one.
func TestALeaderGoesOnWhereNobodyIsFit(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.propose(1)
	for _, node := range c.nodes {
		node.MayCampaign(false)
	}
	c.tick(100) // includes one attempt to transfer
	for range 3000 {
		c.tick(1)
		require.Equal(t, Leader, n.Status().Role)
		require.True(t, n.CanPropose())
	}
}

func TestTheOnlyOneWithAllEntriesHandsOver(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	behind, unfit := n.id%3+1, (n.id+1)%3+1
	c.cut[behind] = true
	c.propose(1)
	c.cut[behind], c.cut[n.id] = false, true
	c.nodes[unfit].MayCampaign(false)
	c.tick(1000)
	require.Equal(t, 1, c.leads[behind])
	require.Zero(t, c.leads[unfit])
	require.Equal(t, behind, c.leader().id)
	c.same(1, behind, unfit)
}
