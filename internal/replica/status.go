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

// Status is how a node of a cluster is doing: what its loop knew at its last tick. What
// a Status refers to is shared, and must not be changed.
type Status struct {
	core.Status
	Node    uint64
	Self    core.Identity // of this node's data/raft
	Peers   []Peer        // the members of the log and those of --peers, of rising number
	SyncAge time.Duration // of the oldest write to a disk that has not ended; less than a tick is 0
	Unfit   error         // why this node should not lead: its disk hangs or is full; nil if it may
	Dropped uint64        // messages of peers that found no room here
	Err     error         // why this node cannot go on, or leads no more; see Replica.Err
}

// Peer is a node as this one knows it; itself too.
type Peer struct {
	core.Peer        // Match and Active only on a leader
	Known     bool   // a member of the log
	Address   string // where this node reaches it
	Lag       uint64 // entries of the log that it has not got, on a leader
	Reads     uint32 // newest version of records that this member reads, 0 if it was never heard
	Heard     bool   // Hello is known
	Hello     peers.Hello
}

// state is what the loop last published.
type state struct {
	now  atomic.Pointer[Status]
	peer map[uint64]string // addresses that the network was told; the loop's own
	told map[uint64]string // addresses of the cluster that --peers does not have; the loop's own
	key  string            // of what Changed tells of; the loop's own

	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	hellos   map[uint64]peers.Hello
	founders map[uint64]time.Time // nodes that found a cluster beside this one, and when they said so
}

// counts are for Status.
type counts struct{ dropped atomic.Uint64 }

// Status returns how this node is doing, at the last tick of its loop or when that ended.
func (r *Replica) Status() Status {
	s := *r.state.now.Load()
	s.Err = r.Err()
	return s
}

// Unreached returns why messages of this node do not reach a peer, as its last try has said; "" if nothing is known.
func (r *Replica) Unreached(peer uint64) string { return r.net.Stats().Peers[peer].Why }

// Removed returns how this node knows that it was removed from the cluster: by its log, or from a peer that refuses it;
// "" if it does not.
func (r *Replica) Removed() string {
	if s := r.state.now.Load(); s.Removed {
		return fmt.Sprintf("this node, %v, was removed from the cluster: begin with an empty directory, and add it again",
			s.Self)
	}
	for _, p := range r.net.Stats().Peers {
		if p.Removed {
			return p.Why
		}
	}
	return ""
}

// Founders names those with whom this node founds a cluster, and who were not heard or are not reached, each with the
// reason as far as it is known. It is "" once there is a cluster, and for a node that founds none.
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

// Changed returns a channel that is closed when the role, the term, the leader, a member or
// its hello, or Unfit is another one than now. Figures that always change do not count.
func (r *Replica) Changed() <-chan struct{} {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	return r.state.changed
}

// publish makes Status tell of this moment, and lets the network know who is where.
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

// warnOfAddresses says which members --peers has elsewhere than the cluster: a machine may have moved, or it is a slip.
func (r *Replica) warnOfAddresses(s *core.Status) {
	if s.Cluster == (core.Identity{}) {
		return
	}
	for _, m := range s.Members {
		if given := r.options.Peers[m.ID]; given != "" && given != m.Address && r.state.told[m.ID] != m.Address {
			r.state.told[m.ID] = m.Address
			r.note(slog.LevelWarn, "--peers has another address of a node than the cluster", "peer", m.ID,
				"peers", given, "cluster", m.Address)
		}
	}
}

// peersOf joins what the log, --peers and hellos say of all nodes. The address of --peers
// comes first: it can be changed where a machine has moved.
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

// key is another string once something has changed that Changed tells of.
func (s *Status) key() string {
	key := fmt.Sprint(s.Role, s.Term, s.Leader, s.Cluster, s.Unfit != nil)
	for _, p := range s.Peers {
		key += fmt.Sprint(p.ID, p.Identity, p.Learner, p.Active, p.Known, p.Address, p.Hello)
	}
	return key
}
