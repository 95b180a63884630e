package core

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Limits on the data that a node holds and sends.
const (
	BatchBytesMax = 32 << 20 // maximum size of the records of one batch
	UnderWayMax   = 4        // maximum number of batches that are proposed and not yet committed

	keepBytes = 64 << 20 // maximum size of the applied entries kept for members that lag a little
	// logBytesMax is the size of the entries in memory above which the node neither accepts nor
	// proposes entries.
	logBytesMax     = 512 << 20
	messageBytes    = 1 << 20  // maximum size of the entries of one message, unless its only entry is larger
	inflightBytes   = 64 << 20 // maximum size of the entries in flight to one peer
	inflightMsgs    = 256
	applyingBytes   = 64 << 20 // maximum size of the committed entries that the driver has not applied yet
	removedMax      = 64       // maximum number of identities of removed members that are remembered
	electionTicks   = 30
	heartbeatTicks  = 5
	retryElections  = 10 // election timeouts until the leader sends a mark again
	addressBytesMax = 256
	membersMax      = 32
	heardMax        = 256 // maximum number of identities heard from nodes that are not members
)

var (
	// ErrNotLeading is returned by methods that need a leader when this node does not lead.
	ErrNotLeading = errors.New("core: this node does not lead")
	// ErrRemoved is wrapped by the error of Heard if the peer was removed from the cluster.
	ErrRemoved = errors.New("core: it was removed from the cluster")
	// ErrBusy is returned by Propose if this node leads but CanPropose reports false.
	ErrBusy = errors.New("core: the leader can accept no proposal now")
)

// Options configure a Node.
type Options struct {
	ID      uint64
	Durable Durable
	// Journal is the seq of the last record in the journal. The node never emits records up to it
	// as Commits.
	Journal uint64
	// Blind is set if the journal starts after the mark in Durable because it was restored from a
	// backup. The node does not know the chain of such a journal, so it cannot compare it with the
	// chain of the next mark.
	Blind bool
	// Both times are in ticks; zero selects the default.
	ElectionTicks  int // default 30; a node without a leader starts an election after one to two of these
	HeartbeatTicks int // default 5
	// KeepBytes of applied entries stay in the log for members that lag a little. The default is 64
	// MiB.
	KeepBytes int
	// LogBytesMax limits the entries held in memory. Above it a follower accepts none and a leader
	// proposes none until the journal has synced some. The default is 512 MiB.
	LogBytesMax int
	Random      io.Reader         // source of the cluster's identity; the default is crypto/rand.Reader
	Warn        func(text string) // receives raft's warnings and errors; if nil they are dropped
}

// Commit is a run of records from one batch that a majority has stored.
type Commit struct {
	First   uint64 // seq of the first record
	Records [][]byte
}

// Fetch asks the driver to copy records that this node's log will never contain: those after From,
// up to and including To, from the journal of another node. Once the journal has all Commits
// emitted so far it reaches at least From. If it has records beyond From, the driver compares them
// instead of appending them again. The driver calls Node.Fetched once the appended records are
// synced; the node emits no Commits until then.
type Fetch struct {
	Peer     uint64 // the leader, which has the records
	From, To Position
}

// Output is the work for the driver. The order of execution is free unless a field says otherwise.
type Output struct {
	Send    []*raftpb.Message // messages to peers; each may be lost
	Write   *Write            // to be written after all earlier writes
	Commits []Commit          // to be appended to the journal in this order; the driver then calls Node.Applied
	Index   uint64            // index of the last entry whose records are in Commits; the argument of Node.Applied

	Fetch *Fetch // set when a fetch is needed, once; the fetch must happen after all Commits so far
	// FetchOver is set once when another node than Fetch.Peer leads. The driver then ends that
	// fetch and calls Node.Fetched.
	FetchOver bool
	Leads     bool // set once when this node leads; its own records follow all Commits so far, see Status
	// Deposed is set once when the node has lost the leadership. The driver must reveal no further
	// result to clients.
	Deposed   bool
	Confirmed uint64 // highest confirmed round of Node.Read; 0 if none was confirmed since the last Output
	// Broken is set if this node's history contradicts the cluster's. The node must stay down, and
	// all other fields are empty.
	Broken error
}

