package backup

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a backup's file: the header, then tables and files in any order, then the trailer. It is for
// one goroutine. After an error, every further call returns that error.
type Writer struct {
	w       io.Writer
	sum     hash.Hash // hash of all bytes written
	deflate *flate.Writer
	stored  bytes.Buffer // the block that is being written; the memory is reused
	number  uint32
	trailer Trailer
	err     error

	table *TableEnd // the table whose rows are being written; nil outside of a table
	rows  []byte    // rows of the next block, which is not full yet
}

// NewWriter writes the prefix and the header. The error is that of w.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	b := &Writer{w: w, sum: sha256.New(), rows: make([]byte, 0, contentBytesMax)}
	b.deflate, b.err = flate.NewWriter(nil, flate.BestSpeed)
	prefix := make([]byte, prefixBytes)
	copy(prefix, magic)
	binary.LittleEndian.PutUint32(prefix[8:], formatVersion)
	b.write(prefix)
	b.json(kindHeader, h)
	return b, b.err
}

// BeginTable begins a table; Write then writes its rows. The error is that of the file, or says that another
// table has not been ended.
func (b *Writer) BeginTable(t Table) error {
	if b.table != nil && b.err == nil {
		b.err = fmt.Errorf("backup: table %s begins within table %s", t.Name, b.table.Table)
	}
	b.table = &TableEnd{Table: t.Name}
	b.json(kindTable, t)
	return b.err
}

// Write writes rows of the table, in pieces of any size. The error is that of the file, or says that no table
// was begun.
func (b *Writer) Write(p []byte) (n int, err error) {
	if b.table == nil && b.err == nil {
		b.err = errors.New("backup: rows outside of a table")
	}
	for n < len(p) && b.err == nil {
		k := min(len(p)-n, contentBytesMax-len(b.rows))
		b.rows = append(b.rows, p[n:n+k]...)
		n += k
		if len(b.rows) == contentBytesMax {
			b.flushRows()
		}
	}
	return n, b.err
}

// flushRows writes the collected rows as a block.
func (b *Writer) flushRows() {
	if len(b.rows) > 0 {
		b.block(kindRows, b.rows)
		b.table.Bytes += int64(len(b.rows))
		b.rows = b.rows[:0]
	}
}

// EndTable ends the table with its number of rows. The error is that of the file.
func (b *Writer) EndTable(rows int64) error {
	b.flushRows()
	b.table.Rows = rows
	b.json(kindEnd, b.table)
	b.trailer.Tables = append(b.trailer.Tables, *b.table)
	b.table = nil
	return b.err
}

// AddFile adds a small file. The error is that of the backup's file, or says that the small file is too
// large.
func (b *Writer) AddFile(f File) error {
	b.json(kindFile, f)
	b.trailer.Files = append(b.trailer.Files, f.Name)
	return b.err
}

// Close writes the trailer and returns it. Without the trailer, a reader treats the file as incomplete. Close
// does not close the underlying writer. The error is the first error of the Writer.
func (b *Writer) Close(ended time.Time) (Trailer, error) {
	b.trailer.Ended = ended
	b.sum.Sum(b.trailer.SHA256[:0])
	b.json(kindTrailer, b.trailer)
	return b.trailer, b.err
}

// json writes a block with a value as JSON.
func (b *Writer) json(k kind, v any) {
	content, err := json.Marshal(v)
	switch {
	case b.err != nil:
	case err != nil:
		b.err = fmt.Errorf("backup: %s: %w", k, err)
	case len(content) > k.contentMax():
		b.err = fmt.Errorf("backup: %s of %d bytes, the limit is %d", k, len(content), k.contentMax())
	default:
		b.block(k, content)
	}
}

// block writes a block.
func (b *Writer) block(k kind, content []byte) {
	if b.err != nil {
		return
	}
	var head [headBytes]byte
	b.stored.Reset()
	b.stored.Write(head[:])
	b.deflate.Reset(&b.stored)
	if _, b.err = b.deflate.Write(content); b.err == nil {
		b.err = b.deflate.Close()
	}
	block := b.stored.Bytes()
	block[0] = byte(k)
	binary.LittleEndian.PutUint32(block[4:], b.number)
	binary.LittleEndian.PutUint32(block[8:], uint32(len(content)))
	binary.LittleEndian.PutUint32(block[12:], uint32(len(block)-headBytes))
	binary.LittleEndian.PutUint32(block[16:], checksum(block[:headBytes], block[headBytes:]))
	b.number++
	b.write(block)
}

// checksum returns the checksum of a block: of its head up to the checksum, and of its stored content.
func checksum(head, stored []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:16], castagnoli), castagnoli, stored)
}

// write writes bytes of the file and adds them to the checksum of the file.
func (b *Writer) write(p []byte) {
	if b.err == nil {
		_, b.err = b.w.Write(p)
		b.sum.Write(p) // never returns an error
	}
}
