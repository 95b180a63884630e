package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/core"
	"outcry/internal/testing/budget"
)

// writers append to a leader until its leadership ends, and record which appends were answered.
type writers struct {
	mu       sync.Mutex // guards answered
	answered map[uint64]string
	count    int
	work     sync.WaitGroup
}

// write starts n goroutines that append to a leader.
func (w *writers) write(leader *testNode, n int) {
	r := leader.Replica
	for range n {
		w.work.Go(func() {
			for {
				w.mu.Lock()
				w.count++
				record := fmt.Sprintf("record %d through node %d", w.count, leader.id)
				w.mu.Unlock()
				if err := r.Claim(len(record)); err != nil {
					return
				}
				seq, err := r.AppendClaimed([]byte(record), len(record))
				if err != nil || r.Wait(context.Background(), seq) != nil {
					return
				}
				w.mu.Lock()
				w.answered[seq] = record
				w.mu.Unlock()
			}
		})
	}
}

// some waits until n more appends are answered.
func (w *writers) some(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.answered)
	}
	before := count()
	require.Eventually(t, func() bool { return count() >= before+n }, patience, tick)
}

// check checks that every answered record is in its place.
func (w *writers) check(t *testing.T, records [][]byte) {
	t.Helper()
	for _, seq := range slices.Sorted(maps.Keys(w.answered)) {
		require.LessOrEqual(t, seq, uint64(len(records)), "record %d was answered", seq)
		require.Equal(t, w.answered[seq], string(records[seq-1]), "record %d was answered", seq)
	}
}

// TestNothingAnsweredIsLost kills the leader under load several times, and restarts it.
func TestNothingAnsweredIsLost(t *testing.T) {
	for _, size := range []uint64{3, 5} {
		t.Run(fmt.Sprint(size, " nodes"), func(t *testing.T) {
			c := newCluster(t, size)
			w := &writers{answered: map[uint64]string{}}
			among := c.others(0)
			for range 1 + budget.UnlessRaced(3) {
				leader := c.leader(among...)
				w.write(leader, 8)
				w.some(t, 200)
				leader.stop()
				w.work.Wait()
				among = c.others(leader.id)
				next := c.leader(among...)
				_, err := next.put("another leads")
				require.NoError(t, err)
				leader.start()
				next.restart() // a process that has led never leads again, so restart it
				among = c.others(0)
			}
			_, err := c.leader(among...).put("the last")
			require.NoError(t, err)
			w.check(t, c.alike())
		})
	}
}

// TestALeaderThatIsCutOffAnswersNothing checks that it confirms no record and no read, and loses
// the leadership.
func TestALeaderThatIsCutOffAnswersNothing(t *testing.T) {
	c := newCluster(t, 3)
	old := c.leader(1, 2, 3)
	seq, err := old.put("before")
	require.NoError(t, err)
	require.NoError(t, old.WaitConfirmed(t.Context(), seq, old.Round()), "a round, with no record on its way")
	require.NoError(t, old.WaitConfirmed(t.Context(), seq, old.Round()), "the next round")

	c.isolate(old.id, true)
	round := old.Round()
	read := make(chan error, 2)
	go func() { read <- old.WaitConfirmed(t.Context(), seq, round) }()
	lost, err := old.AppendClaimed([]byte("lost"), 0)
	require.NoError(t, err)
	go func() { read <- old.Wait(t.Context(), lost) }()
	wake := make(chan struct{}, 1)
	old.NotifyConfirmed(seq, round, wake)

	next := c.leader(c.others(old.id)...)
	after, err := next.put("after")
	require.NoError(t, err)
	require.Equal(t, lost, after, "another record has this place")
	require.False(t, old.Confirmed(seq, round))
	require.Less(t, old.Synced(), lost)
	<-old.Deposed()
	require.ErrorIs(t, <-read, ErrDeposed)
	require.ErrorIs(t, <-read, ErrDeposed)
	<-wake
	require.ErrorIs(t, old.Err(), ErrDeposed)

	c.isolate(old.id, false)
	require.Eventually(t, func() bool { return old.journal.Appended() >= after }, patience, tick)
	require.Less(t, old.Synced(), lost, "records of another leader do not count")
	require.False(t, old.Confirmed(lost, 0))
	records := c.alike()
	require.Equal(t, "after", string(records[lost-1]))
	require.NotEqual(t, core.Leader, old.Status().Role)
}

// TestWithoutAMajorityNobodyLeads checks that without a majority the remaining node loses the
// leadership, and that it has its records when it starts again.
func TestWithoutAMajorityNobodyLeads(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	seq, err := leader.put("one")
	require.NoError(t, err)
	for _, id := range c.others(leader.id) {
		c.nodes[id].stop()
	}
	<-leader.Deposed()
	require.ErrorIs(t, leader.Wait(t.Context(), seq), ErrDeposed)
	leader.restart()
	require.Equal(t, seq, leader.Appended(), "the journal has what is committed")
	for _, id := range c.others(leader.id) {
		c.nodes[id].start()
	}
	_, err = c.leader(1, 2, 3).put("two")
	require.NoError(t, err)
	c.alike()
}