// Node is one member of a cluster, written as a step function: its methods are the inputs, and
// Output returns the work that results. All methods must be called from one goroutine. After one or
// more inputs the driver calls Output. Once Output has returned Broken, all methods do nothing.
type Node struct {
	id      uint64
	self    Identity
	options Options
	raft    *raft.RawNode
	log     *storage
	out     Output
	broken  error

	ticks   uint64
	now     state  // state after the last entry emitted to the driver
	confAt  uint64 // index of the last membership change emitted to the driver
	applies []*raftpb.Message
	acks    []ack
	applied uint64 // highest index passed to Applied
	acked   uint64 // index that raft knows to be applied, at least the mark's index
	journal uint64 // seq of the last record in the journal
	synced  uint64 // seq of the last record known to be synced in the journal

	held    *raftpb.Message // MsgSnap that waits until the journal has its records
	fetch   Fetch           // the fetch for held
	ending  bool            // FetchOver was already emitted for held
	next    *raftpb.Message // MsgSnap of a later leader that arrived while held waits
	fetched Position        // position up to which a fetch has compared the journal with the cluster's
	// blind is set on a node that is new or restored. It does not know the chain of its journal,
	// since that covers all records since the cluster was founded.
	blind bool

	heard   map[uint64]Identity // first identity heard for each number; the identity is on disk or being written
	letIn   map[uint64]Identity // identity of each peer whose messages are accepted
	hinted  Identity            // the cluster that a peer with a known identity named, while the log names none
	waiting []hello             // identities that are being written and are not synced yet
	hellos  uint64              // last mark given to an element of waiting
	seen    map[uint64]uint64   // tick at which each peer last sent a message

	lead        leadership
	ended       uint64 // the last term in which this node led
	round       uint64 // the last round that Read started
	mayCampaign bool
	led         uint64 // tick of the last message from a leader
	campaigning bool
	elections   uint64
}

// ack is a range of the log emitted to the driver, with raft's responses for when it is applied.
type ack struct {
	index   uint64
	records bool // records were emitted, so the ack waits for the driver's Applied
	resp    []*raftpb.Message
}

// New returns a node that continues from o.Durable. It may campaign (see MayCampaign). It returns
// an error if the options or the contents of the disk are inconsistent.
func New(o Options) (n *Node, err error) {
	d := o.Durable
	switch {
	case o.ID == 0 || raft.IsLocalMsgTarget(o.ID):
		return nil, fmt.Errorf("core: node %d: node numbers start at 1", o.ID)
	case d.Self == Identity{}:
		return nil, fmt.Errorf("core: node %d has no identity", o.ID)
	case o.Journal < d.Mark.Seq:
		return nil, fmt.Errorf("core: data/raft starts after seq %d, but data/journal ends at %d: records are missing",
			d.Mark.Seq, o.Journal)
	}
	setDefaults(&o)
	n = &Node{id: o.ID, self: d.Self, options: o, journal: o.Journal, synced: d.Mark.Seq, mayCampaign: true,
		heard: map[uint64]Identity{}, letIn: map[uint64]Identity{}, seen: map[uint64]uint64{}}
	for id, identity := range d.Heard {
		if identity != (Identity{}) {
			n.heard[id] = identity
		}
	}
	if n.log, err = newStorage(d); err != nil {
		return nil, err
	}
	n.log.snapshot = n.snapshot
	n.now, n.acked, n.applied, n.fetched = stateOf(n.log.mark), n.log.mark.Index, n.log.mark.Index, n.log.mark.Position
	n.blind = o.Blind || n.log.mark.Index == 0
	if err := n.checkSelf(n.now.membership); err != nil {
		return nil, err
	}
	n.run(func() { n.raft, err = raft.NewRawNode(n.config()) })
	if n.broken != nil {
		return nil, n.broken
	}
	return n, err
}

