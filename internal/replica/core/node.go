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

// Bounds of what a node holds and has under way.
const (
	BatchBytesMax = 32 << 20 // of the records of one batch
	UnderWayMax   = 4        // batches that were proposed and are not committed

	keepBytes       = 64 << 20  // of entries that are kept for members that lag a little
	logBytesMax     = 512 << 20 // of entries in memory; beyond, none is accepted or proposed
	messageBytes    = 1 << 20   // of the entries of one message, unless one entry has more
	inflightBytes   = 64 << 20  // of entries on the way to one peer
	inflightMsgs    = 256
	applyingBytes   = 64 << 20 // of entries that were told and are not applied
	removedMax      = 64       // identities of removed members that are remembered
	electionTicks   = 30
	heartbeatTicks  = 5
	retryElections  = 10 // election timeouts until a mark is sent again
	addressBytesMax = 256
	membersMax      = 32
	heardMax        = 256 // numbers that were heard and are no members'
)

var (
	// ErrNotLeading is returned by what only a leader can do.
	ErrNotLeading = errors.New("core: this node does not lead")
	// ErrRemoved is wrapped by the error of Heard for a node that was a member once.
	ErrRemoved = errors.New("core: it was removed from the cluster")
	// ErrBusy is returned by Propose when CanPropose reports false of a leader.
	ErrBusy = errors.New("core: the leader can propose nothing now")
)

// Options are what a Node begins with.
type Options struct {
	ID      uint64
	Durable Durable
	Journal uint64 // seq of the last record that the journal has: those up to it are not told again
	// Blind says that the journal begins behind what Durable knows: it was begun anew where
	// a backup takes over, so it cannot be compared with the chain of the next mark.
	Blind bool
	// Times in ticks. The zero value of each is its default.
	ElectionTicks  int // 30; an election begins after this to twice as many without a leader
	HeartbeatTicks int // 5
	// KeepBytes of applied entries stay in the log for members that lag a little; 0 is 64 MiB.
	KeepBytes int
	// LogBytesMax of entries are held in memory; 0 is 512 MiB. A follower that has more
	// accepts none, a leader proposes none, until the journal has synced some.
	LogBytesMax int
	Random      io.Reader         // for the cluster's identity; nil is crypto/rand.Reader
	Warn        func(text string) // raft's warnings and errors; nil drops them
}

// Commit is records that a majority has: one batch, in its place in the history.
type Commit struct {
	First   uint64 // seq of the first record
	Records [][]byte
}

// Fetch asks for records that this node's log will never have: those of the journal of
// another node, after From and up to To. The journal has all up to From once it has the
// Commits told before, and may have more: those are compared, and not appended again.
// Node.Fetched follows, once what was appended is synced; until then no Commits are told.
type Fetch struct {
	Peer     uint64 // the leader, which has them
	From, To Position
}

// Output is what has to be done, in any order unless a field says otherwise.
type Output struct {
	Send    []*raftpb.Message // to peers; each may be lost
	Write   *Write            // behind all writes before it
	Commits []Commit          // for the journal, in this order; then Node.Applied
	Index   uint64            // of the last entry whose records Commits has: the argument of Node.Applied

	Fetch     *Fetch // not nil once, when it is needed: behind all Commits told before
	FetchOver bool   // once: another node than Fetch.Peer leads now, so end that fetch; Node.Fetched follows
	Leads     bool   // once: this node leads, and its records follow those told so far; see Status
	Deposed   bool   // once: it leads no more, and nothing may be told any more
	Confirmed uint64 // the highest round of Node.Read that is confirmed, 0 if none is since the last Output
	Broken    error  // this node's history is not that of the others: it has to stay down. All else is empty
}

// Node is one member of a cluster as a step function: methods are what happens to it,
// Output is what it wants done. All methods are called by one goroutine; after one or
// several, the driver takes the Output. After Broken all methods do nothing.
type Node struct {
	id      uint64
	self    Identity
	options Options
	raft    *raft.RawNode
	log     *storage
	out     Output
	broken  error

	ticks   uint64
	now     state  // behind the last entry that was told
	confAt  uint64 // index of the last change of members that was told
	applies []*raftpb.Message
	acks    []ack
	applied uint64 // the driver's Applied
	acked   uint64 // what raft knows of it, and a mark's index
	journal uint64 // seq up to which the journal has the records
	synced  uint64 // seq up to which they are synced

	held    *raftpb.Message // a MsgSnap that waits for its records
	fetch   Fetch           // for it
	ending  bool            // FetchOver was told of it
	next    *raftpb.Message // a later leader's, which came meanwhile
	fetched Position        // up to where a fetch has compared the journal
	blind   bool            // a newcomer: it does not know the chain, which began where the cluster did

	heard   map[uint64]Identity // the first for a number, written or about to be
	letIn   map[uint64]Identity // who may send messages
	hinted  Identity            // the cluster of a peer that is who it was, while the log names none
	waiting []hello             // for the sync of what was heard
	hellos  uint64              // marks of waiting
	seen    map[uint64]uint64   // tick of the last message

	lead        leadership
	ended       uint64 // the last term that this node led
	round       uint64 // the last that Read has begun
	mayCampaign bool
	led         uint64 // tick of the last message of a leader
	campaigning bool
	elections   uint64
}

