package core

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

// small returns a cluster whose nodes keep little of their logs.
func small(t *testing.T) *cluster {
	c := newCluster(t)
	c.options = func(o *Options) { o.KeepBytes, o.LogBytesMax = 4000, 20000 }
	for id := range uint64(3) {
		c.disks[id+1] = newDisk(byte(id+1), founding(1, 2, 3))
	}
	c.start(1, 2, 3)
	return c
}

func TestTheLogIsCompactedAndKeepsALittle(t *testing.T) {
	c := small(t)
	c.leader()
	for range 200 {
		c.propose(1)
	}
	c.tick(10)
	c.same(200, 1, 2, 3)
	for id, d := range c.disks {
		n := c.nodes[id]
		require.LessOrEqual(t, n.log.bytes, 4000)
		require.Greater(t, n.log.bytes, 2000)
		require.Equal(t, n.log.mark.Index, d.Mark.Index)
		require.Equal(t, n.log.last(), d.Mark.Index+uint64(len(d.Entries)))
		require.Equal(t, Position{}.After(d.records[:d.Mark.Seq]...), d.Mark.Position)
	}
	c.start(1, 2, 3)
	c.leader()
	c.propose(1)
	c.tick(10)
	c.same(201, 1, 2, 3)
}

func TestNothingIsCompactedBeforeTheJournalHasSyncedIt(t *testing.T) {
	c := small(t)
	n := c.leader()
	slow := n.id%3 + 1
	c.disks[slow].lazy = true
	for range 60 {
		c.propose(1)
	}
	require.Zero(t, c.disks[slow].Mark.Seq)
	require.Greater(t, c.disks[n.id].Mark.Index, uint64(20))
	c.nodes[slow].JournalSynced(10)
	c.run()
	require.LessOrEqual(t, c.disks[slow].Mark.Seq, uint64(10))
	require.Greater(t, c.disks[slow].Mark.Seq, uint64(5))
	c.disks[slow].records = c.disks[slow].records[:10]
	c.start(slow)
	c.tick(50)
	c.same(60, 1, 2, 3)
}

func TestMemoryIsBoundedWhenTheJournalHangs(t *testing.T) {
	c := small(t)
	n := c.leader()
	slow := n.id%3 + 1
	c.disks[slow].lazy = true
	for range 300 {
		c.propose(1)
		c.tick(1)
	}
	require.Less(t, c.nodes[slow].log.bytes, 21000+2*messageBytes/1000)
	c.disks[slow].lazy = false
	c.tick(1000)
	c.same(300, 1, 2, 3)
	n = c.leader()
	c.disks[n.id].lazy = true
	for i := 0; n.CanPropose(); i++ {
		require.Less(t, i, 1000)
		c.propose(1)
	}
	require.ErrorIs(t, n.Propose(n.lead.last.Seq+1, [][]byte{nil}), ErrBusy)
	c.disks[n.id].lazy = false
	c.tick(2)
	require.True(t, n.CanPropose())
}

// lagging returns a cluster of small nodes and the number of one that the leader's log no longer
// reaches.
func lagging(t *testing.T) (c *cluster, lags uint64) {
	c = small(t)
	lags = c.leader().id%3 + 1
	c.propose(3)
	c.tick(10)
	c.cut[lags] = true
	for range 100 {
		c.propose(1)
	}
	return c, lags
}

func TestAMemberThatTheLogDoesNotReachFetchesRecords(t *testing.T) {
	c, lags := lagging(t)
	c.cut[lags] = false
	c.tick(100)
	c.same(103, 1, 2, 3)
	require.NotEmpty(t, c.fetches)
	f := c.fetches[0]
	require.Equal(t, Position{}.After(c.disks[lags].records[:3]...), f.From)
	require.Equal(t, Position{}.After(c.disks[lags].records[:f.To.Seq]...), f.To)
	require.Equal(t, c.leader().id, f.Peer)
	c.propose(1)
	c.start(lags)
	c.tick(100)
	c.same(104, 1, 2, 3)
}

func TestAFetchThatFailsIsTriedAgain(t *testing.T) {
	c, lags := lagging(t)
	c.noFetch, c.cut[lags] = true, false
	c.tick(50)
	require.Len(t, c.fetches, 1)
	n, f := c.nodes[lags], c.fetches[0]
	// Half of the records arrived and were synced.
	d := c.disks[lags]
	d.records = append(d.records, c.disks[f.Peer].records[3:20]...)
	n.Fetched(f, Position{Seq: d.seq()}, errors.New("cut"))
	c.noFetch = false
	c.tick(400)
	require.Equal(t, f.From, c.fetches[1].From, "records that arrived earlier are compared")
	c.same(103, 1, 2, 3)
}

func TestALaterLeadersMarkEndsAFetch(t *testing.T) {
	c, lags := lagging(t)
	old := c.leader()
	third := 6 - lags - old.id
	c.noFetch, c.cut[lags] = true, false
	c.tick(50)
	n, f := c.nodes[lags], c.fetches[0]
	require.False(t, c.fetchOver[lags])
	require.NoError(t, old.Transfer(third))
	c.tick(20)
	require.True(t, c.fetchOver[lags])
	c.cut[old.id] = true
	c.noFetch = false
	n.Fetched(f, Position{Seq: 3}, errors.New("ended"))
	c.run()
	require.Equal(t, third, c.fetches[1].Peer, "without waiting until the mark is sent again")
	c.tick(20)
	c.same(103, lags, third)
}

