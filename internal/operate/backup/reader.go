package backup

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

// Reader reads a backup's file and checks every byte of it. Only after Next has returned io.EOF is it certain that the
// data belongs to a complete backup. Its memory is bounded regardless of the file's contents. It is for one goroutine.
type Reader struct {
	r      *bufio.Reader
	sum    hash.Hash // hash of all bytes read
	offset int64     // offset of the next block
	number uint32

	header  Header
	trailer Trailer
	seen    Trailer // the trailer's expected content, according to the blocks read so far

	table  *TableEnd // the table that is being read, counted up to here; nil outside of a table
	rows   []byte    // rows read from the file, but not yet returned
	err    error     // the error that ended the reading
	head   [headBytes]byte
	stored []byte
	buffer bytes.Buffer // content of the present block
	flate  io.ReadCloser
}

// Section is a part of a backup: a table or a file.
type Section struct {
	Table *Table // nil if it is a file
	File  *File
}

// NewReader reads the prefix and the header. The error is a *DamageError or r's, or says that the file is not a backup
// or has another format version.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New(), flate: flate.NewReader(nil)}
	var prefix [prefixBytes]byte
	if err := b.full(prefix[:], "prefix"); err != nil {
		return nil, err
	}
	version := binary.LittleEndian.Uint32(prefix[8:])
	switch {
	case string(prefix[:8]) != magic:
		return nil, errors.New("the file is not a backup: it does not begin like one")
	case version != formatVersion:
		return nil, fmt.Errorf("the backup has format version %d, this program reads version %d", version, formatVersion)
	case prefix[12]|prefix[13]|prefix[14]|prefix[15] != 0:
		return nil, &DamageError{12, "prefix", "reserved bytes are not zero"}
	}
	b.offset = prefixBytes
	k, at, err := b.block()
	if err != nil {
		return nil, err
	}
	if k != kindHeader {
		return nil, &DamageError{at, k.String(), "a backup begins with its header"}
	}
	return b, b.decode(at, k, &b.header)
}

// Header returns the header of the backup.
func (b *Reader) Header() Header { return b.header }

// Trailer returns the trailer of the backup. It is valid once Next has returned io.EOF.
func (b *Reader) Trailer() Trailer { return b.trailer }

// Next returns the next section. It first reads and checks the rest of the current one. It returns io.EOF at the end
// of a complete backup. Other errors are a *DamageError or the file's. Every error is final.
func (b *Reader) Next() (Section, error) {
	if b.table != nil {
		if _, err := io.Copy(io.Discard, b); err != nil {
			return Section{}, err
		}
	}
	if b.err != nil {
		return Section{}, b.err
	}
	s, err := b.next()
	b.err = err
	return s, err
}

// next returns the next section, once the current one was read to its end.
func (b *Reader) next() (s Section, err error) {
	sum := hexDigest(b.sum.Sum(nil))
	k, at, err := b.block()
	if err != nil {
		return s, err
	}
	switch k {
	case kindTable:
		s.Table = new(Table)
		if err := b.decode(at, k, s.Table); err != nil {
			return s, err
		}
		b.table = &TableEnd{Table: s.Table.Name}
		return s, nil
	case kindFile:
		s.File = new(File)
		b.seen.Files = append(b.seen.Files, "")
		err := b.decode(at, k, s.File)
		b.seen.Files[len(b.seen.Files)-1] = s.File.Name
		return s, err
	case kindTrailer:
		if err := b.decode(at, k, &b.trailer); err != nil {
			return s, err
		}
		return s, b.end(at, sum)
	}
	return s, &DamageError{at, k.String(), "it is outside of a table, or repeated"}
}

// end checks the trailer, whose block is at an offset, and that nothing follows it.
func (b *Reader) end(at int64, sum hexDigest) error {
	switch {
	case b.trailer.SHA256 != sum:
		return &DamageError{at, kindTrailer.String(), "its SHA-256 differs from the file's"}
	case !slices.Equal(b.trailer.Tables, b.seen.Tables) || !slices.Equal(b.trailer.Files, b.seen.Files):
		return &DamageError{at, kindTrailer.String(), "it lists other tables, rows or files than those " +
			"before it"}
	}
	switch _, err := b.r.ReadByte(); {
	case err == nil:
		return &DamageError{b.offset, "end", "something follows the trailer"}
	case err != io.EOF:
		return err
	}
	return io.EOF
}

