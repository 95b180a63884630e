package core

import (
	"errors"

	"go.etcd.io/raft/v3/raftpb"
)

// ErrNotLeading is returned by what only a leader can do.
var ErrNotLeading = errors.New("core: this node does not lead")

// Options are what a Node begins with.
type Options struct {
	ID      uint64
	Durable Durable
	Journal uint64 // seq of the last record that the journal has: those up to it are not told again
	// Times in ticks. The zero value of each is its default.
	ElectionTicks  int // 30; an election begins after this to twice as many without a leader
	HeartbeatTicks int // 5
}

// Commit is records that a majority has: one batch, in its place in the history.
type Commit struct {
	First   uint64 // seq of the first record
	Records [][]byte
}

// Fetch asks for records that this node's log will never have: those of the journal of
// another node, after From and up to To. Node.Fetched follows.
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

	Fetch     *Fetch // not nil once, when it is needed
	Leads     bool   // once: this node leads, and Position is where it begins; see Status
	Deposed   bool   // once: it leads no more, and nothing may be told any more
	Confirmed uint64 // the highest round of Node.Read that is confirmed
	Broken    error  // this node's history is not that of the others: it has to stay down
}

// Role is what a node is in its cluster.
type Role uint8

// Roles.
const (
	Follower Role = iota // also a candidate
	Learner              // stores, and does not vote
	Leader               // of a term whose first entry is committed and applied
	Stranger             // not a member
)

// Peer is what a leader knows of another member.
type Peer struct {
	Member
	Learner bool
	Match   uint64 // index of the last entry that it has on its disk
	Active  bool   // has answered lately
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
}
