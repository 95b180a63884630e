package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// Options say how a node meets its peers. All functions are called by goroutines of the Net,
// several at once. They must not call Close, and must return also while it waits.
type Options struct {
	Node     uint64            // the number of this node, 1 and up
	Peers    map[uint64]string // HOST:PORT of each node; that of this one is not used
	Listener net.Listener      // the Net closes it
	Security Security

	// Hello returns what this node says of itself, at each connection. Node and
	// ProtocolVersion are filled in.
	Hello func() Hello

	// OnHello judges a peer before anything of it counts, at each connection, whoever made
	// it. The text of the error is told to the peer. nil accepts all that Hello.Refuse lets in.
	OnHello func(Hello) error

	// OnMessage gets a message of a peer whose hello was accepted: From is that peer, To
	// this node, and the type is one that Raft sends between nodes; from is the identity of
	// that hello. While it waits no other of that connection is read, so the peer's queue fills.
	OnMessage func(from core.Identity, m *raftpb.Message)

	// OnUnreachable is told once each time a connection for messages to a peer breaks:
	// what was sent last may be lost, snapshots too.
	OnUnreachable func(peer uint64)

	// Journal is what Fetch of other nodes reads; nil serves none.
	Journal *journal.Journal

	// Backup writes a backup for a peer: one at a time. nil serves none.
	Backup func(ctx context.Context, w io.Writer) error

	// Ask answers a request of a peer, with at most AskBytesMax bytes. nil serves none.
	Ask func(ctx context.Context, from uint64, request []byte) ([]byte, error)

	Log *slog.Logger
}

// Bounds of what others may have open here.
const (
	// strangersMax bounds the connections whose hello was not accepted yet. One more cuts
	// the oldest.
	strangersMax = 64

	// servedMax bounds the requests (Fetch, Backup, Ask) of one peer that are served at once,
	// backupsMax the backups of all.
	servedMax  = 8
	backupsMax = 1
)

// How long things may take. They are variables for the tests.
var (
	helloTimeout = 5 * time.Second        // from the first byte until both hellos are accepted
	writeTimeout = 5 * time.Second        // until the other side has room for writeBytes more
	silenceMax   = 30 * time.Second       // without a byte of an answer
	keepEvery    = 5 * time.Second        // an answer that takes long shows that it is alive
	backoffMin   = 50 * time.Millisecond  // before a second try to connect
	backoffMax   = 2 * time.Second        // before any try, when the peer is away
	refusedRetry = 5 * time.Second        // before a try, when the one before was refused
	acceptRetry  = 100 * time.Millisecond // when no connection can be accepted
)

// Net is a node's connections with its peers. Its methods may be called from any
// goroutine.
type Net struct {
	o      Options
	caller caller
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	strangersCut, refused, misfits atomic.Uint64

	// mu guards what follows. It is never held while somebody waits for a peer.
	mu        sync.Mutex
	peers     map[uint64]*peer
	strangers []net.Conn // oldest first
	backups   int        // that are served
	complaint string     // the last refusal of a node that is not known, so that it is logged once
	closed    bool
}

// peer is another node. Its fields are guarded by Net.mu, except those that never change.
type peer struct {
	id                uint64
	address           string
	ctx               context.Context // ends with the Net, and when it is a peer no more
	cancel            context.CancelFunc
	messages, entries *link
	in                map[purpose]net.Conn // connections of messages that it made
	served            int                  // requests that are served
	complaint         string               // the last refusal, so that it is logged once
}

// New begins to accept peers and to connect to them. The error says that there are no
// certificates, and that an address of a peer or of the listener is not on loopback; the
// listener is closed then.
func New(o Options) (*Net, error) {
	err := o.Security.RefuseOpen(map[uint64]string{o.Node: o.Listener.Addr().String()})
	if err == nil {
		err = o.Security.RefuseOpen(o.Peers)
	}
	if err != nil {
		return nil, errors.Join(err, o.Listener.Close())
	}
	n := &Net{o: o, peers: map[uint64]*peer{}}
	n.caller = caller{node: o.Node, hello: n.hello, judge: n.judge, security: o.Security}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	_ = n.SetPeers(o.Peers) // was checked above
	n.work.Go(n.accept)
	return n, nil
}

