package replica

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal/durable"
)

// hangs makes syncs of some files hang, like a stuck disk.
type hangs struct {
	mu    sync.Mutex // guards the fields below
	below string
	end   *sync.Cond
}

// newHangs wraps the syncs of this process until the test and its clusters end.
func newHangs(t *testing.T) *hangs {
	h := &hangs{}
	h.end = sync.NewCond(&h.mu)
	system := durable.System
	durable.System.SyncData = func(f *os.File) error {
		h.mu.Lock()
		for h.below != "" && strings.HasPrefix(f.Name(), h.below+string(filepath.Separator)) {
			h.end.Wait()
		}
		h.mu.Unlock()
		return system.SyncData(f)
	}
	t.Cleanup(func() { durable.System = system })
	return h
}

// hang makes syncs of the files below a directory hang from now on. If below is "", no sync hangs.
func (h *hangs) hang(below string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.below = below
	h.end.Broadcast()
}

// TestALeaderWhoseDiskHangsHandsOver checks that the other nodes continue, that the leader reports
// why it is unfit, and that it recovers with its disk.
func TestALeaderWhoseDiskHangsHandsOver(t *testing.T) {
	for _, dir := range []string{raftDir, "journal"} {
		t.Run(dir, func(t *testing.T) {
			h := newHangs(t)
			c := newCluster(t, 3)
			defer h.hang("")
			old := c.leader(1, 2, 3)
			_, err := old.put("one")
			require.NoError(t, err)
			h.hang(filepath.Join(old.dir, dir))
			put := make(chan error, 1)
			go func() {
				_, err := old.put("two, which may be lost")
				put <- err
			}()

			next := c.leader(c.others(old.id)...)
			_, err = next.put("three")
			require.NoError(t, err)
			<-old.Deposed()
			if err := <-put; dir == raftDir {
				require.ErrorIs(t, err, ErrDeposed, "a record commits only if this node has it too")
			} else {
				require.NoError(t, err)
			}
			changed := old.Changed()
			require.ErrorContains(t, old.Status().Unfit, "data/"+dir)
			require.Greater(t, old.Status().SyncAge, syncAgeMax)

			h.hang("")
			for old.Status().Unfit != nil {
				<-changed
				changed = old.Changed()
			}
			c.alike()
		})
	}
}

// TestCloseDoesNotWaitForADisk closes a replica while its disk hangs.
func TestCloseDoesNotWaitForADisk(t *testing.T) {
	h := newHangs(t)
	c := newCluster(t, 3)
	leader := c.leader(1, 2, 3)
	h.hang(filepath.Join(leader.dir, raftDir))
	_, err := leader.AppendClaimed([]byte("one"), 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return leader.watch.writing.Load() != 0 }, patience, tick)
	require.ErrorContains(t, leader.Close(), "has not ended")
	h.hang("")
	leader.ended.Wait()
	require.NoError(t, leader.disk.Close())
	require.NoError(t, leader.journal.Close())
	leader.Replica = nil
	_, err = c.leader(c.others(leader.id)...).put("two")
	require.NoError(t, err)
}

// TestALeaderWithoutRoomHandsOver checks that a leader with a full disk refuses records until
// another node leads.
func TestALeaderWithoutRoomHandsOver(t *testing.T) {
	c := newCluster(t, 3)
	old := c.leader(1, 2, 3)
	give := takeNames(t, filepath.Join(old.dir, "journal"))
	var err error
	record := strings.Repeat("x", 50_000)
	for err == nil {
		_, err = old.put(record)
	}
	next := c.leader(c.others(old.id)...)
	_, err = next.put("others have room")
	require.NoError(t, err)
	<-old.Deposed()
	require.Error(t, old.Status().Unfit)
	give()
	require.Eventually(t, func() bool { return old.Status().Unfit == nil }, patience, tick)
	c.alike()
}

// TestAFollowerWhoseDiskHangs checks that such a follower slows no other node, accepts a limited
// amount of data, and catches up later.
func TestAFollowerWhoseDiskHangs(t *testing.T) {
	h := newHangs(t)
	c := newCluster(t, 3)
	defer h.hang("")
	leader := c.leader(1, 2, 3)
	slow := c.nodes[c.others(leader.id)[0]]
	h.hang(filepath.Join(slow.dir, raftDir))
	record := strings.Repeat("x", 100_000)
	for range 20 {
		_, err := leader.put(record)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return slow.Status().Unfit != nil }, patience, tick)
	require.LessOrEqual(t, slow.writes.bytes.Load(), int64(queueBytesMax+batchBytesMax))
	h.hang("")
	require.NoError(t, leader.Err())
	c.alike()
}