// TestTransfer transfers the leadership to a chosen node under load.
func TestTransfer(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	w := &writers{answered: map[uint64]string{}}
	w.write(leader, 8)
	w.some(t, 100)
	to := c.others(leader.id)[0]
	require.ErrorIs(t, c.nodes[to].Transfer(t.Context(), 0), ErrNotLeading)
	require.Error(t, leader.Transfer(t.Context(), 9), "no such node")
	require.NoError(t, leader.Err())
	require.NoError(t, leader.Transfer(t.Context(), to))
	w.work.Wait()
	next := c.leader(c.others(leader.id)...)
	require.Equal(t, to, next.id)
	_, err := next.put("after")
	require.NoError(t, err)
	w.check(t, c.alike())
}

// TestOnlyTheReadyLead checks that a node whose owner is not ready stores records but does not
// campaign, and that a leader whose owner is no longer ready transfers the leadership.
func TestOnlyTheReadyLead(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	unready, ready := c.others(leader.id)[0], c.others(leader.id)[1]
	c.nodes[unready].MayCampaign(false)
	leader.MayCampaign(false)
	require.Equal(t, ready, c.leader(c.others(leader.id)...).id)
	_, err := c.nodes[ready].put("one")
	require.NoError(t, err)
	c.alike()
}

// TestABrokenNodeStaysDown checks that the reason is written to disk, and that a start refuses with
// that reason.
func TestABrokenNodeStaysDown(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	_, err := leader.put("one")
	require.NoError(t, err)
	leader.Break(errors.New("fill 7 of record 1 differs"))
	<-leader.Broken()
	<-leader.Failed()
	<-leader.Deposed()
	_, ok := errors.AsType[*BrokenError](leader.Err())
	require.True(t, ok)
	_, err = c.leader(c.others(leader.id)...).put("the others go on")
	require.NoError(t, err)
	leader.stop()
	err = leader.open()
	_, ok = errors.AsType[*BrokenError](err)
	require.True(t, ok, "%v", err)
	require.ErrorContains(t, err, "fill 7 of record 1 differs")
	require.ErrorContains(t, err, "outcry cluster replace")
	require.NoError(t, os.Remove(filepath.Join(leader.dir, brokenName)))
	leader.start()
}

// TestALostLogIsNotFoundedAgain checks that a node without data/raft does not found a new log,
// since it could vote twice.
func TestALostLogIsNotFoundedAgain(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	_, err := leader.put("one")
	require.NoError(t, err)
	leader.stop()
	require.NoError(t, os.RemoveAll(filepath.Join(leader.dir, raftDir)))
	require.ErrorContains(t, leader.open(), "could vote twice")
	require.NoError(t, os.Remove(filepath.Join(leader.dir, clusterName)))
	require.ErrorContains(t, leader.open(), "shows that this was a node of a cluster", "it would lead alone")

	// If the whole directory is lost, the node has another identity and the others refuse it.
	require.NoError(t, os.RemoveAll(leader.dir))
	leader.start()
	other := c.nodes[c.others(leader.id)[0]]
	require.ErrorContains(t, other.onHello(leader.hello()), "vote twice")
}

// TestFoundersKeepToOneList checks that nodes refuse founders with other lists of nodes, and that a cluster refuses a
// founder of a different cluster.
func TestFoundersKeepToOneList(t *testing.T) {
	c := newCluster(t, 3)
	young := c.add(4)
	young.peers = map[uint64]string{1: c.peers[1], 4: "127.0.0.1:4"}
	young.start()
	require.Equal(t, "1,4", young.hello().Founders)
	leader := c.leader(1, 2, 3)
	require.Eventually(t, func() bool { return leader.hello().Founders == "" }, patience, tick)
	require.ErrorContains(t, leader.onHello(young.hello()), "founds a cluster of the nodes 1,4, but is not a member")

	other := c.add(5)
	other.peers = map[uint64]string{4: "127.0.0.1:4", 5: "127.0.0.1:5", 1: c.peers[1]}
	other.start()
	require.ErrorContains(t, other.onHello(young.hello()), "give all nodes the same --peers")
}

// TestAFounderDoesNotJoin checks that a node that founds a cluster cannot be added to another,
// since it would keep waiting for the other founders.
func TestAFounderDoesNotJoin(t *testing.T) {
	c := newCluster(t, 1)
	young := c.add(2)
	young.peers = map[uint64]string{1: c.peers[1], 2: "127.0.0.1:2", 3: "127.0.0.1:3"}
	young.start()
	young.stop()
	young.changes = []func(*Options){func(o *Options) { o.Join = true }}
	require.ErrorContains(t, young.open(), "nodes [1 2 3]: begin with an empty directory")
}

// TestAnAddressThatNobodyCouldUseIsRefused checks MayAdd, since all nodes use an address once it is
// in the log.
func TestAnAddressThatNobodyCouldUseIsRefused(t *testing.T) {
	c := newCluster(t, 1)
	leader := c.leader(1)
	for address, text := range map[string]string{
		"garbage": `address "garbage" of node 2 must be HOST:PORT`, "127.0.0.1:": "HOST:PORT", ":7000": "HOST:PORT",
		"127.0.0.1:x": "HOST:PORT", "192.0.2.1:7000": "--peer-cert", leader.peers[1]: "already the address of node 1",
	} {
		change := core.MemberChange{Add: []core.Member{{ID: 2, Address: address}}}
		require.ErrorContains(t, leader.Change(t.Context(), change), text)
	}
	require.Len(t, leader.Status().Members, 1)
}