// hello returns this node's.
func (n *Net) hello() Hello {
	h := n.o.Hello()
	h.Node, h.ProtocolVersion = n.o.Node, ProtocolVersion
	return h
}

// judge returns why the node of a hello is refused.
func (n *Net) judge(other Hello) error {
	if n.o.OnHello == nil {
		return n.hello().Refuse(other)
	}
	return n.o.OnHello(other)
}

// SetPeers says which nodes are peers from now on, by number, and where. Connections with
// others, and with those whose address is another one now, are closed. The error is that of
// Security.RefuseOpen, and then nothing has changed.
func (n *Net) SetPeers(addresses map[uint64]string) error {
	if err := n.o.Security.RefuseOpen(addresses); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	for id, p := range n.peers {
		if address, ok := addresses[id]; !ok || address != p.address {
			p.cancel()
			delete(n.peers, id)
		}
	}
	for id, address := range addresses {
		if n.peers[id] == nil && id != n.o.Node {
			n.peers[id] = n.newPeer(id, address)
		}
	}
	return nil
}

// newPeer begins to connect to a peer. The caller holds n.mu.
func (n *Net) newPeer(id uint64, address string) *peer {
	p := &peer{id: id, address: address, in: map[purpose]net.Conn{}}
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	p.messages = newLink(n, p, forMessages, smallBytesMax)
	p.entries = newLink(n, p, forEntries, entriesBytesMax)
	n.work.Go(p.messages.run)
	n.work.Go(p.entries.run)
	return p
}

// Send sends messages to a peer, as soon as it can and in their order, except that those
// with entries and snapshots have a way of their own. It never waits. It reports whether all
// are under way: what finds no connection, or no room in the queue, is dropped, and the
// peer is to be treated as unreachable. The messages belong to the Net from then on;
// entries may be shared, and must not change.
func (n *Net) Send(to uint64, messages []*raftpb.Message) bool {
	n.mu.Lock()
	p := n.peers[to]
	n.mu.Unlock()
	if p == nil {
		return false
	}
	all := true
	for _, m := range messages {
		l := p.messages
		if m.GetType() == raftpb.MsgApp || m.GetType() == raftpb.MsgSnap {
			l = p.entries
		}
		all = l.push(m) && all
	}
	return all
}

// Stats are counts since the Net began, and how its peers are doing.
type Stats struct {
	Strangers uint64 // connections that were cut before their hello was accepted or refused
	Refused   uint64 // hellos that were refused, by either side
	Misfits   uint64 // connections that were cut for a message that their peer must not send
	Peers     map[uint64]PeerStats
}

// PeerStats are how a peer is doing.
type PeerStats struct {
	Connected bool   // messages reach it
	Why       string // they do not, as the last try has said; "" before one
	Removed   bool   // since it says that this node was removed from the cluster
	Dropped   uint64 // messages that were not sent
}

// Stats returns the counts.
func (n *Net) Stats() Stats {
	s := Stats{n.strangersCut.Load(), n.refused.Load(), n.misfits.Load(), map[uint64]PeerStats{}}
	n.mu.Lock()
	all := maps.Clone(n.peers)
	n.mu.Unlock()
	for id, p := range all {
		small, large := p.messages.state(), p.entries.state()
		small.Connected, small.Dropped = small.Connected && large.Connected, small.Dropped+large.Dropped
		s.Peers[id] = small
	}
	return s
}

// Close closes the listener and all connections, and waits for the functions of the
// Options that are running.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	_ = n.o.Listener.Close()
	n.work.Wait()
}

// complain logs a refusal, once for one reason.
func (n *Net) complain(node uint64, err error) {
	n.refused.Add(1)
	n.mu.Lock()
	last := &n.complaint
	if p := n.peers[node]; p != nil {
		last = &p.complaint
	}
	known := *last == err.Error()
	*last = err.Error()
	n.mu.Unlock()
	if !known {
		n.o.Log.Warn("a peer is refused", "peer", node, "error", err)
	}
}

// address returns where a peer is.
func (n *Net) address(id uint64) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[id]; p != nil {
		return p.address, nil
	}
	return "", fmt.Errorf("peers: node %d is not a peer of node %d", id, n.o.Node)
}
