// Package core implements the consensus of a cluster as a step function. Inputs are messages, ticks
// and proposals; outputs are messages, writes and committed records. It does no I/O, reads no clock
// and starts no goroutine. Its driver (package replica, or a simulation in tests) does that, so a
// seed determines every history of network, disk and clock faults.
package core

import "go.etcd.io/raft/v3/raftpb"

// Identity is the random identity of a node's data/raft, or of a cluster; zero means none. A node
// that has lost its disk has a new identity and so cannot vote twice.
type Identity [16]byte

// Position is a place in the history of records, after record Seq. Chain is the CRC-64 (ECMA) over
// the payloads of all records up to Seq since the cluster was founded; it is 0 at the start.
type Position struct{ Seq, Chain uint64 }

// Member is a node named in the cluster's log.
type Member struct {
	ID       uint64   // 1 and up
	Identity Identity // zero until a leader has heard the node
	Address  string   // HOST:PORT at which peers reach the node
}

// Mark is the start of a node's Raft log: the journal has all records up to Index, synced. All
// founders of a cluster start with the same mark: Index 1, Term 1, the voters and their addresses.
// A node to be added starts with a Mark of Index 0 and no members. Encode and DecodeMark convert it
// to and from its form on disk and on the wire.
type Mark struct {
	Index, Term uint64
	Cluster     Identity // zero before the first leader's first entry
	Conf        *raftpb.ConfState
	Members     []Member   // sorted by ID
	Removed     []Identity // identities of removed members, the last removedMax of them
	Position               // position after the last record up to Index
}

// Durable is the content of a node's disk at start.
type Durable struct {
	Self    Identity // identity of this data/raft
	Mark    Mark
	Hard    *raftpb.HardState   // nil if none was written
	Entries []*raftpb.Entry     // consecutive; the first has index Mark.Index + 1
	Heard   map[uint64]Identity // for each number the last identity in Write.Heard
}

// Write is a write to data/raft, in the order of its fields and after all earlier writes. It needs
// no sync if After is empty.
type Write struct {
	Heard   []Member // identities heard for the first time; a zero identity removes the entry
	Mark    *Mark    // new start of the log: entries up to its index may be deleted
	Entries []*raftpb.Entry
	Hard    *raftpb.HardState
	// After are messages to deliver in this order once this write and all earlier ones are synced.
	// Messages to this node go to Node.Written, the others to their peers.
	After []*raftpb.Message
}
