package core

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// simNet carries messages between nodes. It loses, delays and duplicates some.
type simNet struct {
	cut       [simNodesMax + 1][simNodesMax + 1]bool // indexed by sender and receiver
	loss, dup int                                    // probabilities in percent
	slow      int64                                  // maximum delay of a message
}

// send may deliver m to another node. Nodes accept messages only from peers whose identity they
// accept, in both directions, as over a connection that started with two hellos.
func (s *sim) send(n *simNode, m *raftpb.Message) {
	s.judgeSent(n, m)
	to := s.node(m.GetTo())
	if to == nil {
		return
	}
	name := to.name()
	if n.met[to.id] != name {
		n.later(s.between(100, 2000), func() { n.hello(to) })
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		s.fail("node %d: %v", n.id, err)
		return
	}
	from := n.name()
	deliver := func() {
		if s.net.cut[n.id][to.id] || to.name() != name {
			return
		}
		to.post(func() { to.receive(n, from, b) })
	}
	s.line(1, m.GetType().String(), n.id, m.GetTo(), m.GetIndex())
	for i := range b {
		s.hash = (s.hash ^ uint64(b[i])) * 1099511628211
	}
	if s.chance(s.net.loss) {
		if s.chance(20) {
			n.later(millisecond, func() { n.core.Unreachable(to.id) })
		}
		return
	}
	s.after(s.between(30, s.net.slow), deliver)
	if s.chance(s.net.dup) {
		s.after(s.between(30, 20*s.net.slow), deliver)
	}
}

// hello lets n hear p. It reports whether they are connected and n accepts p.
func (n *simNode) hello(p *simNode) bool {
	if !p.up() || n.s.net.cut[n.id][p.id] || n.s.net.cut[p.id][n.id] {
		return false
	}
	name := n.nameFor(p, p.name())
	err := n.core.Heard(Member{ID: p.id, Identity: name, Address: p.address()}, p.core.now.cluster)
	if err != nil {
		if n.refused[p.id] != p.name() {
			n.refused[p.id] = p.name()
			n.s.note("refuses", n.id, p.id, 0)
		}
		return false
	}
	n.met[p.id] = p.name()
	return true
}

// nameFor returns the identity under which n hears p. With the planted bug, a node that has lost its disk keeps its
// old identity.
func (n *simNode) nameFor(p *simNode, name Identity) Identity {
	if n.s.plant.lostDiskVotes && p.lost {
		return p.before.name()
	}
	return name
}

// receive passes a message from an accepted peer to the core.
func (n *simNode) receive(from *simNode, name Identity, b []byte) {
	if n.met[from.id] != name && (from.name() != name || !n.hello(from)) {
		return
	}
	m := &raftpb.Message{}
	if err := proto.Unmarshal(b, m); err != nil {
		n.s.fail("node %d: %v", n.id, err)
		return
	}
	if n.s.plant.learnerCounted {
		n.countLearner(m)
	}
	n.s.judgeReceived(n, from, name, m)
	n.core.Receive(n.nameFor(from, name), m)
}