func TestAMarkThatIsLostIsSentAgain(t *testing.T) {
	c, lags := lagging(t)
	c.cut[lags], c.lost[raftpb.MsgSnap] = false, true
	c.tick(50)
	require.Empty(t, c.fetches)
	clear(c.lost)
	c.tick(400)
	c.same(103, 1, 2, 3)
}

func TestAFetchOfOtherRecordsBreaksTheNode(t *testing.T) {
	c, lags := lagging(t)
	c.disks[lags].records[1] = []byte("another")
	c.noFetch, c.cut[lags] = true, false
	c.tick(50)
	f := c.fetches[0]
	c.nodes[lags].Fetched(f, Position{Seq: f.To.Seq, Chain: f.To.Chain + 1}, nil)
	c.run()
	require.ErrorContains(t, c.broken[lags], "the cluster up to")
}

func TestCommitsWaitForAFetch(t *testing.T) {
	c, lags := lagging(t)
	c.noFetch, c.cut[lags] = true, false
	c.tick(50)
	f, n, d := c.fetches[0], c.nodes[lags], c.disks[lags]
	// Another leader, whose log still reaches the node, sends entries during the fetch.
	var entries []*raftpb.Entry
	term := n.Status().Term
	for i, position := range []Position{f.From, f.From.After([]byte("record 4"))} {
		record := fmt.Appendf(nil, "record %d", 4+i)
		b := batch{term: term, first: position.Seq + 1, chain: position.After(record).Chain, records: [][]byte{record}}
		entries = append(entries, &raftpb.Entry{Index: new(n.Status().Last + 1 + uint64(i)), Term: new(term),
			Data: b.encode()})
	}
	last := n.Status().Last
	prev, _ := n.log.Term(last)
	n.Receive(identity(byte(f.Peer)), &raftpb.Message{Type: raftpb.MsgApp.Enum(),
		From: new(f.Peer), To: new(lags), Term: new(term),
		Index: new(last), LogTerm: new(prev), Entries: entries, Commit: new(last + 2)})
	c.run()
	require.Len(t, d.records, 3)
	d.records = append(d.records, c.disks[f.Peer].records[3:4]...)
	n.Fetched(f, Position{Seq: 4}, errors.New("cut"))
	c.run()
	require.Equal(t, c.disks[f.Peer].records[:5], d.records, "the fetched record is not committed twice")
}

func TestANewcomerThatWasRestoredGoesOnFromItsBackup(t *testing.T) {
	c, _ := lagging(t)
	n := c.leader()
	from := c.disks[n.id]
	c.disks[4] = newDisk(4, Mark{})
	c.disks[4].first = 90
	c.start(4)
	require.Equal(t, Stranger, c.nodes[4].Status().Role)
	require.NoError(t, n.Change(MemberChange{Add: []Member{{ID: 4, Address: "host4:1"}}}))
	c.tick(100)
	require.Equal(t, Learner, c.nodes[4].Status().Role)
	require.Equal(t, Position{Seq: 90}, c.fetches[0].From)
	require.Equal(t, from.records[90:], c.disks[4].records)
	require.Equal(t, n.Status().Position, c.nodes[4].Status().Position)
	// From here on the node's chain is the cluster's.
	c.propose(1)
	c.tick(5)
	require.Equal(t, n.Status().Position, c.nodes[4].Status().Position)
}

func TestARestoredNodeFetchesBehindWhatItHasCommitted(t *testing.T) {
	c := small(t)
	n := c.leader()
	lags := n.id%3 + 1
	c.propose(3)
	c.tick(10)
	c.cut[lags] = true
	c.propose(5)
	d := c.disks[lags]
	d.records, d.first = nil, 5 // a journal restored from a backup
	tune := c.options
	c.options = func(o *Options) { tune(o); o.Blind = true }
	c.start(lags)
	c.cut[lags] = false
	c.tick(20)
	require.Equal(t, uint64(8), d.seq(), "the log still reached the node")
	require.Empty(t, c.fetches)
	c.cut[lags] = true
	for range 100 {
		c.propose(1)
	}
	c.cut[lags] = false
	c.tick(100)
	require.Equal(t, Position{}.After(c.disks[n.id].records[:8]...), c.fetches[0].From)
	require.Empty(t, c.broken)
	require.Equal(t, c.disks[n.id].records[5:], d.records)
}

func TestAMarkWaitsForWhatTheJournalHasNotSynced(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	behind := n.id%3 + 1
	d, b := c.disks[behind], c.nodes[behind]
	d.lazy = true
	c.propose(3)
	c.tick(10)
	// A mark of another leader covers more entries but no more records.
	m := b.now.mark(b.log.last()+5, b.Status().Term)
	snap := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(n.id), To: new(behind), Term: new(m.Term),
		Snapshot: &raftpb.Snapshot{Data: m.Encode(), Metadata: &raftpb.SnapshotMetadata{Index: new(m.Index),
			Term: new(m.Term), ConfState: m.Conf}}}
	b.Receive(identity(byte(n.id)), snap)
	c.run()
	require.Zero(t, d.Mark.Seq, "a power cut could lose the records")
	b.JournalSynced(3)
	b.Receive(identity(byte(n.id)), snap)
	c.drive(behind)
	require.Equal(t, m.Index, d.Mark.Index)
}
