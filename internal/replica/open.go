package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/journal/durable"
	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
	"outcry/internal/replica/raftlog"
)

// Options configure a node of a cluster.
type Options struct {
	Data  string            // the data directory; its subdirectory raft holds Raft's log
	Node  uint64            // number of this node, 1 or higher
	Peers map[uint64]string // HOST:PORT of each node by number, including this one
	TLS   peers.Security

	// Journal holds the committed records. It must be open and positioned at its end, and only the
	// replica may append to it. Close leaves it open.
	Journal *journal.Journal
	// Trail passes the records of Journal to those that follow them; nil if nothing does.
	Trail Trail
	// Listener accepts connections from peers. The replica closes it, also if Open fails. If nil,
	// Open listens on this node's address in Peers.
	Listener net.Listener
	// Hello is sent to peers. Open fills in Node, Self, Cluster and ProtocolVersion.
	Hello peers.Hello
	// Join makes a new node wait until a cluster adds it. Otherwise it founds a cluster: with all
	// of Peers as voters if the journal is empty, or alone if the journal has records. Join is
	// ignored once data/raft exists.
	Join bool
	// KeepBytes is the size of data/journal kept for members that lag or are away. 0 means
	// KeepBytesDefault.
	KeepBytes int64
	// OnWrite is called after each write to data/raft with its size and the time until it was
	// synced. It may be nil.
	OnWrite func(bytes int, took time.Duration)
	// Backup and Ask serve requests of peers; see peers.Options.
	Backup func(ctx context.Context, w io.Writer) error
	Ask    func(ctx context.Context, from uint64, request []byte) ([]byte, error)
	Log    *slog.Logger

	tune func(*core.Options) // set by tests
	// Tests use these to replace data/raft and the connections.
	openDisk func(o Options, found *core.Mark) (disk, core.Durable, error)
	openNet  func(r *Replica) (network, error)
}

// Trail gets the records that this node appends to its journal and has not appended as the leader: those, the engine
// has put on the trail already. One goroutine calls its methods. *trail.Trail implements it.
type Trail interface {
	// PutRecord is called before a record is appended to the journal. An error is final.
	PutRecord(seq uint64, record []byte) error
	// Abandon is called instead if this node has led. The record is one of the next leader, and the trail may have
	// another record of the same number, which was never committed.
	Abandon()
}

// network is the interface of *peers.Net that the replica uses.
type network interface {
	// Send queues messages without waiting. It returns false if some of them may be lost.
	Send(to uint64, messages []*raftpb.Message) bool
	SetPeers(addresses map[uint64]string) error
	// Fetch calls take with the records from first to last of a peer's journal.
	Fetch(ctx context.Context, peer, first, last uint64, take func(seq uint64, record []byte) error) error
	Backup(ctx context.Context, peer uint64, w io.Writer) error
	Ask(ctx context.Context, peer uint64, request []byte) ([]byte, error)
	Stats() peers.Stats
	Close()
}

// clusterName is the file in the data directory that records that data/raft belongs to it.
const clusterName = raftlog.ClusterFile

// Open starts a node of a cluster. The node votes and stores entries immediately, and campaigns once MayCampaign
// allows it. The error is a *BrokenError if the node must stay down; otherwise it names what is missing or
// inconsistent in the data directory, or what could not be opened. After an error only files that Open has created are
// changed.
func Open(o Options) (_ *Replica, err error) {
	defer func() {
		if err != nil && o.Listener != nil {
			err = errors.Join(err, o.Listener.Close())
		}
	}()
	if o.KeepBytes <= 0 {
		o.KeepBytes = KeepBytesDefault
	}
	if o.openDisk == nil {
		o.openDisk = openRaftLog
	}
	if o.openNet == nil {
		o.openNet = openPeers
	}
	if o.Peers[o.Node] == "" {
		return nil, fmt.Errorf("replica: --peers has no address for this node, number %d", o.Node)
	}
	o.Peers = maps.Clone(o.Peers)
	if err := errors.Join(o.refuseNumber(), RefuseBroken(o.Data)); err != nil {
		return nil, err
	}
	found, err := o.found()
	if err != nil {
		return nil, err
	}
	disk, durable, err := o.openDisk(o, found)
	if err != nil {
		return nil, err
	}
	r, err := start(o, disk, durable)
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return r, nil
}

