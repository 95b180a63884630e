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
//	64 bytes  32 first seq u64 · 40 size of the file u64 · 48 zeros
//	          60 CRC-32C of bytes 0 to 59
//
// The version says what one has to know to read the segment: this format, and what its
// records may hold. The caller numbers it (Options.Version), since it alone knows that.
//
//	record    0 length u32, of header and payload · 4 CRC-32C of these but itself
//	24 bytes  8 seq u64 · 16 durable u64 · 24 payload, then zeros up to a
//	          multiple of 8
//
// The seqs of a journal's records are consecutive, also across segments. Durable
// is the last seq that was synced when the record was put into its batch: it is
// the same in all records of a batch, and another one in the next. A length of
// zero is where nothing was written yet.
//
// A record without payload is a mark. An end mark, whose durable equals its seq,
// says that all up to its seq was synced. It is written, twice and at least a page
// apart, when the journal is closed, when nothing has come for a moment and, with
// Options.MarkSyncs, behind each batch; later records overwrite it, and what they leave
// of it says nothing that is not so. A
// mark whose durable is one above its seq ends a segment that is followed by
// another one.
//
// # Writing
//
// One goroutine, the flusher, writes everything that has gathered as one batch
// and syncs it; while it does, the next batch gathers, and then for Options.Gather,
// unless an Append waits for room in it. All who wait for a record
// of a batch share that sync. A batch is begun only after the one before it is
// synced, and so is each part of a batch that several segments take. A segment is
// written with zeros and synced ahead of time, because a sync into bytes that the
// file system has already placed is much cheaper than one that grows the file.
// The disk is asked for all of it first, so that a full one refuses at once.
// Its header is synced before it gets its name, and its name before its first
// record, so a segment never has a torn header. Where not even its first record
// fits into an empty last segment, a larger one takes its place and name.
//
// A failed write or sync is final, except a write that finds no room: the kernel may have
// dropped the pages that it could not write, and a second sync would claim them to be
// safe. Everything after it fails until the journal is opened again.
//
// # A full disk
//
// When the next segment cannot be made, it is tried again twice a second, and Room
// says why. What has to be done before a record is appended, and must not be undone
// then, claims room first. Claim refuses from that moment on; ClaimReserve goes on
// in what is left of the present segment, a quarter of a segment at the least. A
// record that was claimed has its place: it is charged twice its size, as it may
// leave less than its size unused where it is the first one of a segment. Records
// that nobody has claimed room for wait until the disk has some. A full disk never
// fails the journal, and nothing that was appended is dropped but by Close.
//
// ClaimMany sets room aside for several records that may need more than the segments
// that are ready. More are made ahead for it, and removed when nobody has needed them
// for a while. If there is no room for them, that claim alone is refused.
//
// Writing to bytes that a file has takes no room on most file systems. One that copies
// on write (btrfs, ZFS) may refuse it on a full disk. The journal then writes the same
// bytes in the same place again, twice a second, until there is room or it is closed;
// meanwhile Room says so, Claim and ClaimReserve refuse, and no Wait ends. That assumes
// that a write refused with "no space" or "quota exceeded" has changed at most bytes of
// its own range, and that nothing else of the file is lost. An end mark that has no room
// is left out. A sync that fails is final, whatever the reason. Open writes the last batch
// again, and returns the error if such a file system has no room for that.
//
// # Recovery
//
// The disk is assumed to keep what it has synced and to write a sector whole or
// not at all; of what it has not synced it may have written any sectors and names.
// Open reads every segment. Where the last one stops being readable, at seq n:
//
//   - A later record or end mark that says n was durable proves that something
//     acknowledged is damaged. Open refuses, with file and offset.
//   - Otherwise only the batch that was being written can be there, of which
//     nobody was told. Open cuts it: it writes zeros over it.
//
// Before it promises what it has found, Open writes the last batch once more, in
// the same place, and syncs it and the directory: what the process before it had
// not synced, or failed to, may be in the kernel's memory only.
//
// Where the last segment is of an older version, a new one is begun behind it, since
// newer records may follow: from then on older programs refuse the journal.
//
// Anything else that does not fit is refused, and then nothing is changed:
//
//	record damaged before another batch or an end mark    file and offset of it
//	segment missing between others, or at the end         end of the one before
//	header damaged; not the header of this name           file
//	file shorter or longer than its header says           file and its length
//	segment of another journal                            file
//	newer version, in any of the segments                 file and version
//
// Two kinds of damage cannot be told from what is allowed. Where the process was
// killed while records came, and no end mark was written, damage in the sector of
// the very last batch looks like a torn write, and is cut. With Options.MarkSyncs there is
// a mark before anybody is told of a batch; it is not synced with it, so that a power cut
// may take it, and damage to the very last batch before it is cut. Deleted segments at the
// front look like RemoveBefore; all of them deleted, like a journal that never was.
// Callers who keep a seq elsewhere compare it with First and Appended. The table in
// TestDamage has every kind of damage and what comes of it.
package journal
