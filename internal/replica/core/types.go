// Package core is the consensus of a cluster as a step function: messages, ticks and
// proposals in; messages, writes and committed records out. It does no I/O and knows no
// clock, and starts no goroutine: its driver (package replica, or a simulation)
// moves the bytes. So every history that a network, a disk and a clock can make can be
// run from one seed.
package core

import "go.etcd.io/raft/v3/raftpb"

// Identity is the random name of a node's data/raft, or of a cluster; zero is none. A node
// that has lost its disk has another one, and so cannot vote twice.
type Identity [16]byte

// Position is a place in the history of records: behind record Seq. Chain is the
// CRC-64 (ECMA) over the payloads of all records up to it since the cluster began, 0 there.
type Position struct{ Seq, Chain uint64 }

// Member is a node that the cluster's log knows.
type Member struct {
	ID       uint64   // 1 and up
	Identity Identity // zero until a leader has heard it
	Address  string   // where peers reach it, HOST:PORT
}

// Mark is where a node's Raft log begins: everything up to Index is in its journal,
// synced. All nodes of a new cluster begin with the same one: Index 1, Term 1, the
// voters and their addresses. A newcomer begins with a Mark of Index 0 and no member.
// Encode and DecodeMark are its form on disk and on the wire.
type Mark struct {
	Index, Term uint64
	Cluster     Identity // zero before the first leader's first entry
	Conf        *raftpb.ConfState
	Members     []Member   // of rising ID
	Removed     []Identity // of members that were removed, the newest removedMax
	Position               // of the records up to Index
}

// Durable is what a node's disk has, with which a start begins.
type Durable struct {
	Self    Identity // of this data/raft
	Mark    Mark
	Hard    *raftpb.HardState   // nil if none was written
	Entries []*raftpb.Entry     // consecutive, the first has index Mark.Index + 1
	Heard   map[uint64]Identity // the last that Write.Heard had for a number
}

// Write is what goes to data/raft, in the order of its fields and behind all writes
// before it. It needs no sync of its own if After is empty.
type Write struct {
	Heard   []Member // identities that were heard for the first time; a zero one is forgotten
	Mark    *Mark    // the log begins here now: entries up to its index may be forgotten
	Entries []*raftpb.Entry
	Hard    *raftpb.HardState
	// After are messages for when this write and all before it are synced, in this order:
	// those to this node itself go to Node.Written, the others to their peers.
	After []*raftpb.Message
}
