package replica

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/core"
)

// TestANodeWithRecordsOfItsOwnDoesNotJoin checks that such a node is refused, since it would append
// the cluster's records after its own.
func TestANodeWithRecordsOfItsOwnDoesNotJoin(t *testing.T) {
	c := newCluster(t, 1)
	c.peers[4] = "127.0.0.1:4"
	n := c.add(4)
	n.begun(3)
	n.changes = []func(*Options){func(o *Options) { o.Join = true }}
	require.ErrorContains(t, n.open(), "already has 3 records")
	require.NoFileExists(t, filepath.Join(n.dir, clusterName))
	require.NoDirExists(t, filepath.Join(n.dir, raftDir))
}

// TestAFounderDoesNotReplaceALostNode starts a node with an empty directory but without --join. Its log would start
// like the cluster's. So the node would count as up to date, and break at the first entry that names its number.
func TestAFounderDoesNotReplaceALostNode(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	_, err := leader.put("one")
	require.NoError(t, err)
	lost := c.nodes[c.others(leader.id)[0]]
	again := core.Member{ID: lost.id, Address: c.peers[lost.id]}
	lost.stop()
	require.NoError(t, os.RemoveAll(lost.dir))
	lost.start()
	refused := func() bool { return leader.MayAdd(again) != nil }
	require.Eventually(t, refused, patience, tick)
	require.ErrorContains(t, leader.MayAdd(again), "was not started with --join")

	// The node may also start after the change.
	lost.stop()
	ctx := t.Context()
	require.Eventually(t, func() bool {
		return leader.Change(ctx, core.MemberChange{Remove: []uint64{lost.id}}) == nil
	}, patience, tick)
	leader.state.mu.Lock()
	clear(leader.state.founders)
	leader.state.mu.Unlock()
	require.Eventually(t, func() bool {
		return leader.Change(ctx, core.MemberChange{Add: []core.Member{again}}) == nil
	}, patience, tick)
	require.Eventually(t, func() bool { return len(leader.Status().Members) == 3 }, patience, tick)
	// The node may be marked as broken, since it was a member for a while.
	require.NoError(t, os.RemoveAll(lost.dir))
	lost.start()
	require.Eventually(t, refused, patience, tick)
	require.ErrorContains(t, leader.onHello(lost.hello()), "empty directory and --join")
	promote := core.MemberChange{Promote: []uint64{lost.id}}
	require.ErrorContains(t, leader.Change(ctx, promote), "was not started with --join")

	lost.stop()
	require.NoError(t, os.RemoveAll(lost.dir))
	lost.changes = []func(*Options){func(o *Options) { o.Join = true }}
	lost.start()
	leader.changed(t, promote)
	c.alike()
}

// TestADirectoryIsThatOfOneNumber checks that a wrong --node is refused. Otherwise the node would
// break, because the others know its identity under another number.
func TestADirectoryIsThatOfOneNumber(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	_, err := leader.put("one")
	require.NoError(t, err)
	node := c.nodes[c.others(leader.id)[0]]
	wrong := node.id%3 + 1
	node.stop()
	node.changes = []func(*Options){func(o *Options) { o.Node = wrong }}
	require.ErrorContains(t, node.open(), fmt.Sprintf("the directory of node %d, but --node is %d", node.id, wrong))
	require.NoFileExists(t, filepath.Join(node.dir, brokenName))
	node.changes = nil
	node.start()
	c.alike()

	node.stop()
	old := []byte("node identity 0123\n") // as written by older programs
	require.NoError(t, os.WriteFile(filepath.Join(node.dir, clusterName), old, 0o600))
	node.start()
	c.alike()
}

// lines collects log output.
type lines struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// count returns how often a text was logged.
func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(what))
}

// TestAnotherAddressThanTheClusterHasIsWarnedOf checks that one warning is logged.
func TestAnotherAddressThanTheClusterHasIsWarnedOf(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	node, log := c.nodes[c.others(leader.id)[0]], &lines{}
	node.stop()
	node.changes = []func(*Options){func(o *Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) }}
	node.peers[leader.id] = "127.0.0.1:99"
	node.start()
	_, err := leader.put("one")
	require.NoError(t, err)
	c.alike()
	const said = `level=WARN msg="the address of a node in --peers differs from the cluster's" `
	require.Eventually(t, func() bool { return log.count(said) > 0 }, patience, tick)
	node.stop()
	require.Equal(t, 1, log.count(said))
	require.Equal(t, 1, log.count(fmt.Sprintf("peer=%d peers=127.0.0.1:99 cluster=%s\n", leader.id, c.peers[leader.id])))
}
