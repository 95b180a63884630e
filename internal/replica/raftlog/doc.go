// Package raftlog stores data/raft, the state that a node of a cluster must not lose in a power
// cut: its identity, the identities of the nodes it has heard, its votes, and the entries of Raft's
// log that its journal has not synced yet.
//
// # Format
//
// data/raft is a journal (package journal) of version Version. Each record is a sequence of items, which
// are written all or not at all. Numbers are little-endian.
//
//	item   0 kind u8 · 1 length u32 of the body · 5 body
//	self   1   identity [16] of this node
//	heard  2   id u64 · identity [16] that was heard for this number; zeros remove it
//	mark   3   last u64 · core.Mark, encoded
//	entry  4   index u64 · term u64 · type u8 · data: replaces the entry with this index,
//	           if there is one, and all after it
//	again  5   like entry, but has no effect if the log has an entry with this index
//	hard   6   term u64 · vote u64 · commit u64
//
// A mark says where the log starts: the node's journal has synced everything up to the mark's index. The
// field last is the index of the last entry that stays in the log after the mark, or the mark's own index
// if none stays. A mark is written in one record with a self before it, and all heards and the hard state
// after it. So of the records before a mark only entries are still needed. The first record has the
// founding mark.
//
// # What is kept
//
// Each call of Write makes one record and one sync, unless the record is large. Writes that no message
// waits for stay in memory and go with the next record. After a mark, segments are deleted if they have
// only records from before the mark and before its first entry. If the kept records are much larger than
// the entries in them (after many votes, for example), the state is written once more, with the entries
// as again items, and all earlier records are deleted. All entries of the log are also in memory, shared
// with the caller that wrote them.
//
// # Recovery
//
// Open refuses a log that package journal finds damaged, and a log that no sequence of writes can
// produce: one with an unknown kind, a gap between entries, or a mark whose entries are missing. The
// journal marks each sync (journal.Options.MarkSyncs). Otherwise damage to a vote or an entry that a peer
// already knows of could be cut off as a torn write.
package raftlog
