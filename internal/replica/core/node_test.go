package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThreeNodesElectALeaderAndCommit(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	l := c.leader()
	require.Equal(t, map[uint64]int{l.id: 1}, c.leads)
	for range 10 {
		c.propose(3)
	}
	c.tick(10)
	c.same(30, 1, 2, 3)
	for _, id := range c.ids() {
		st := c.nodes[id].Status()
		require.Equal(t, l.Status().Cluster, st.Cluster)
		require.NotZero(t, st.Cluster)
		require.Equal(t, uint64(30), st.Position.Seq)
		require.Equal(t, l.Status().Position, st.Position)
		for _, m := range st.Members {
			require.Equal(t, identity(byte(m.ID)), m.Identity)
		}
	}
}

func TestALeaderThatIsCutOffIsDeposedAndAnotherGoesOn(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	l := c.leader()
	c.propose(1)
	c.cut[l.id] = true
	require.NoError(t, l.Propose(2, [][]byte{[]byte("lost")}))
	c.tick(100)
	require.Equal(t, 1, c.deposed[l.id])
	require.ErrorIs(t, l.Propose(3, [][]byte{[]byte("x")}), ErrNotLeading)
	next := c.leader()
	require.NotEqual(t, l.id, next.id)
	c.propose(1)
	c.cut[l.id] = false
	c.tick(100)
	c.same(2, 1, 2, 3)
	require.NotContains(t, string(c.disks[l.id].records[1]), "lost")
}

func TestRestartTellsWhatTheJournalLacks(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.leader()
	for range 5 {
		c.propose(2)
	}
	c.tick(10)
	d := c.disks[1]
	d.records = d.records[:3] // a power cut within a batch
	c.start(1)
	c.tick(100)
	c.leader()
	c.propose(1)
	c.tick(10)
	c.same(11, 1, 2, 3)
}

func TestASingleNodeLeadsByItself(t *testing.T) {
	c := newCluster(t, 1)
	c.leader()
	c.propose(4)
	c.same(4, 1)
	n := c.nodes[1]
	r := n.Read()
	c.run()
	require.Equal(t, r, c.rounds[1])
}
