// Package journal is a write-ahead log of opaque records: numbered, checksummed,
// synced in groups. It is what makes an answer durable.
//
// # Files
//
// A journal is a directory of segments named by the seq of their first record,
// 00000000000000000001.seg and so on, and a file LOCK that its user locks.
// Everything in a file is little-endian.
//
//	segment   ┌────────┬────────┬────────┬─────┬────────┬───────────────────┐
//	          │ header │ record │ record │  …  │ record │ zeros to the end  │
//	          └────────┴────────┴────────┴─────┴────────┴───────────────────┘
//	header    0 magic "OUTCRYJL" · 8 version u32 · 12 zero u32 · 16 journal id [16]
//	64 bytes  32 first seq u64 · 40 zeros · 60 CRC-32C of bytes 0 to 59
//
//	record    0 length u32, of header and payload · 4 CRC-32C of all but itself
//	24 bytes  8 seq u64 · 16 durable u64 · 24 payload, then zeros up to a
//	          multiple of 8
//
// The seqs of a journal's records are consecutive, also across segments. Durable
// is the last seq that was synced when the record was written. A record without
// payload, whose durable equals its seq, is an end mark: the journal was closed
// there, all up to its seq was synced; the next record overwrites it.
//
// # Writing
//
// One goroutine, the flusher, writes everything that has gathered as one batch
// and syncs it; while it does, the next batch gathers. All who wait for a record
// of a batch share that sync. A batch is begun only after the one before it is
// synced. A segment is written with zeros and synced ahead of time, because a
// sync into bytes that the file system has already placed is much cheaper than
// one that grows the file; its header is synced before it gets its name, and its
// name before its first record. So a segment never has a torn header.
//
// A failed write or sync is final: the kernel may have dropped the pages that it
// could not write, and a second sync would claim them to be safe. Everything
// after it fails; only a new start, which reads what is there, tells what was kept.
//
// # Recovery
//
// The disk is assumed to keep what it has synced, and to have written any part of
// what it has not, sector by sector, in any order. Open reads every segment.
// Where the last segment stops being readable, at seq n:
//
//   - A later record or end mark that says n was durable proves that something
//     acknowledged is damaged. Open refuses, with file and offset.
//   - Otherwise only the batch that was being written can be there, of which
//     nobody was told. Open cuts it: it writes zeros over it.
//
// Anything else that does not fit is refused: a bad header, a gap, a segment that
// is missing, short, or of another journal. The one damage that cannot be told
// from a torn write is that of the very last batch before a crash; a journal that
// was closed has an end mark behind it and is not exposed to that.
package journal