// ack is a part of the log that was told, and what raft gets once it is applied.
type ack struct {
	index   uint64
	records bool // the driver was told records, so its Applied is awaited
	resp    []*raftpb.Message
}

// New returns the node that a disk has. It may campaign (see MayCampaign).
// The error says what of the options, or on the disk, does not fit together.
func New(o Options) (n *Node, err error) {
	d := o.Durable
	switch {
	case o.ID == 0 || raft.IsLocalMsgTarget(o.ID):
		return nil, fmt.Errorf("core: node %d: numbers are 1 and up", o.ID)
	case d.Self == Identity{}:
		return nil, fmt.Errorf("core: node %d has no identity", o.ID)
	case o.Journal < d.Mark.Seq:
		return nil, fmt.Errorf("core: data/raft begins behind seq %d, and data/journal ends at %d: records are missing",
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

// newStorage checks what a disk has. A crash may have kept the first parts of a write:
// a mark without its hard state, entries of a term without the term.
func newStorage(d Durable) (*storage, error) {
	mark := d.Mark
	if mark.Conf == nil {
		mark.Conf = &raftpb.ConfState{}
	}
	s := &storage{mark: &mark}
	entries := d.Entries
	// What follows a mark of a later term is what the mark's leader replaced.
	if len(entries) > 0 && entries[0].GetTerm() < mark.Term {
		entries = nil
	}
	term := mark.Term
	for i, e := range entries {
		if e.GetIndex() != mark.Index+1+uint64(i) || e.GetTerm() < term {
			return nil, fmt.Errorf("core: data/raft has entry %d of term %d where %d of term %d or later belongs",
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
		return nil, fmt.Errorf("core: data/raft ends at entry %d, and %d was committed: entries are missing",
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
		// No bound of raft's own on what is uncommitted: UnderWayMax batches of
		// BatchBytesMax are it, and raft would drop a proposal beyond.
	}
}

// run calls f, unless the node is broken. raft panics on purpose when the messages of
// the others contradict its log: then the node is broken, and has to be replaced, while
// the others go on. A runtime error is a bug, and stays a panic.
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

// step gives raft a message, and notes what it has become.
func (n *Node) step(m *raftpb.Message) {
	// Its errors are those of messages that came too late, and of proposals.
	_ = n.raft.Step(m)
	n.observe()
}

// Tick says that one tick of time has passed.
func (n *Node) Tick() {
	n.run(func() {
		n.ticks++
		if n.lead.term != 0 {
			n.led = n.ticks // so that it does not stand for the next term at once if it may not
		}
		if n.lead.term != 0 || n.stands() {
			n.raft.Tick()
		} else {
			// Time passes, so that this node votes for others; it does not campaign.
			n.raft.TickQuiesced()
		}
		n.observe()
		if n.lead.term != 0 {
			n.tickLeader()
		}
	})
}

// Written says that the write whose After had these messages, and all before it, are
// synced. after are those of After that are for this node itself, in their order.
func (n *Node) Written(after []*raftpb.Message) {
	n.run(func() {
		for _, m := range after {
			switch {
			case m.GetType() == raftpb.MsgStorageAppendResp && len(m.GetContext()) > 0:
				n.heardSynced(m.GetContext())
			case !n.stands() && isVote(m):
			default:
				n.step(m)
			}
		}
	})
}

// Applied says that the journal took the records of all entries up to the index, an
// Output.Index.
func (n *Node) Applied(index uint64) {
	n.run(func() {
		n.applied = max(n.applied, index)
		n.acknowledge()
	})
}

// JournalSynced says that data/journal has synced all records up to seq. What it has at a
// start is told as well: until then nothing is compacted, and no lagging member served.
func (n *Node) JournalSynced(seq uint64) { n.synced = max(n.synced, seq) }

// MayCampaign says whether this node is fit to lead; a new one is. One that is not
// neither campaigns nor is chosen; if it leads it hands over, again and again, and leads
// on while nobody else can. Only if nobody has led for long it stands nevertheless, since
// it may be the one without whose log no majority can be had: then it hands over, and
// Leads is not told.
func (n *Node) MayCampaign(may bool) {
	n.run(func() {
		n.mayCampaign = may
		if !may && n.lead.term != 0 {
			n.handOver()
		}
	})
}

// stands reports whether this node may be elected now.
func (n *Node) stands() bool {
	return n.mayCampaign || n.ticks-n.led > uint64(retryElections*n.options.ElectionTicks)
}

// Unreachable says that messages to the peer were lost.
func (n *Node) Unreachable(peer uint64) { n.run(func() { n.raft.ReportUnreachable(peer) }) }

func isVote(m *raftpb.Message) bool {
	return slices.Contains([]raftpb.MessageType{raftpb.MsgVoteResp, raftpb.MsgPreVoteResp}, m.GetType())
}
