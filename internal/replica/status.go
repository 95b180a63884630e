package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
)

// Status is the state of a node, as its loop last published it. Data that a Status refers to is
// shared and must not be changed.
type Status struct {
	core.Status
	Node    uint64
	Self    core.Identity // identity of this node's data/raft
	Peers   []Peer        // members in the log and nodes of --peers, sorted by number
	SyncAge time.Duration // age of the oldest write to a disk that has not ended; 0 if below a tick
	Unfit   error         // reason why this node should not lead, such as a hanging or full disk; nil if it may
	Dropped uint64        // number of messages from peers dropped because a queue was full
	Err     error         // reason why this node has stopped or lost the leadership; see Replica.Err
}

// Peer is what this node knows about a member, which may be the node itself.
type Peer struct {
	core.Peer        // Match and Active are set only on a leader
	Known     bool   // the node is a member in the log
	Address   string // address at which this node reaches the other
	Lag       uint64 // number of log entries that the node lacks; set only on a leader
	Reads     uint32 // newest version of records that the node reads, 0 if it was never heard
	Heard     bool   // Hello is set
	Hello     peers.Hello
}

// state is what the loop last published.
type state struct {
	now    atomic.Pointer[Status]
	peer   map[uint64]string // addresses last passed to the network; used only by the loop
	warned map[uint64]string // addresses in the log for which a warning was logged; used only by the loop
	key    string            // Status.key when Changed last fired; used only by the loop

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	hellos  map[uint64]peers.Hello
	// founders holds the nodes that found a cluster of their own, with the time of their last
	// hello.
	founders map[uint64]time.Time
}

// counts are counters for Status.
type counts struct{ dropped atomic.Uint64 }

// Status returns the state of this node at the last tick of its loop, or when the loop ended.
func (r *Replica) Status() Status {
	s := *r.state.now.Load()
	s.Err = r.Err()
	return s
}

// Unreached returns why messages of this node do not reach a peer, according to its last attempt;
// "" if unknown.
func (r *Replica) Unreached(peer uint64) string { return r.net.Stats().Peers[peer].Why }

// Removed describes how this node learned that it was removed from the cluster: from its log, or from a peer that
// refuses it. It returns "" if it does not know of a removal.
func (r *Replica) Removed() string {
	if s := r.state.now.Load(); s.Removed {
		return fmt.Sprintf("this node, %v, was removed from the cluster: start with an empty directory, and add it again",
			s.Self)
	}
	for _, p := range r.net.Stats().Peers {
		if p.Removed {
			return p.Why
		}
	}
	return ""
}

// Founders names the other founders that were not heard or are not reachable, each with the reason
// if it is known. It returns "" once the cluster exists, and on a node that founds none.
func (r *Replica) Founders() string {
	s := r.state.now.Load()
	if s.Cluster != (core.Identity{}) {
		return ""
	}
	var away []string
	for i := range s.Peers {
		p := &s.Peers[i]
		why := r.Unreached(p.ID)
		if p.Known && p.ID != s.Node && (!p.Heard || why != "") {
			away = append(away, fmt.Sprintf("node %d (%s)", p.ID, cmp.Or(why, "not heard yet")))
		}
	}
	return strings.Join(away, ", ")
}

// Changed returns a channel that is closed when the role, the term, the leader, a member or its
// hello, or Unfit changes. Figures that change all the time do not close it.
func (r *Replica) Changed() <-chan struct{} {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	return r.state.changed
}

// publish updates Status and passes the addresses of the members to the network.
func (r *Replica) publish() {
	s := &Status{Status: r.node.Status(), Node: r.options.Node, Self: r.self, Unfit: r.watch.reason,
		SyncAge: r.watch.age, Dropped: r.counts.dropped.Load()}
	r.state.mu.Lock()
	hellos := maps.Clone(r.state.hellos)
	r.state.mu.Unlock()
	s.Peers = r.peersOf(&s.Status, hellos)
	r.warnOfAddresses(&s.Status)
	r.state.now.Store(s)
	addresses := make(map[uint64]string, len(s.Peers))
	for _, p := range s.Peers {
		addresses[p.ID] = p.Address
	}
	if !maps.Equal(addresses, r.state.peer) {
		r.state.peer = addresses
		if err := r.net.SetPeers(addresses); err != nil {
			r.note(slog.LevelError, "the addresses of the members cannot be used", "error", err)
		}
	}
	key := s.key()
	if key == r.state.key {
		return
	}
	r.state.key = key
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	close(r.state.changed)
	r.state.changed = make(chan struct{})
}

// warnOfAddresses logs members whose address in --peers differs from the log's. The machine may
// have moved, or --peers may be wrong.
func (r *Replica) warnOfAddresses(s *core.Status) {
	if s.Cluster == (core.Identity{}) {
		return
	}
	for _, m := range s.Members {
		if given := r.options.Peers[m.ID]; given != "" && given != m.Address && r.state.warned[m.ID] != m.Address {
			r.state.warned[m.ID] = m.Address
			r.note(slog.LevelWarn, "the address of a node in --peers differs from the cluster's", "peer", m.ID,
				"peers", given, "cluster", m.Address)
		}
	}
}

// peersOf combines the log, --peers and hellos. An address in --peers takes precedence, since it
// can be changed when a machine has moved.
func (r *Replica) peersOf(s *core.Status, hellos map[uint64]peers.Hello) []Peer {
	all := make(map[uint64]Peer)
	for _, m := range s.Members {
		p := Peer{Peer: m, Known: true, Address: m.Address, Reads: r.readers.version(m.Identity)}
		if s.Role == core.Leader && m.ID != r.options.Node {
			p.Lag = s.Last - min(s.Last, m.Match)
		}
		all[m.ID] = p
	}
	for id, address := range r.options.Peers {
		p := all[id]
		p.ID, p.Address = id, address
		all[id] = p
	}
	for id, h := range hellos {
		if p, ok := all[id]; ok {
			p.Heard, p.Hello = true, h
			all[id] = p
		}
	}
	list := make([]Peer, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[id])
	}
	return list
}

// key returns a string that changes when something changes that Changed reports.
func (s *Status) key() string {
	key := fmt.Sprint(s.Role, s.Term, s.Leader, s.Cluster, s.Unfit != nil)
	for _, p := range s.Peers {
		key += fmt.Sprint(p.ID, p.Identity, p.Learner, p.Active, p.Known, p.Address, p.Hello)
	}
	return key
}
