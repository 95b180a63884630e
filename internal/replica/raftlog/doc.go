// Package raftlog is data/raft: what a node of a cluster must still know after a power cut.
// That is who it is, whom it has heard, how it voted, and the entries of Raft's log that
// its journal has not synced yet.
//
// # Format
//
// data/raft is a journal (package journal) of version Version. Each of its records is a
// run of items, which are there all or none. Everything is little-endian.
//
//	item   0 kind u8 · 1 length u32 of the body · 5 body
//	self   1   identity [16] of this node
//	heard  2   id u64 · identity [16] that was heard for this number; zeros forget it
//	mark   3   last u64 · core.Mark, encoded
//	entry  4   index u64 · term u64 · type u8 · data: in place of the one of this index,
//	           if there is one, and all behind it
//	again  5   as entry; it changes nothing if the log has one of this index
//	hard   6   term u64 · vote u64 · commit u64
//
// A mark says where the log begins: everything up to its index is in the node's journal,
// synced. Its last is the index of the last entry that it leaves in the log, or its own.
// A self stands before a mark, and all heards and the hard state behind it, in one record,
// so that of what is before a mark only entries are needed. The first record is that of the
// founding mark.
//
// # What is kept
//
// All that is written at once is one record and one sync, unless it is large. What nobody
// waits for stays in memory and goes with the next record. When a mark comes, the segments
// are deleted that hold only what is before it and before the first entry behind it. If
// what is kept has grown to much more than the entries in it (nothing but votes, say), all
// of it is written once more, the entries as again, and what is before it is deleted.
// All entries that the log has are in memory as well, shared with whoever wrote them.
//
// # Recovery
//
// What a journal takes for damage is refused, and so is whatever no sequence of writes
// leaves: an unknown kind, a gap between entries, a mark that promises entries that are not
// there. The journal marks each sync (journal.Options.MarkSyncs), as a vote or an entry
// that a peer was told of must not be cut like a torn write.
package raftlog
