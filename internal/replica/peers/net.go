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

// Options configure a Net. The functions are called concurrently from goroutines of the Net. They
// must not call Close, and must be able to return while Close waits.
type Options struct {
	Node     uint64            // number of this node, 1 or higher
	Peers    map[uint64]string // HOST:PORT of each node; the entry of this node is ignored
	Listener net.Listener      // closed by the Net
	Security Security

	// Hello returns the hello of this node. It is called for each connection. The Net fills in Node
	// and ProtocolVersion.
	Hello func() Hello

	// OnHello returns an error to refuse a peer. It is called for each connection, whichever side
	// made it, before any message counts. The peer receives the text of the error. If OnHello is
	// nil, Hello.Refuse alone decides.
	OnHello func(Hello) error

	// OnMessage receives the messages of a peer whose hello was accepted. From is that peer, To is
	// this node, and the type is one that Raft sends between nodes. from is the identity in that
	// hello. While OnMessage waits, the connection is not read, so the peer's queue fills up.
	OnMessage func(from core.Identity, m *raftpb.Message)

	// OnUnreachable is called once each time a connection for messages to a peer breaks. The last
	// messages, including snapshots, may be lost.
	OnUnreachable func(peer uint64)

	// Journal serves Fetch requests of other nodes; if nil, they are refused.
	Journal *journal.Journal

	// Backup writes a backup for a peer. It runs for one peer at a time. If nil, such requests are
	// refused.
	Backup func(ctx context.Context, w io.Writer) error

	// Ask answers a request of a peer with at most AskBytesMax bytes. If nil, such requests are
	// refused.
	Ask func(ctx context.Context, from uint64, request []byte) ([]byte, error)

	Log *slog.Logger
}

// Limits on the connections and requests of other nodes.
const (
	// strangersMax limits the connections whose hello was not accepted yet. A further one closes
	// the oldest.
	strangersMax = 64

	// servedMax limits the requests (Fetch, Backup, Ask) of one peer that are served at the same
	// time, backupsMax the backups of all peers.
	servedMax  = 8
	backupsMax = 1
)

// Timeouts and pauses. They are variables so that tests can change them.
var (
	helloTimeout = 5 * time.Second        // from the first byte until both hellos are accepted
	writeTimeout = 5 * time.Second        // until the other side accepts another writeBytes
	silenceMax   = 30 * time.Second       // between two bytes of an answer
	keepEvery    = 5 * time.Second        // between keep-alive frames while an answer takes long
	backoffMin   = 50 * time.Millisecond  // before the second attempt to connect
	backoffMax   = 2 * time.Second        // before each attempt while the peer is away
	refusedRetry = 5 * time.Second        // before the next attempt after a refusal
	acceptRetry  = 100 * time.Millisecond // after a failure to accept a connection
)

// Net manages the connections between a node and its peers. All methods may be called from any
// goroutine.
type Net struct {
	o      Options
	caller caller
	ctx    context.Context // canceled by Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	strangersCut, refused, misfits atomic.Uint64

	// mu guards the fields below. It is never held while waiting for a peer.
	mu        sync.Mutex
	peers     map[uint64]*peer
	strangers []net.Conn // connections whose hello was not accepted yet, oldest first
	backups   int        // number of backups being served
	complaint string     // last refusal of an unknown node; a repeated refusal is not logged
	closed    bool
}

// peer is another node. Net.mu guards its fields, except those that never change.
type peer struct {
	id                uint64
	address           string
	ctx               context.Context // canceled by Net.Close, and when the node is no longer a peer
	cancel            context.CancelFunc
	messages, entries *link
	in                map[purpose]net.Conn // the peer's connections for messages to this node
	served            int                  // number of its requests being served
	complaint         string               // last refusal; a repeated refusal is not logged
}

// New starts to accept peers and to connect to them. It returns an error, and closes the listener,
// if there are no certificates and the address of a peer or of the listener is not on loopback.
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
	_ = n.SetPeers(o.Peers) // checked above
	n.work.Go(n.accept)
	return n, nil
}

// hello returns the hello of this node.
func (n *Net) hello() Hello {
	h := n.o.Hello()
	h.Node, h.ProtocolVersion = n.o.Node, ProtocolVersion
	return h
}

// judge returns an error if the node of a hello is refused.
func (n *Net) judge(other Hello) error {
	if n.o.OnHello == nil {
		return n.hello().Refuse(other)
	}
	return n.o.OnHello(other)
}

// SetPeers sets the peers and their addresses, by number. Connections with other nodes, and with
// peers whose address has changed, are closed. The error is that of Security.RefuseOpen; then
// nothing has changed.
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

// newPeer starts to connect to a peer. Callers hold n.mu.
func (n *Net) newPeer(id uint64, address string) *peer {
	p := &peer{id: id, address: address, in: map[purpose]net.Conn{}}
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	p.messages = newLink(n, p, forMessages, smallBytesMax)
	p.entries = newLink(n, p, forEntries, entriesBytesMax)
	n.work.Go(p.messages.run)
	n.work.Go(p.entries.run)
	return p
}

// Send queues messages for a peer and never waits. They are sent in order, but entries and
// snapshots have a separate connection. Send returns false if it dropped messages because there was
// no connection or no room in the queue; the caller should then treat the peer as unreachable. The
// messages belong to the Net after the call. Entries may be shared, but must not change.
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

// Stats are counters since the Net started, and the states of its peers.
type Stats struct {
	Strangers uint64 // connections closed before their hello was accepted or refused
	Refused   uint64 // hellos refused by either side
	Misfits   uint64 // connections closed because of a message that the peer must not send
	Peers     map[uint64]PeerStats
}

// PeerStats are the statistics of one peer.
type PeerStats struct {
	Connected bool   // both connections for messages to the peer are up
	Why       string // reason why a connection is not up, from the last attempt; "" before the first attempt
	Removed   bool   // the peer reports that this node was removed from the cluster
	Dropped   uint64 // number of messages that were not sent
}

// Stats returns the current statistics.
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

// Close closes the listener and all connections, and waits for running calls of the functions in
// Options.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	_ = n.o.Listener.Close()
	n.work.Wait()
}

// complain counts and logs a refusal. It does not log the same reason twice in a row.
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

// address returns the address of a peer.
func (n *Net) address(id uint64) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[id]; p != nil {
		return p.address, nil
	}
	return "", fmt.Errorf("peers: node %d is not a peer of node %d", id, n.o.Node)
}