func setDefaults(o *Options) {
	for _, d := range []struct {
		value *int
		unset int
	}{
		{&o.ElectionTicks, electionTicks}, {&o.HeartbeatTicks, heartbeatTicks},
		{&o.KeepBytes, keepBytes}, {&o.LogBytesMax, logBytesMax},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
}

// newStorage checks the contents of the disk and returns the log. A crash may have kept only the
// first parts of a write: a mark without its hard state, or entries of a term without that term in
// the hard state.
func newStorage(d Durable) (*storage, error) {
	mark := d.Mark
	if mark.Conf == nil {
		mark.Conf = &raftpb.ConfState{}
	}
	s := &storage{mark: &mark}
	entries := d.Entries
	// Entries of an earlier term than the mark's were replaced by the leader that sent the mark.
	if len(entries) > 0 && entries[0].GetTerm() < mark.Term {
		entries = nil
	}
	term := mark.Term
	for i, e := range entries {
		if e.GetIndex() != mark.Index+1+uint64(i) || e.GetTerm() < term {
			return nil, fmt.Errorf("core: data/raft has entry %d of term %d instead of entry %d of term %d or later",
				e.GetIndex(), e.GetTerm(), mark.Index+1+uint64(i), term)
		}
		term = e.GetTerm()
	}
	s.append(entries)
	hard := &raftpb.HardState{Term: new(d.Hard.GetTerm()), Vote: new(d.Hard.GetVote()), Commit: new(d.Hard.GetCommit())}
	if hard.GetTerm() < term {
		hard.Term, hard.Vote = new(term), new(uint64(0))
	}
	hard.Commit = new(max(hard.GetCommit(), mark.Index))
	if hard.GetCommit() > s.last() {
		return nil, fmt.Errorf("core: data/raft ends at entry %d, but entry %d was committed: entries are missing",
			s.last(), hard.GetCommit())
	}
	s.hard = hard
	return s, nil
}

func (n *Node) config() *raft.Config {
	return &raft.Config{
		ID:                        n.id,
		ElectionTick:              n.options.ElectionTicks,
		HeartbeatTick:             n.options.HeartbeatTicks,
		Storage:                   n.log,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             messageBytes,
		MaxCommittedSizePerReady:  applyingBytes,
		MaxInflightMsgs:           inflightMsgs,
		MaxInflightBytes:          inflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    logger{warn: n.options.Warn},
		// raft's own limit on uncommitted entries is off, since raft drops proposals above it. The
		// limit is UnderWayMax batches of BatchBytesMax.
	}
}

// run calls f unless the node is broken. raft deliberately panics if messages from peers contradict
// its log; the node is then broken and must be replaced, and the others continue. A runtime error
// is a bug and stays a panic.
func (n *Node) run(f func()) {
	if n.broken != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(runtime.Error); ok {
				panic(e)
			}
			n.fail(fmt.Errorf("core: node %d: raft: %v", n.id, p))
		}
	}()
	f()
}

func (n *Node) fail(err error) {
	if n.broken == nil {
		n.broken = err
	}
}

// step passes a message to raft and observes the result.
func (n *Node) step(m *raftpb.Message) {
	// raft returns errors only for stale messages and rejected proposals.
	_ = n.raft.Step(m)
	n.observe()
}

// Tick advances the node's time by one tick.
func (n *Node) Tick() {
	n.run(func() {
		n.ticks++
		if n.lead.term != 0 {
			n.led = n.ticks // so that a deposed leader that may not campaign does not campaign at once
		}
		if n.lead.term != 0 || n.canBeElected() {
			n.raft.Tick()
		} else {
			// Time advances, so the node can vote for others, but it does not campaign.
			n.raft.TickQuiesced()
		}
		n.observe()
		if n.lead.term != 0 {
			n.tickLeader()
		}
	})
}

// Written reports that the write with these messages in After, and all earlier writes, are synced.
// after are the messages of Write.After addressed to this node, in their order.
func (n *Node) Written(after []*raftpb.Message) {
	n.run(func() {
		for _, m := range after {
			switch {
			case m.GetType() == raftpb.MsgStorageAppendResp && len(m.GetContext()) > 0:
				n.heardSynced(m.GetContext())
			case !n.canBeElected() && isVote(m):
			default:
				n.step(m)
			}
		}
	})
}

// Applied reports that the journal has the records of all entries up to the index, which is an
// Output.Index.
func (n *Node) Applied(index uint64) {
	n.run(func() {
		n.applied = max(n.applied, index)
		n.acknowledge()
	})
}

// JournalSynced reports that data/journal has synced all records up to seq. The driver also calls
// it at start; until then the node compacts nothing and sends no mark to lagging members.
func (n *Node) JournalSynced(seq uint64) { n.synced = max(n.synced, seq) }

// MayCampaign sets whether this node is fit to lead; a new node is. A node that is not fit does not campaign and
// cannot be elected. If it leads, it tries to transfer the leadership again and again, and keeps leading while no
// other node accepts. It campaigns nevertheless if there has been no leader for a long time, because it may be the
// only node with a log that a majority would elect. It then transfers the leadership and Output.Leads stays unset.
func (n *Node) MayCampaign(may bool) {
	n.run(func() {
		n.mayCampaign = may
		if !may && n.lead.term != 0 {
			n.handOver()
		}
	})
}

// canBeElected reports whether this node may be elected now.
func (n *Node) canBeElected() bool {
	return n.mayCampaign || n.ticks-n.led > uint64(retryElections*n.options.ElectionTicks)
}

// Unreachable reports that messages to the peer were lost.
func (n *Node) Unreachable(peer uint64) { n.run(func() { n.raft.ReportUnreachable(peer) }) }

func isVote(m *raftpb.Message) bool {
	return slices.Contains([]raftpb.MessageType{raftpb.MsgVoteResp, raftpb.MsgPreVoteResp}, m.GetType())
}
