package core

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

// alone returns a single node that has committed two records, "a" and "b".
func alone(t *testing.T) (*cluster, *Node) {
	c := newCluster(t, 1)
	n := c.leader()
	require.NoError(t, n.Propose(1, [][]byte{[]byte("a"), []byte("b")}))
	c.run()
	return c, n
}

func TestFence(t *testing.T) {
	chain := Position{}.After([]byte("a"), []byte("b"), []byte("c")).Chain
	for name, test := range map[string]struct {
		batch   batch
		entry   uint64 // difference to the leader's term
		records int
		broken  string
	}{
		"fits":              {batch{first: 3, chain: chain}, 0, 3, ""},
		"of another term":   {batch{first: 3, chain: chain}, 1, 2, ""},
		"does not follow":   {batch{first: 4, chain: chain}, 0, 2, ""},
		"is there already":  {batch{first: 2, chain: chain}, 0, 2, ""},
		"of other records":  {batch{first: 3, chain: chain + 1}, 0, 2, "has other records up to seq 3"},
		"both: term counts": {batch{first: 3, chain: chain + 1}, 1, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := alone(t)
			test.batch.term, test.batch.records = n.lead.term, [][]byte{[]byte("c")}
			if test.entry != 0 {
				test.batch.term += test.entry
			}
			require.NoError(t, n.raft.Propose(test.batch.encode()))
			c.run()
			require.Len(t, c.disks[1].records, test.records)
			if test.broken != "" {
				require.ErrorContains(t, c.broken[1], test.broken)
				require.ErrorIs(t, n.Propose(3, [][]byte{nil}), ErrNotLeading)
				require.Equal(t, Output{Broken: c.broken[1]}, n.Output())
			}
		})
	}
}

func TestAnEntryOfALaterVersionBreaksTheNode(t *testing.T) {
	c, n := alone(t)
	require.NoError(t, n.raft.Propose([]byte{77}))
	c.run()
	require.ErrorContains(t, c.broken[1], "has kind 77")
}

func TestProposeRefuses(t *testing.T) {
	_, n := alone(t)
	require.ErrorContains(t, n.Propose(4, [][]byte{nil}), "a batch starts at seq 4, but the next seq is 3")
	require.ErrorContains(t, n.Propose(3, nil), "has no records")
	require.ErrorContains(t, n.Propose(3, [][]byte{make([]byte, BatchBytesMax+1)}), "more than 33554432")
	for seq := range uint64(UnderWayMax) {
		require.NoError(t, n.Propose(3+seq, [][]byte{nil}))
	}
	require.False(t, n.CanPropose())
	require.ErrorIs(t, n.Propose(7, [][]byte{nil}), ErrBusy)
}

func TestALargestBatchPasses(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	for seq := range uint64(UnderWayMax) {
		require.NoError(t, n.Propose(1+seq, [][]byte{make([]byte, BatchBytesMax)}))
	}
	c.tick(20)
	c.same(UnderWayMax, 1, 2, 3)
}

func TestAProposerThatSeesAnotherTermIsDeposed(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	n.Receive(identity(byte(n.id%3+1)), &raftpb.Message{Type: raftpb.MsgAppResp.Enum(),
		From: new(n.id%3 + 1), To: new(n.id),
		Term: new(n.lead.term + 1)})
	require.ErrorIs(t, n.Propose(1, [][]byte{nil}), ErrNotLeading)
	require.True(t, n.Output().Deposed)
	require.False(t, n.Output().Deposed, "only once")
}

func TestADroppedProposalDeposes(t *testing.T) {
	_, n := alone(t)
	// raft drops proposals only during a transfer, and Propose checks for that first. A wrong term
	// forces the error.
	n.lead.term++
	require.ErrorIs(t, n.Propose(3, [][]byte{nil}), ErrNotLeading)
	require.True(t, n.Output().Deposed)
}

func TestWhatContradictsTheLogBreaksTheNode(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.propose(1)
	follower := c.nodes[n.id%3+1]
	follower.Receive(identity(byte(n.id)), &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(),
		From: new(n.id), To: new(follower.id),
		Term: new(n.lead.term), Commit: new(uint64(1000))})
	c.run()
	require.ErrorContains(t, c.broken[follower.id], "tocommit(1000) is out of range")
	c.propose(1) // the other nodes continue
}

