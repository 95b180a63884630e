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

// Options are what a node of a cluster begins with.
type Options struct {
	Data  string            // the data directory: Raft's log is in raft below it
	Node  uint64            // the number of this node, 1 and up
	Peers map[uint64]string // HOST:PORT of each node by number, this one too
	TLS   peers.Security

	// Journal has the committed records. It is open, at its end, and nobody else appends to
	// it; it stays open at Close.
	Journal *journal.Journal
	// Listener is for peers; the replica closes it, also if Open fails. nil listens on this
	// node's address of Peers.
	Listener net.Listener
	// Hello is what this node says of itself to others; Node, Self, Cluster and
	// ProtocolVersion are filled in.
	Hello peers.Hello
	// Join says that a new node waits until a cluster takes it in. Otherwise it founds one:
	// with all of Peers as voters if the journal is empty, and by itself if it has records.
	// It does not count once data/raft is there.
	Join bool
	// KeepBytes of data/journal stay for members that lag or are away; 0 is
	// KeepBytesDefault.
	KeepBytes int64
	// OnWrite is told, after each write to data/raft, how many bytes it was and how long it
	// took until they were synced; nil is nobody.
	OnWrite func(bytes int, took time.Duration)
	// Backup and Ask serve peers; see peers.Options.
	Backup func(ctx context.Context, w io.Writer) error
	Ask    func(ctx context.Context, from uint64, request []byte) ([]byte, error)
	Log    *slog.Logger

	tune func(*core.Options) // by tests
	// What tests put in the place of data/raft and of the connections.
	openDisk func(o Options, found *core.Mark) (disk, core.Durable, error)
	openNet  func(r *Replica) (network, error)
}

// network is the connections with peers: a *peers.Net.
type network interface {
	// Send sends what it can and never waits; it reports whether all is under way.
	Send(to uint64, messages []*raftpb.Message) bool
	SetPeers(addresses map[uint64]string) error
	// Fetch gives take the records from first to last of a peer's journal.
	Fetch(ctx context.Context, peer, first, last uint64, take func(seq uint64, record []byte) error) error
	Backup(ctx context.Context, peer uint64, w io.Writer) error
	Ask(ctx context.Context, peer uint64, request []byte) ([]byte, error)
	Stats() peers.Stats
	Close()
}

// clusterName is the file in the data directory that says that data/raft belongs to it.
const clusterName = raftlog.ClusterFile

// Open begins to take part in a cluster: it votes and stores at once, and campaigns once
// MayCampaign allows it. The error is a *BrokenError if the node has to stay down, a text that
// names what is missing or does not fit in the data directory, or says what could not be
// opened; nothing but what Open has made is changed then.
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
		return nil, fmt.Errorf("replica: the peers name no address of node %d, which is this one", o.Node)
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

// refuseNumber refuses the directory of another node: that one's identity would be taken for one that was replaced.
func (o *Options) refuseNumber() error {
	node, err := raftlog.NumberIn(o.Data)
	if err == nil && node != 0 && node != o.Node {
		err = fmt.Errorf("replica: this directory is node %d's, and --node is %d: %s", node, o.Node, o.Data)
	}
	return err
}

// found returns where the log of a new node begins; nil if the file CLUSTER says that there was
// one: a data/raft that is lost is not founded again, since the node could vote twice.
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

// refuseTraces refuses to found a cluster of a directory that has met others as a node, and has
// neither data/raft nor the file CLUSTER any more: somebody has removed both. It would lead alone,
// beside the cluster that it is of.
func (o *Options) refuseTraces() error {
	raft, note := filepath.Join(o.Data, raftDir), filepath.Join(o.Data, readersName)
	_, log := os.Stat(raft)
	_, met := os.Stat(note)
	if !errors.Is(log, os.ErrNotExist) || errors.Is(met, os.ErrNotExist) || o.Join {
		return nil
	}
	return fmt.Errorf("replica: %s says that this was a node of a cluster, and there is no log in %s: begin with an "+
		"empty directory and --join, and put it in its old place with outcry cluster replace", note, raft)
}

// refuseRecords refuses a new node that joins a cluster and has records already: they are another exchange's, and it
// would go on behind them as if they were the cluster's.
func (o *Options) refuseRecords() error {
	last := o.Journal.Appended()
	if !o.Join || last == 0 {
		return nil
	}
	return fmt.Errorf("replica: --join: %s has %d records of its own, and a node that joins gets those of its cluster: "+
		"begin with an empty directory", o.Data, last)
}

// mark returns where the log of a new node begins.
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

// noteCluster leaves the file CLUSTER behind data/raft.
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

// start begins on what the disk has.
func start(o Options, d disk, durable core.Durable) (*Replica, error) {
	last := o.Journal.Appended()
	if last < durable.Mark.Seq {
		return nil, fmt.Errorf("replica: data/journal ends at record %d, and data/raft begins behind record %d: "+
			"records are missing; put a new node in the place of this one with outcry cluster replace", last, durable.Mark.Seq)
	}
	if m := &durable.Mark; o.Join && m.Cluster == (core.Identity{}) && len(durable.Entries) == 0 && len(m.Members) > 1 {
		return nil, fmt.Errorf("replica: --join: data/raft has begun to found a cluster of the nodes %v: "+
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

// drive begins to drive a node.
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
	r.state.founders, r.state.told = make(map[uint64]time.Time), make(map[uint64]string)
	r.state.now.Store(&Status{Status: node.Status(), Node: o.Node, Self: self})
	node.MayCampaign(false) // not before the owner says so
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
		return nil, durable, fmt.Errorf("replica: %s says that this node is a member of a cluster, and there is no log "+
			"in %s: without it the node could vote twice; put a new node in its place with outcry cluster replace",
			filepath.Join(o.Data, clusterName), dir)
	case err != nil:
		return nil, durable, fmt.Errorf("replica: %w", err)
	}
	return l, durable, nil
}

// openPeers begins to listen for peers and to connect to them.
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