// refuseNumber refuses the data directory of another node. Peers would take that node's identity
// for the replacement of this node.
func (o *Options) refuseNumber() error {
	node, err := raftlog.NumberIn(o.Data)
	if err == nil && node != 0 && node != o.Node {
		err = fmt.Errorf("replica: this is the directory of node %d, but --node is %d: %s", node, o.Node, o.Data)
	}
	return err
}

// found returns the start of the log for a new node, or nil if the file CLUSTER exists. In that
// case a missing data/raft was lost, and must not be created again, since the node could vote
// twice.
func (o *Options) found() (*core.Mark, error) {
	switch _, err := os.Stat(filepath.Join(o.Data, clusterName)); {
	case err == nil:
		return nil, nil
	case errors.Is(err, os.ErrNotExist):
		return o.mark(), errors.Join(o.refuseTraces(), o.refuseRecords())
	default:
		return nil, fmt.Errorf("replica: %w", err)
	}
}

// refuseTraces returns an error if the directory has traces of an earlier cluster but data/raft and the file CLUSTER
// are both gone: then no cluster is founded. Otherwise this node would lead alone, beside the cluster that it belongs
// to.
func (o *Options) refuseTraces() error {
	raft, note := filepath.Join(o.Data, raftDir), filepath.Join(o.Data, readersName)
	_, log := os.Stat(raft)
	_, met := os.Stat(note)
	if !errors.Is(log, os.ErrNotExist) || errors.Is(met, os.ErrNotExist) || o.Join {
		return nil
	}
	return fmt.Errorf("replica: %s shows that this was a node of a cluster, but there is no log in %s: start with an "+
		"empty directory and --join, and use outcry cluster replace", note, raft)
}

// refuseRecords refuses a new node with --join whose journal already has records. They belong to
// another exchange, and the node would append the cluster's records after them.
func (o *Options) refuseRecords() error {
	last := o.Journal.Appended()
	if !o.Join || last == 0 {
		return nil
	}
	return fmt.Errorf("replica: --join: %s already has %d records, but a node that joins receives those of its cluster: "+
		"begin with an empty directory", o.Data, last)
}

// mark returns the start of the log for a new node.
func (o *Options) mark() *core.Mark {
	if o.Join {
		return &core.Mark{Conf: &raftpb.ConfState{}}
	}
	voters := o.Peers
	seq := o.Journal.Appended()
	if seq > 0 {
		voters = map[uint64]string{o.Node: o.Peers[o.Node]}
	}
	m := &core.Mark{Index: 1, Term: 1, Conf: &raftpb.ConfState{}, Position: core.Position{Seq: seq}}
	for _, id := range slices.Sorted(maps.Keys(voters)) {
		m.Conf.Voters = append(m.Conf.Voters, id)
		m.Members = append(m.Members, core.Member{ID: id, Address: voters[id]})
	}
	return m
}

