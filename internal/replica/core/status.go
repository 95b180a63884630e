package core

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Role is the role of a node in its cluster.
type Role uint8

// The roles of a node.
const (
	Follower Role = iota // also while the node is a candidate
	Learner              // stores entries but does not vote
	Leader               // a leader whose first entry of its term is committed and applied
	Stranger             // not a member
)

// Peer is what a node knows about a member.
type Peer struct {
	Member
	Learner bool
	Match   uint64 // index of the last entry on the member's disk; 0 unless this node leads
	Active  bool   // the member has sent a message within two election timeouts
}

// Status is the state of a node for monitoring and for its driver.
type Status struct {
	Role      Role
	Term      uint64
	Leader    uint64 // number of the leader, 0 if unknown
	Last      uint64 // index of the last entry
	Commit    uint64 // index of the last entry known to be on a majority of disks
	Applied   uint64
	Position  Position // position of the last record that is committed and applied
	Cluster   Identity
	Members   []Peer
	Elections uint64 // number of elections that this node has started since its start
	Removed   bool   // this node was a member and was removed
}

// Status returns the state of the node. Members are sorted by number.
func (n *Node) Status() Status {
	st := n.raft.BasicStatus()
	s := Status{
		Role: Follower, Term: st.GetTerm(), Leader: st.Lead, Last: n.log.last(), Commit: st.GetCommit(),
		Applied: n.acked, Position: n.log.at(n.acked).Position, Cluster: n.now.cluster, Elections: n.elections,
		Removed: slices.Contains(n.now.removed, n.options.Durable.Self),
	}
	match := map[uint64]uint64{}
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) { match[id] = p.Match })
	for _, m := range n.now.members {
		p := Peer{Member: m, Learner: !n.now.votes(m.ID), Active: n.active(m.ID)}
		if n.lead.term != 0 {
			p.Match = match[m.ID]
		}
		s.Members = append(s.Members, p)
	}
	switch {
	case n.lead.announced:
		s.Role = Leader
	case !n.now.has(n.id):
		s.Role = Stranger
	case !n.now.votes(n.id):
		s.Role = Learner
	}
	return s
}