func TestMalformedMessagesAreDropped(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	entry := func(index, term uint64) *raftpb.Entry { return &raftpb.Entry{Index: new(index), Term: new(term)} }
	for name, m := range map[string]*raftpb.Message{
		"a proposal":         {Type: raftpb.MsgProp.Enum(), Entries: []*raftpb.Entry{entry(0, 0)}},
		"a read":             {Type: raftpb.MsgReadIndex.Enum(), Term: new(uint64(99))},
		"a local one":        {Type: raftpb.MsgHup.Enum()},
		"of term 0":          {Type: raftpb.MsgHeartbeatResp.Enum()},
		"a gap in entries":   {Type: raftpb.MsgApp.Enum(), Term: new(uint64(9)), Entries: []*raftpb.Entry{entry(2, 9)}},
		"entries of a later": {Type: raftpb.MsgApp.Enum(), Term: new(uint64(9)), Entries: []*raftpb.Entry{entry(1, 10)}},
		"half a round":       {Type: raftpb.MsgHeartbeatResp.Enum(), Term: new(n.lead.term), Context: []byte("half")},
		"nil":                nil,
	} {
		before := n.Status()
		if m != nil {
			m.From, m.To = new(n.id%3+1), new(n.id)
		}
		n.Receive(identity(byte(n.id%3+1)), m)
		require.Equal(t, before, n.Status(), name)
	}
	require.Empty(t, c.broken)
}

func TestStartRefusesADiskThatDoesNotFit(t *testing.T) {
	entry := func(index, term uint64) *raftpb.Entry { return &raftpb.Entry{Index: new(index), Term: new(term)} }
	whole := func() Options {
		m := founding(1)
		m.Seq = 5
		return Options{ID: 1, Journal: 5, Durable: Durable{Self: identity(1), Mark: m}}
	}
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"number 0":          {func(o *Options) { o.ID = 0 }, "node numbers start at 1"},
		"no identity":       {func(o *Options) { o.Durable.Self = Identity{} }, "has no identity"},
		"journal too short": {func(o *Options) { o.Journal = 4 }, "records are missing"},
		"a gap":             {func(o *Options) { o.Durable.Entries = []*raftpb.Entry{entry(3, 1)} }, "entry 3 of term 1"},
		"committed, and lost": {func(o *Options) { o.Durable.Hard = &raftpb.HardState{Commit: new(uint64(2))} },
			"entries are missing"},
		"terms that fall": {func(o *Options) { o.Durable.Entries = []*raftpb.Entry{entry(2, 3), entry(3, 2)} },
			"entry 3 of term 2"},
		"another under its number": {func(o *Options) { o.Durable.Mark.Members[0].Identity = identity(2) },
			"it was replaced"},
	} {
		o := whole()
		test.change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, test.want, name)
	}
	_, err := New(whole())
	require.NoError(t, err)
}

func TestStartMendsAWriteOfWhichACrashKeptAPart(t *testing.T) {
	entry := func(index, term uint64) *raftpb.Entry { return &raftpb.Entry{Index: new(index), Term: new(term)} }
	m := founding(1)
	m.Index, m.Term = 10, 4
	o := Options{ID: 1, Durable: Durable{Self: identity(1), Mark: m,
		Hard: &raftpb.HardState{Term: new(uint64(3)), Vote: new(uint64(2)), Commit: new(uint64(8))}}}
	o.Durable.Entries = []*raftpb.Entry{entry(11, 3)}
	n, err := New(o)
	require.NoError(t, err)
	require.Equal(t, uint64(10), n.Status().Last, "entries behind a mark of a later term are stale")
	require.Equal(t, uint64(10), n.Status().Commit)
	require.Equal(t, uint64(4), n.Status().Term)
	o.Durable.Entries = []*raftpb.Entry{entry(11, 6)}
	n, err = New(o)
	require.NoError(t, err)
	require.Equal(t, uint64(6), n.Status().Term, "no entry is of a later term than the node")
}

func TestRuntimeErrorsAreBugsAndPanic(t *testing.T) {
	_, n := alone(t)
	require.Panics(t, func() { n.run(func() { var p *int; *p = 1 }) })
	n.run(func() { panic(errors.New("on purpose")) })
	require.ErrorContains(t, n.Output().Broken, "on purpose")
}
