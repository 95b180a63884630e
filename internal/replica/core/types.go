// Package core is the consensus of a cluster as a step function: messages, ticks and
// proposals in; messages, writes and committed records out. It does no I/O and knows no
// clock, and starts no goroutine: whoever drives it (package replica, or a simulation)
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
// synced.
type Mark struct {
	Index, Term uint64
	Cluster     Identity // zero before the first leader's first entry
	Conf        *raftpb.ConfState
	Members     []Member // of rising ID
	Position             // of the records up to Index
}

// Durable is what a node's disk has, with which a start begins.
type Durable struct {
	Self    Identity // of this data/raft
	Mark    Mark
	Hard    *raftpb.HardState   // nil if none was written
	Entries []*raftpb.Entry     // consecutive, the first has index Mark.Index + 1
	Heard   map[uint64]Identity // the first identity that was heard for a number
}

// Write is what goes to data/raft, in the order of its fields and behind all writes
// before it.
type Write struct {
	Heard   []Member // identities that were heard for the first time
	Mark    *Mark    // the log begins here now: entries up to its index may be forgotten
	Entries []*raftpb.Entry
	Hard    *raftpb.HardState
	After   []*raftpb.Message // to be given to Node.Written, or sent, once all of it is synced
}
