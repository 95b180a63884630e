// Package backup takes a backup of an exchange while it trades, and restores one
// elsewhere. A backup is the whole state of one exact journal record, with all of
// history, as the tables of one snapshot of Postgres have it.
//
// # The file
//
// A file begins with the 16 bytes of its prefix; blocks follow to its end.
// Numbers are little-endian.
//
//	prefix    0 magic "OUTCRYBK" · 8 version u32 · 12 zero u32
//	16 bytes
//
//	block     0 kind u8 · 1 zeros · 4 number u32, from 0 · 8 length u32 of the content
//	20 bytes  12 length u32 as it is stored · 16 CRC-32C of bytes 0 to 15 and of
//	          what is stored · 20 the content, compressed with DEFLATE
//
//	kind      content
//	H         the Header, as JSON: the first block
//	T         a Table, as JSON: its rows follow
//	R         rows of that table, as COPY writes them as text; at most 1 MiB
//	E         the table's end: TableEnd, as JSON
//	F         a File with its content, of at most 8 MiB, as JSON
//	Z         the Trailer, as JSON: the last block. It holds the SHA-256 of all bytes
//	          before it
//
// The number finds a block that is missing, twice or elsewhere, the trailer an end
// that is missing and one file put together of two. Nothing in it is secret from
// who has it, and nothing proves who wrote it.
//
// # A backup
//
// What was answered when Take begins is in the journal. Take waits until the tables
// have it too, opens one snapshot, and copies every table. Nobody waits for it.
//
// # A restore
//
// Restore reads the whole file before it changes anything. It takes an empty
// directory and an empty database only. While it is at work the directory holds the
// file RESTORING, which the server refuses to start on; everything that concerns the
// database is one transaction. A restore that was cut off is done again by calling it
// again: it clears what it has left, or finds that the transaction was committed and
// finishes.
//
// The restored exchange has a journal with an id of its own. So a server refuses the
// original's journal beside the restored database, and the other way round. Its
// database has an epoch that no server ever had, so that one that still runs can write
// nothing. Its order ids go on above any that the original may have given out since.
package backup
