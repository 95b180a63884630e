package core

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Role is what a node is in its cluster.
type Role uint8

// Roles.
const (
	Follower Role = iota // also a candidate
	Learner              // stores, and does not vote
	Leader               // of a term whose first entry is committed and applied
	Stranger             // not a member
)

// Peer is what a node knows of a member.
type Peer struct {
	Member
	Learner bool
	Match   uint64 // index of the last entry that it has on its disk; 0 except on a leader
	Active  bool   // has sent something lately
}

// Status is how a node is doing.
type Status struct {
	Role      Role
	Term      uint64
	Leader    uint64 // 0 if none is known
	Last      uint64 // index of the last entry
	Commit    uint64 // index up to which a majority has everything
	Applied   uint64
	Position  Position // of the last record that was committed and applied
	Cluster   Identity
	Members   []Peer
	Elections uint64 // that this node has begun since its start
	Removed   bool   // this node was a member, and is none any more
}

// Status returns how the node is doing. Members are in the order of their numbers.
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
	case n.lead.told:
		s.Role = Leader
	case !n.now.has(n.id):
		s.Role = Stranger
	case !n.now.votes(n.id):
		s.Role = Learner
	}
	return s
}