// Read reads rows of the table that Next has returned. It returns io.EOF at the table's end. Other errors are
// a *DamageError or the file's, and final.
func (b *Reader) Read(p []byte) (n int, err error) {
	for len(b.rows) == 0 && len(p) > 0 {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.table == nil:
			return 0, io.EOF
		}
		b.err = b.nextRows()
	}
	n = copy(p, b.rows)
	b.rows = b.rows[n:]
	return n, nil
}

// nextRows reads the next block of the table, or its end.
func (b *Reader) nextRows() error {
	k, at, err := b.block()
	switch {
	case err != nil:
		return err
	case k == kindRows:
		b.rows = b.buffer.Bytes()
		b.table.Bytes += int64(len(b.rows))
		return nil
	case k != kindEnd:
		return &DamageError{at, k.String(), fmt.Sprintf("table %s has not ended", b.table.Table)}
	}
	var end TableEnd
	if err := b.decode(at, k, &end); err != nil {
		return err
	}
	if end.Table != b.table.Table || end.Bytes != b.table.Bytes {
		return &DamageError{at, k.String(), fmt.Sprintf("it is of table %s with %d bytes, and there are %d bytes of table %s",
			end.Table, end.Bytes, b.table.Bytes, b.table.Table)}
	}
	b.seen.Tables = append(b.seen.Tables, end)
	b.table = nil
	return nil
}

// Rows returns the number of rows of the last table, once it was read to its end.
func (b *Reader) Rows() int64 { return b.seen.Tables[len(b.seen.Tables)-1].Rows }

// block reads a block into b.buffer and returns its kind and offset.
func (b *Reader) block() (k kind, at int64, err error) {
	at = b.offset
	section := "next block"
	if b.table != nil {
		section = "table " + b.table.Table
	}
	if err := b.full(b.head[:], section); err != nil {
		return 0, at, err
	}
	k = kind(b.head[0])
	damaged := func(format string, args ...any) error {
		return &DamageError{at, section, fmt.Sprintf(format, args...)}
	}
	content, stored := binary.LittleEndian.Uint32(b.head[8:]), binary.LittleEndian.Uint32(b.head[12:])
	if int64(content) > int64(k.contentMax()) || int64(stored) > int64(k.storedMax()) {
		return 0, at, damaged("a block of %d bytes, stored as %d: larger than any block", content, stored)
	}
	b.stored = slices.Grow(b.stored[:0], int(stored))[:stored]
	if err := b.full(b.stored, section); err != nil {
		return 0, at, err
	}
	if binary.LittleEndian.Uint32(b.head[16:]) != checksum(b.head[:], b.stored) {
		return 0, at, damaged("the checksum of the block does not match")
	}
	if n := binary.LittleEndian.Uint32(b.head[4:]); n != b.number || b.head[1]|b.head[2]|b.head[3] != 0 {
		return 0, at, damaged("block %d is in the place of block %d", n, b.number)
	}
	if err := b.inflate(int(content)); err != nil {
		return 0, at, damaged("its content cannot be read: %v", err)
	}
	b.offset += headBytes + int64(stored)
	b.number++
	return k, at, nil
}

// inflate decompresses the block into b.buffer. The content must have the given length.
func (b *Reader) inflate(length int) error {
	stored := bytes.NewReader(b.stored)
	if err := b.flate.(flate.Resetter).Reset(stored, nil); err != nil {
		return err
	}
	b.buffer.Reset()
	n, err := io.Copy(&b.buffer, io.LimitReader(b.flate, int64(length)+1))
	if err == nil && (n != int64(length) || stored.Len() != 0) {
		err = fmt.Errorf("%d bytes or more instead of %d", n, length)
	}
	return err
}

// decode decodes the JSON of the present block. at is the block's offset.
func (b *Reader) decode(at int64, k kind, into any) error {
	if err := json.Unmarshal(b.buffer.Bytes(), into); err != nil {
		return &DamageError{at, k.String(), err.Error()}
	}
	return nil
}

// full fills p from the file. The error names b.offset.
func (b *Reader) full(p []byte, section string) error {
	n, err := io.ReadFull(b.r, p)
	b.sum.Write(p[:n]) // never returns an error
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &DamageError{b.offset, section, "the file is cut off here"}
	}
	return err
}
