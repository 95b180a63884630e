package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// TestWhatPeersSendIsBounded checks the limits on the number and the size of messages that wait for
// the loop.
func TestWhatPeersSendIsBounded(t *testing.T) {
	r := &Replica{wakeLoop: make(chan struct{}, 1)}
	for range messagesMax + 10 {
		r.receive(core.Identity{}, &raftpb.Message{})
	}
	require.Len(t, r.inbox.messages, messagesMax)
	require.EqualValues(t, 10, r.counts.dropped.Load())

	r = &Replica{wakeLoop: make(chan struct{}, 1)}
	large := &raftpb.Message{Entries: []*raftpb.Entry{{Data: make([]byte, queueBytesMax/4)}}}
	for range 10 {
		r.receive(core.Identity{}, large)
	}
	require.LessOrEqual(t, r.inbox.bytes, queueBytesMax)
	require.EqualValues(t, 7, r.counts.dropped.Load())
}

// TestACongestedNodeTakesNoEntries checks that a node whose disk queue is full drops entries and
// votes, which it would have to write, and accepts what a leader needs.
func TestACongestedNodeTakesNoEntries(t *testing.T) {
	node := &taker{}
	r := &Replica{node: node, wakeLoop: make(chan struct{}, 1), writes: newQueue[*core.Write](),
		applies: newQueue[application]()}
	kinds := []raftpb.MessageType{raftpb.MsgApp, raftpb.MsgSnap, raftpb.MsgVote, raftpb.MsgHeartbeat, raftpb.MsgAppResp}
	send := func() []raftpb.MessageType {
		node.took = nil
		for _, kind := range kinds {
			r.receive(core.Identity{}, &raftpb.Message{Type: kind.Enum()})
		}
		require.NoError(t, r.handleInbox())
		return node.took
	}
	require.Equal(t, kinds, send())
	r.applies.put(application{}, queueBytesMax)
	require.Equal(t, kinds[3:], send())
	r.applies.done(queueBytesMax)
	require.Equal(t, kinds, send())
	r.writes.put(&core.Write{}, queueBytesMax)
	require.Equal(t, kinds[3:], send())
}

// taker is a node that records the messages it receives.
type taker struct {
	stepper
	took []raftpb.MessageType
}

func (n *taker) Receive(_ core.Identity, m *raftpb.Message) { n.took = append(n.took, m.GetType()) }

// TestSegmentsAreKeptForMembers checks that segments are kept up to KeepBytes, unless the disk is
// full.
func TestSegmentsAreKeptForMembers(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(dir, journal.Options{Version: 1, SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	at := keepEvery
	r := &Replica{journal: j, options: Options{KeepBytes: 200 << 10}, now: func() time.Duration { return at }}
	require.NoError(t, r.beginToKeep())
	defer r.keep.Close()
	fill := func() (seq uint64) {
		for range 40 {
			var err error
			seq, err = j.Append([]byte(strings.Repeat("x", 10_000)))
			require.NoError(t, err)
		}
		require.NoError(t, j.Wait(t.Context(), seq))
		return seq
	}
	last := fill()
	require.NoError(t, j.RemoveBefore(last))
	require.Equal(t, uint64(1), j.First(), "everything is kept until the first computation")
	r.keepForPeers()
	require.NoError(t, j.RemoveBefore(last))
	require.Equal(t, 3, j.SegmentCount())
	require.Equal(t, j.First(), j.FirstWithin(200<<10))
	require.Equal(t, j.First(), j.FirstWithin(1<<40))
	require.Greater(t, j.FirstWithin(0), j.FirstWithin(200<<10))

	taken := takeNames(t, dir)
	require.Eventually(t, func() bool {
		last, err = j.Append([]byte(strings.Repeat("x", 1000)))
		return err != nil || j.Room() != nil
	}, patience, time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, j.SegmentCount(), 1)
	at += keepEvery
	r.keepForPeers()
	// The newest records may still be on their way to the newest segment.
	require.Eventually(t, func() bool {
		return j.RemoveBefore(last+1) == nil && j.SegmentCount() == 1
	}, patience, time.Millisecond)
	taken()
	require.NoError(t, j.Wait(t.Context(), last))
}

// takeNames makes a journal run out of room by creating directories with the names of its next
// segments. The returned function removes them.
func takeNames(t *testing.T, journal string) (remove func()) {
	var made []string
	for i := range 1000 {
		name := filepath.Join(journal, fmt.Sprintf("next-%d.tmp", i))
		if os.Mkdir(name, 0o700) == nil {
			made = append(made, name)
		}
	}
	require.NotEmpty(t, made)
	return func() {
		for _, name := range made {
			require.NoError(t, os.Remove(name))
		}
	}
}

// TestWhereNobodyIsFitALeaderGoesOn checks that attempts to transfer become rare if no node can
// lead, since each of them delays orders for a while.
func TestWhereNobodyIsFitALeaderGoesOn(t *testing.T) {
	at, node := time.Duration(0), &unfit{}
	r := &Replica{node: node, now: func() time.Duration { return at }}
	r.loop.leads, r.loop.mayCampaign = true, true
	for ; at < time.Minute; at += tick {
		r.campaign()
	}
	require.Equal(t, 1, node.told)
	require.GreaterOrEqual(t, node.transfers, 6)
	require.LessOrEqual(t, node.transfers, 12)
}

// unfit is a leader that finds no node to which it can transfer.
type unfit struct {
	stepper
	told, transfers int
}

func (n *unfit) MayCampaign(bool) { n.told++ }

func (n *unfit) Transfer(uint64) error {
	n.transfers++
	return nil
}
