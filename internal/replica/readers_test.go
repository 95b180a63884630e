package replica

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
)

// reads sets the version of records that a node reads.
func reads(version uint32) func(*Options) { return func(o *Options) { o.Hello.EventVersion = version } }

// says waits until Readers returns an error with the text want, or nil if want is "".
func (n *testNode) says(want string) {
	n.c.t.Helper()
	var err error
	require.Eventually(n.c.t, func() bool {
		err = n.Readers()
		return want == "" && err == nil || err != nil && err.Error() == want
	}, patience, tick, "%q: %v", want, &err)
}

// TestReadersAreTheVoters checks a rolling upgrade: an older voter takes part, and records that it
// cannot read must not be written. The version of a voter that is down is still known after a
// restart.
func TestReadersAreTheVoters(t *testing.T) {
	c := newCluster(t, 3)
	first := c.leader(1, 2, 3)
	last := c.nodes[c.others(first.id)[1]]
	for _, n := range c.nodes {
		n.says("")
	}
	old := "node " + string(rune('0'+last.id)) + " reads records only up to version 1, but version 2 is needed: upgrade it"
	for _, id := range []uint64{c.others(first.id)[0], first.id} {
		c.nodes[id].stop()
		c.nodes[id].changes = []func(*Options){reads(2)}
		c.nodes[id].start()
		_, err := c.leader(1, 2, 3).put("a record")
		require.NoError(t, err, "an older voter takes part")
	}
	leader := c.nodes[c.others(last.id)[0]]
	leader.says(old)
	last.stop()
	leader.says(old)
	last.changes = []func(*Options){reads(2)}
	last.start()
	leader.says("")

	last.stop()
	leader.restart()
	leader.says("")
	require.NoError(t, os.WriteFile(filepath.Join(leader.dir, readersName), []byte("torn"), 0o600))
	leader.restart()
	leader.says("node " + string(rune('0'+last.id)) + " was not heard yet, so it may not read records of version 2")
}

// TestAnOlderNodeIsNotTakenIn checks that an older learner is refused, since it would receive
// records that it cannot read.
func TestAnOlderNodeIsNotTakenIn(t *testing.T) {
	c := newCluster(t, 1, reads(2))
	leader := c.leader(1)
	four := core.Member{ID: 4, Address: "127.0.0.1:4"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, leader.Change(ctx, core.MemberChange{Add: []core.Member{four}}))
	require.Eventually(t, func() bool { return len(leader.Status().Members) == 2 }, patience, tick)
	h := peers.Hello{Node: 4, Self: core.Identity{4}, Version: "older", EventVersion: 1, ProtocolVersion: 1,
		SegmentBytes: 1 << 20}
	err := leader.onHello(h)
	require.ErrorIs(t, err, peers.ErrVersion)
	require.ErrorContains(t, err, "node 4 (program older) reads records only up to version 1, but this node "+
		"(program test) writes version 2: upgrade it")
	leader.says("")
	h.EventVersion = 2
	require.NoError(t, leader.onHello(h))

	// A learner that was admitted while there was no leader stays a learner.
	require.Eventually(t, func() bool { return leader.Status().Members[1].Identity == h.Self }, patience, tick)
	require.NoError(t, leader.readers.record(h.Self, 1, nil))
	promote := core.MemberChange{Promote: []uint64{4}}
	require.ErrorContains(t, leader.Change(ctx, promote),
		"node 4 reads records only up to version 1, but version 2 is needed")
	require.NoError(t, leader.readers.record(h.Self, 2, nil))
	require.ErrorContains(t, leader.Change(ctx, promote), "has not answered lately")
}

// TestAClosedReplicaWritesNoReaders checks that a hello that is still being checked changes nothing
// in the directory, which may already belong to another process.
func TestAClosedReplicaWritesNoReaders(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[1]
	r := n.Replica
	file := filepath.Join(n.dir, readersName)
	r.noteReader(&peers.Hello{Self: core.Identity{2}, EventVersion: 1})
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	n.stop()
	r.noteReader(&peers.Hello{Self: core.Identity{3}, EventVersion: 1})
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.NoFileExists(t, file+".tmp")
}

// TestADiskThatHangsDoesNotHoldUpTheLoop makes the write of the file READERS hang.
func TestADiskThatHangsDoesNotHoldUpTheLoop(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	for _, n := range c.nodes {
		n.says("")
	}
	other := c.nodes[c.others(leader.id)[0]]
	file := filepath.Join(leader.dir, readersName+".tmp")
	require.NoError(t, syscall.Mkfifo(file, 0o600)) // opening the file for writing hangs
	other.stop()
	other.changes = []func(*Options){reads(2)}
	other.start()
	require.Eventually(t, func() bool {
		leader.readers.mu.Lock()
		defer leader.readers.mu.Unlock()
		return leader.readers.of[other.self] == 2 // the file is being written at this point
	}, patience, tick)
	_, err := leader.put("a record")
	require.NoError(t, err)
	require.NoError(t, leader.do(t.Context(), func() error { return nil }))
	hanging, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = hanging.Close() }) // runs after the nodes have stopped
}
