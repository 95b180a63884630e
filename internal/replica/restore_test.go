package replica

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// forgetful makes a node keep little of its log, and little of its journal for other nodes.
func forgetful(o *Options) {
	small(o)
	o.KeepBytes = 1
}

// forgets waits until the first records of a node's journal are deleted.
func (n *testNode) forgets(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, n.journal.RemoveBefore(n.journal.Appended()))
		return n.journal.First() > 1
	}, patience, tick)
}

// restarted starts the node with a new journal, as the owner of a node that must be restored does.
func (n *testNode) restarted(t *testing.T) {
	t.Helper()
	n.stop()
	restore, err := Unrestored(n.dir)
	require.NoError(t, err)
	require.NotNil(t, restore)
	folder := filepath.Join(n.dir, "journal")
	require.NoError(t, restore.Discard(folder))
	j, err := journal.Open(folder, journal.Options{Version: 1, SegmentBytes: 1 << 20, FirstSeq: restore.Seq + 1})
	require.NoError(t, err)
	require.NoError(t, restore.Began(n.dir))
	require.NoError(t, j.Close())
	require.NoError(t, n.open())
}

// hasAll reports whether a member has all records of this node, which leads.
func (n *testNode) hasAll(id uint64) bool {
	return slices.ContainsFunc(n.Status().Peers, func(p Peer) bool { return p.ID == id && p.Active && p.Lag == 0 })
}

// TestAMemberThatMissedWhatNobodyKeepsIsToBeRestored checks that such a member starts a new journal
// at the position of the others, and follows from there. It votes and stores before its state is
// restored.
func TestAMemberThatMissedWhatNobodyKeepsIsToBeRestored(t *testing.T) {
	c := newCluster(t, 3, forgetful)
	leader := c.leader(1, 2, 3)
	_, err := leader.put("one")
	require.NoError(t, err)
	away := c.nodes[c.others(leader.id)[0]]
	third := c.nodes[c.others(leader.id)[1]]
	require.Eventually(t, func() bool { return away.journal.Appended() == 1 }, patience, tick)
	away.stop()
	last := leader.fill(300)
	leader.forgets(t)
	third.forgets(t)
	away.start()
	<-away.Failed()
	var behind *BehindError
	require.ErrorAs(t, away.Err(), &behind)
	require.ErrorIs(t, behind, journal.ErrGone)
	require.Positive(t, behind.Seq)
	require.LessOrEqual(t, behind.Seq, last)
	require.NoFileExists(t, filepath.Join(away.dir, brokenName))

	away.restarted(t)
	require.Equal(t, behind.Seq+1, away.journal.First())
	require.Eventually(t, func() bool { return leader.hasAll(away.id) }, patience, tick)
	third.stop() // so that the majority needs the restored node
	last, err = leader.put("two")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return away.journal.Appended() == last }, patience, tick)
	third.start()
	require.Eventually(t, func() bool { return leader.hasAll(third.id) }, patience, tick)
	away.stop() // the contents of its directory stay
	require.NoError(t, away.open())
	last, err = leader.put("three")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return away.journal.Appended() == last }, patience, tick)

	restore, err := Unrestored(away.dir)
	require.NoError(t, err)
	require.Equal(t, &Restore{Seq: behind.Seq, Begun: true}, restore)
	require.NoError(t, restore.Discard(filepath.Join(away.dir, "journal")), "the new journal was started already")
	require.DirExists(t, filepath.Join(away.dir, "journal"))
	require.NoError(t, restore.Ended(away.dir))
	restore, err = Unrestored(away.dir)
	require.NoError(t, err)
	require.Nil(t, restore)
	away.restart() // the node does not know its journal's chain
	last, err = leader.put("four")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return away.journal.Appended() == last && third.journal.Appended() == last },
		patience, tick)
	require.NoError(t, away.Err())
	own, theirs := away.records(last), third.records(last)
	require.NotEmpty(t, own)
	require.Equal(t, theirs[len(theirs)-min(len(own), len(theirs)):], own[len(own)-min(len(own), len(theirs)):])
}

// TestANewcomerOfAnOldClusterIsToBeRestored adds a node when no node keeps the first records.
func TestANewcomerOfAnOldClusterIsToBeRestored(t *testing.T) {
	c := newCluster(t, 3, forgetful)
	leader := c.leader(1, 2, 3)
	last := leader.fill(300)
	leader.forgets(t)
	c.peers[4] = "127.0.0.1:4"
	n := c.add(4)
	n.changes = []func(*Options){func(o *Options) { forgetful(o); o.Join = true }}
	n.start()
	leader.changed(t, core.MemberChange{Add: []core.Member{{ID: 4, Address: c.peers[4], Identity: n.self}}})
	<-n.Failed()
	var behind *BehindError
	require.ErrorAs(t, n.Err(), &behind)
	n.restarted(t)
	leader.changed(t, core.MemberChange{Promote: []uint64{4}})
	require.Eventually(t, func() bool { return n.journal.Appended() >= last && n.Status().Role == core.Follower },
		patience,
		tick)
	require.NoError(t, n.Err())
}

func TestAFileRESTOREThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, restoreName)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err := Unrestored(dir)
	require.ErrorContains(t, err, path)
}