// noteCluster writes the file CLUSTER beside data/raft, unless it exists.
func noteCluster(data string, node uint64, self core.Identity) error {
	path := filepath.Join(data, clusterName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	_, err = fmt.Fprintf(f, "node %d, identity %v\n", node, self)
	if err := errors.Join(err, durable.File(f), f.Close(), durable.Dir(data)); err != nil {
		return fmt.Errorf("replica: write %s: %w", path, err)
	}
	return nil
}

// start starts the node with the content of its disk.
func start(o Options, d disk, durable core.Durable) (*Replica, error) {
	last := o.Journal.Appended()
	if last < durable.Mark.Seq {
		return nil, fmt.Errorf("replica: data/journal ends at record %d, but data/raft starts after record %d: "+
			"records are missing; replace this node with outcry cluster replace", last, durable.Mark.Seq)
	}
	if m := &durable.Mark; o.Join && m.Cluster == (core.Identity{}) && len(durable.Entries) == 0 && len(m.Members) > 1 {
		return nil, fmt.Errorf("replica: --join: data/raft was created to found a cluster of the nodes %v: "+
			"begin with an empty directory", core.Numbers(m.Members))
	}
	if err := noteCluster(o.Data, o.Node, durable.Self); err != nil {
		return nil, err
	}
	notes := make(notebook, notesMax)
	options := core.Options{ID: o.Node, Durable: durable, Journal: last, Blind: o.Journal.First() > durable.Mark.Seq+1,
		Warn: func(text string) { notes.note(slog.LevelWarn, "raft", "text", text) }}
	if o.tune != nil {
		o.tune(&options)
	}
	node, err := core.New(options)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return drive(o, d, durable.Self, node, notes)
}

// drive starts the goroutines around a node.
func drive(o Options, d disk, self core.Identity, node stepper, notes notebook) (*Replica, error) {
	begun := time.Now()
	r := &Replica{options: o, notebook: notes, node: node, disk: d, self: self, journal: o.Journal,
		now:      func() time.Duration { return time.Since(begun) },
		wakeLoop: make(chan struct{}, 1), requests: make(chan func(), requestsMax),
		writes: newQueue[*core.Write](), applies: newQueue[application](),
		leading: make(chan struct{}), deposed: make(chan struct{}), broken: make(chan struct{}),
		failed: make(chan struct{}), loopEnded: make(chan struct{})}
	r.loop.endFetch = func() {}
	r.leadership = newLeadership(o.Journal, func() { wakeUp(r.wakeLoop) })
	r.life, r.die = context.WithCancel(context.Background())
	r.state.changed, r.state.hellos = make(chan struct{}), make(map[uint64]peers.Hello)
	r.state.founders, r.state.warned = make(map[uint64]time.Time), make(map[uint64]string)
	r.state.now.Store(&Status{Status: node.Status(), Node: o.Node, Self: self})
	node.MayCampaign(false) // until the owner allows it
	var err error
	if r.readers, err = readReaders(o.Data); err != nil {
		return nil, err
	}
	if err := r.beginToKeep(); err != nil {
		return nil, err
	}
	if r.net, err = o.openNet(r); err != nil {
		r.keep.Close()
		return nil, err
	}
	r.ended.Go(r.log)
	r.ended.Go(r.run)
	r.ended.Go(r.writeLog)
	r.ended.Go(r.apply)
	return r, nil
}

// openRaftLog opens data/raft.
func openRaftLog(o Options, found *core.Mark) (disk, core.Durable, error) {
	dir := filepath.Join(o.Data, raftDir)
	l, durable, err := raftlog.Open(dir, raftlog.Options{Found: found, OnWrite: o.OnWrite})
	switch {
	case errors.Is(err, raftlog.ErrNone):
		return nil, durable, fmt.Errorf("replica: %s shows that this node is a member of a cluster, but there is no log "+
			"in %s: without it the node could vote twice; replace it with outcry cluster replace",
			filepath.Join(o.Data, clusterName), dir)
	case err != nil:
		return nil, durable, fmt.Errorf("replica: %w", err)
	}
	return l, durable, nil
}

// openPeers starts to listen for peers and to connect to them.
func openPeers(r *Replica) (network, error) {
	o := &r.options
	if o.Listener == nil {
		l, err := net.Listen("tcp", o.Peers[o.Node])
		if err != nil {
			return nil, fmt.Errorf("replica: listen for peers: %w", err)
		}
		o.Listener = l
	}
	n, err := peers.New(peers.Options{Node: o.Node, Peers: o.Peers, Listener: o.Listener, Security: o.TLS, Hello: r.hello,
		OnHello: r.onHello, OnMessage: r.receive, OnUnreachable: r.onUnreachable, Journal: o.Journal, Backup: o.Backup,
		Ask: o.Ask, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return n, nil
}
