package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/core"
)

// small makes a node keep little of Raft's log.
func small(o *Options) {
	tune := o.tune
	o.tune = func(o *core.Options) {
		tune(o)
		o.KeepBytes = 100_000
	}
}

// fill appends records of 10 kB.
func (n *testNode) fill(count int) (seq uint64) {
	for i := range count {
		var err error
		seq, err = n.put(fmt.Sprint(i, strings.Repeat("x", 10_000)))
		require.NoError(n.c.t, err)
	}
	return seq
}

// TestAMemberThatWasAwayFetches checks that a member fetches records from the leader's journal that
// the leader's log no longer has.
func TestAMemberThatWasAwayFetches(t *testing.T) {
	c := newCluster(t, 3, small)
	leader := c.leader(1, 2, 3)
	_, err := leader.put("one")
	require.NoError(t, err)
	away := c.nodes[c.others(leader.id)[0]]
	require.Eventually(t, func() bool { return away.journal.Appended() == 1 }, patience, tick)
	away.stop()
	last := leader.fill(100)
	away.start()
	require.Eventually(t, func() bool { return away.journal.Appended() == last }, patience, tick)
	require.NotZero(t, away.fetches.Load())
	c.alike()
	_, err = leader.put("two")
	require.NoError(t, err)
	c.alike()
	away.restart()
	_, err = leader.put("three")
	require.NoError(t, err)
	c.alike()
}

// TestAFetchOfALeaderThatHasStoppedEnds checks that the fetch ends once another node leads. The new
// leader needs the fetching node for its majority.
func TestAFetchOfALeaderThatHasStoppedEnds(t *testing.T) {
	c := newCluster(t, 3, small)
	leader := c.leader(1, 2, 3)
	away, third := c.nodes[c.others(leader.id)[0]], c.nodes[c.others(leader.id)[1]]
	away.stop()
	last := leader.fill(100)
	require.Eventually(t, func() bool { return third.journal.Appended() == last }, patience, tick)
	away.stuck.Store(leader.id)
	away.start()
	require.Eventually(t, func() bool { return away.fetches.Load() > 0 }, patience, tick)
	leader.stop()
	require.Equal(t, third, c.leader(away.id, third.id))
	last, err := third.put("two")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return away.journal.Appended() == last }, patience, tick)
	require.NoError(t, away.Err())
}

// TestASingleNodeGrows checks that the history of a single node becomes the cluster's, and that new
// nodes fetch it.
func TestASingleNodeGrows(t *testing.T) {
	c := newCluster(t, 0, small)
	c.peers[1] = "127.0.0.1:1"
	first := c.add(1)
	first.begun(30)
	first.changes = []func(*Options){small}
	first.start()
	require.Equal(t, first, c.leader(1))
	require.Equal(t, uint64(31), first.fill(1))

	c.peers[2], c.peers[3] = "127.0.0.1:2", "127.0.0.1:3"
	join := func(o *Options) { small(o); o.Join = true }
	for id := uint64(2); id <= 3; id++ {
		n := c.add(id)
		n.changes = []func(*Options){join}
		n.start()
	}
	var add core.MemberChange
	for id := uint64(2); id <= 3; id++ {
		add.Add = append(add.Add, core.Member{ID: id, Address: c.peers[id], Identity: c.nodes[id].self})
	}
	first.changed(t, add)
	first.changed(t, core.MemberChange{Promote: []uint64{2, 3}})
	require.Eventually(t, func() bool { return c.nodes[2].Status().Role == core.Follower }, patience, tick)
	last := first.fill(1)
	c.alike()
	first.stop()
	next := c.leader(2, 3)
	require.Equal(t, last, next.Appended())
	require.Equal(t, last+1, next.fill(1))
	first.start()
	c.alike()
}

// changed repeats a request for a membership change until it is complete.
func (n *testNode) changed(t *testing.T, change core.MemberChange) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	voters := func() (count int) {
		for _, p := range n.Status().Peers {
			if p.Known && !p.Learner {
				count++
			}
		}
		return count
	}
	before := voters() // the change may take effect as soon as it is proposed
	var err error
	require.Eventually(t, func() bool {
		err = n.Change(ctx, change)
		return err == nil
	}, patience, tick, "%v", err)
	require.Eventually(t, func() bool {
		return len(n.Status().Members) >= 3 && voters() >= before+len(change.Promote)
	}, patience, tick)
}

// offer is a network whose peers serve fixed records.
type offer struct {
	network
	records []string
}

// Fetch passes on all records from the first one, ignoring the last.
func (o offer) Fetch(_ context.Context, _, first, _ uint64, take func(uint64, []byte) error) error {
	for i, record := range o.records {
		if err := take(first+uint64(i), []byte(record)); err != nil {
			return err
		}
	}
	return nil
}

// TestWhatIsFetchedIsCompared checks that fetched records are compared with those in the journal,
// and that later ones are appended.
func TestWhatIsFetchedIsCompared(t *testing.T) {
	l := newTestLeadership(t, 1<<20)
	r := &Replica{leadership: l, journal: l.journal, life: t.Context(), notebook: make(notebook, notesMax)}
	for _, record := range []string{"a", "b", "c"} { // records 8 to 10
		_, err := r.journal.Append([]byte(record))
		require.NoError(t, err)
	}
	from := core.Position{Seq: 8, Chain: 77}
	to := from.After([]byte("b"), []byte("c"), []byte("d"))
	r.net = offer{records: []string{"b", "x", "d"}}
	at, err := r.fetch(t.Context(), &core.Fetch{Peer: 2, From: from, To: to})
	_, ok := errors.AsType[*BrokenError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, uint64(9), at.Seq)
	require.Equal(t, uint64(10), r.journal.Appended())

	r.net = offer{records: []string{"b", "c", "d"}}
	at, err = r.fetch(t.Context(), &core.Fetch{Peer: 2, From: from, To: to})
	require.NoError(t, err)
	require.Equal(t, to, at)
	require.Equal(t, uint64(11), r.journal.Synced())
}
