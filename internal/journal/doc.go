// Package journal is a write-ahead log of opaque records: numbered, checksummed,
// synced in groups. A command is durable once its record is synced.
//
// # Files
//
// A journal is a directory of segments named by the seq of their first record,
// 00000000000000000001.seg and so on, and a file LOCK that the process using it locks.
// Everything in a file is little-endian.
//
//	segment   ┌────────┬────────┬────────┬─────┬────────┬───────────────────┐
//	          │ header │ record │ record │  …  │ record │ zeros to the end  │
//	          └────────┴────────┴────────┴─────┴────────┴───────────────────┘
//	header    0 magic "OUTCRYJL" · 8 version u32 · 12 zero u32 · 16 journal id [16]
//	64 bytes  32 first seq u64 · 40 size of the file u64 · 48 zeros
//	          60 CRC-32C of bytes 0 to 59
//
// The version identifies this format and what the records may hold; a program must know the
// version to read the segment. The caller chooses it (Options.Version), because the journal
// does not know what the payloads mean.
//
//	record    0 length u32, of header and payload · 4 CRC-32C of both, without itself
//	24 bytes  8 seq u64 · 16 durable u64 · 24 payload, then zeros up to a
//	          multiple of 8
//
// The checksum is a CRC-32C of the record without padding and without the checksum itself.
//
// The seqs of a journal's records are consecutive, also across segments. The field
// durable is the last seq that was synced when the record was added to its batch: it
// is the same in all records of a batch and differs in the next batch. A length of
// zero means that nothing was written there yet.
//
// A record without payload is a mark. An end mark has durable equal to its seq: all
// records up to its seq were synced. It is written twice, in two different pages: when
// the journal is closed, when it has been idle for a moment and, with
// Options.MarkSyncs, after each batch. Later records overwrite it. A copy that is not
// overwritten yet is still true. A rotation mark has durable equal to its seq plus one:
// it ends a segment that is followed by another one.
//
// # Writing
//
// One goroutine, the flusher, writes all pending records as one batch and syncs it.
// During that time new records are collected in the next batch. The flusher then waits
// for Options.Gather, unless the batch is full and an Append waits. All callers that wait
// for a record of a batch share its sync. A batch is written only after the previous one
// is synced. If a batch is split over several segments, each part is synced before the
// next one.
//
// A segment is filled with zeros and synced in advance, because a sync into bytes that the
// file system has already allocated is much cheaper than one that grows the file. Its disk
// space is allocated first, so that a full disk is noticed at once. Its header is synced
// before it gets its name, and its name before its first record, so a segment never has a
// torn header. If the last segment is empty and too small for its first record, a larger
// one replaces it under the same name.
//
// A failed write or sync is final, except a write that finds no room: the kernel may have
// dropped the pages that it could not write, and a second sync would falsely succeed. All
// later operations fail until the journal is opened again.
//
// # A full disk
//
// If the next segment cannot be made, the journal retries twice a second, and Room returns
// the reason. A caller that changes its state before it appends the record, and cannot undo
// the change, claims room first. From the first failed attempt on, Claim fails;
// ClaimReserve may still use the rest of the current segment, of which at least a quarter
// of a segment is reserved for it. A claimed record is certain to fit: it is charged twice
// its size, because it may leave almost its own size unused at the end of a segment when it
// goes to the next one. Records without a claim wait until the disk has room. A full disk
// never fails the journal, and appended records are dropped only by Close.
//
// ClaimMany sets room aside for several records that may need more than the segments
// that are ready. Further segments are made for it, and removed after they have not been
// needed for a while. If the disk has no room for them, only that claim fails.
//
// On most file systems, overwriting allocated bytes needs no additional room. A
// copy-on-write file system (btrfs, ZFS) may refuse it on a full disk. The journal then
// repeats the same write twice a second until there is room or it is closed. During that
// time Room returns the reason, Claim and ClaimReserve fail, and no Wait for these records
// returns. This assumes that a write refused with "no space" or "quota exceeded" has
// changed at most bytes of its own range, and that nothing else of the file is lost. An end
// mark for which there is no room is left out. A failed sync is final for any reason. Open
// rewrites the last batch, and returns an error if such a file system has no room for that.
//
// # Recovery
//
// The disk is assumed to keep what it has synced and to write a sector whole or
// not at all. Of what is not synced, any sectors and names may have been written.
// Open reads every segment. If the last one becomes unreadable at seq n:
//
//   - If a later record or end mark says that n was durable, an acknowledged record is
//     damaged. Open returns an error with file and offset.
//   - Otherwise only the batch that was being written can be there, and it was never
//     reported as synced. Open cuts it: it overwrites it with zeros.
//
// Before Open returns, it rewrites the last batch in the same place and syncs it and the
// directory: if the previous process did not sync it, or failed to, the batch may exist
// only in the kernel's memory.
//
// If the last segment has an older version, Open begins a new segment after it, because
// records of the newer version may follow. From then on older programs refuse the journal.
//
// Open refuses any other inconsistency, and then changes nothing. The error names:
//
//	record damaged before another batch or an end mark    file and offset of it
//	segment missing between others, or at the end         end of the one before
//	header damaged; not the header of this name           file
//	file shorter or longer than its header says           file and its length
//	segment of another journal                            file
//	newer version, in any of the segments                 file and version
//
// Two kinds of damage cannot be distinguished from normal states:
//
//   - If the process was killed while it was writing and no end mark followed, damage to the
//     very last batch looks like a torn write, and is cut. With Options.MarkSyncs, a mark is
//     written before a batch is reported as synced. The mark is not synced, so a power
//     cut may lose it; then damage to the very last batch is cut as well.
//   - Segments deleted at the front look like the effect of RemoveBefore. If all segments are
//     deleted, it looks as if there never was a journal.
//
// Callers that keep a seq elsewhere compare it with First and Appended. The table in
// TestDamage lists every kind of damage and its result.
package journal
