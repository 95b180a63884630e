// Package backup takes a backup of an exchange while it trades, and restores one elsewhere. A backup is the
// whole state after one exact journal record, with the full history, as the tables have it in one snapshot of
// Postgres.
//
// # The file
//
// A file begins with a prefix of 16 bytes, and consists of blocks after that. Numbers are little-endian.
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
//	R         rows of that table, in the text format of COPY; at most 1 MiB
//	E         the table's end: TableEnd, as JSON
//	F         a File with its content, of at most 8 MiB, as JSON
//	Z         the Trailer, as JSON: the last block. It holds the SHA-256 of all bytes
//	          before it
//
// The block numbers reveal missing, repeated and misplaced blocks. The trailer reveals a truncated file, and one that
// was assembled from two backups. The file is not encrypted, and nothing in it proves who wrote it.
//
// # A backup
//
// Everything that was answered before Take begins is in the journal. Take waits until the tables include it,
// opens one snapshot, and copies every table. The exchange does not wait for any of this.
//
// # A restore
//
// Restore checks the whole file before it changes anything. It accepts only an empty directory and an empty database.
// While it works, the directory contains the file RESTORING, with which no server starts. All changes of the database
// are one transaction. If a restore is interrupted, call it again: it removes the remains of the first attempt and
// starts over, or finds that the transaction was committed and finishes.
//
// The restored exchange has a journal with a new id. So a server refuses the combination of the original's journal
// with the restored database, and the restored journal with the original's database. The restored database has an
// epoch that no server has had, so that a server of the original that still runs cannot write to it. Its order ids
// continue above all ids that the original may have issued since the backup.
package backup
