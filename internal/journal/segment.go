package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

const (
	magic         = "OUTCRYJL"
	segmentHeader = 64
	recordHeader  = 24
	recordAlign   = 8
	segmentSuffix = ".seg"
)

// VersionError says that a segment can only be read by a newer program.
type VersionError struct {
	File    string // path of the segment
	Version uint32 // version of the segment; greater than Reads
	Reads   uint32 // the newest version that the caller reads
}

// Error names the file, its version and the newest version that the program reads.
func (e *VersionError) Error() string {
	return fmt.Sprintf("journal: %s has version %d and this program reads up to version %d: "+
		"a newer outcryd has written it, and only that or a newer one can read it "+
		"(outcryd --version prints what a program reads)",
		e.File, e.Version, e.Reads)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DamageError says that the contents of a segment cannot be explained by a crash.
type DamageError struct {
	File   string // path of the segment
	Offset int64  // offset in the file, in bytes
	Reason string // human-readable text
}

// Error names the file, the offset and the reason.
func (e *DamageError) Error() string {
	return fmt.Sprintf("journal: %s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// segment is one file of the journal.
type segment struct {
	path  string
	first uint64
	end   int64 // offset after the last synced record

	// marks are positions of some records that were synced since the journal was opened, in order. A reader that
	// begins in the middle of the segment finds its record from the nearest one.
	marks []Place
}

// markBytes is the least distance of a segment's marks, in bytes.
const markBytes = 128 << 10

// mark notes that record seq begins at an offset, unless there is a mark shortly before it.
func (s *segment) mark(seq uint64, at int64) {
	if at-s.near(seq).at >= markBytes {
		s.marks = append(s.marks, Place{seq, s.first, at})
	}
}

// near returns the last known position that is not after record seq of the segment.
func (s *segment) near(seq uint64) Place {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].seq > seq })
	if i == 0 {
		return Place{s.first, s.first, segmentHeader}
	}
	return s.marks[i-1]
}

func (s segment) damaged(offset int, format string, args ...any) error {
	return &DamageError{s.path, int64(offset), fmt.Sprintf(format, args...)}
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, segmentSuffix))
}

// segments returns the segments in a directory, oldest first.
func segments(fs fileSystem, dir string) (all []segment, err error) {
	names, err := fs.list(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		number, ok := strings.CutSuffix(name, segmentSuffix)
		if !ok {
			continue
		}
		s := segment{path: filepath.Join(dir, name)}
		s.first, err = strconv.ParseUint(number, 10, 64)
		if err != nil || s.first == 0 || segmentPath(dir, s.first) != s.path {
			return nil, s.damaged(0, "the name is not that of a segment")
		}
		all = append(all, s)
	}
	return all, nil
}

// segmentHead returns the header of a segment of size bytes with records of the given version.
func segmentHead(id [16]byte, version uint32, first uint64, size int64) []byte {
	b := make([]byte, segmentHeader)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	copy(b[16:], id[:])
	binary.LittleEndian.PutUint64(b[32:], first)
	binary.LittleEndian.PutUint64(b[40:], uint64(size))
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// parseVersion checks the fields of a header that all versions have in common, and returns the version.
// It returns a *VersionError if the version is above reads.
func parseVersion(s segment, b []byte, reads uint32) (version uint32, err error) {
	switch {
	case len(b) < segmentHeader:
		return 0, s.damaged(len(b), "the file ends within the header")
	case string(b[:8]) != magic:
		return 0, s.damaged(0, "it does not begin with the magic of a segment")
	case binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		return 0, s.damaged(0, "the checksum of the header does not match")
	}
	switch version = binary.LittleEndian.Uint32(b[8:]); {
	case version == 0:
		return 0, s.damaged(8, "version 0 is not valid")
	case version > reads:
		return 0, &VersionError{s.path, version, reads}
	}
	return version, nil
}

// parseHead checks the header of the segment s, whose contents are b, and returns its id and version.
func parseHead(s segment, b []byte, reads uint32) (id [16]byte, version uint32, err error) {
	if version, err = parseVersion(s, b, reads); err != nil {
		return id, 0, err
	}
	if first := binary.LittleEndian.Uint64(b[32:]); first != s.first {
		return id, 0, s.damaged(32, "the header and the file name disagree on the first record: %d in the header", first)
	}
	if size := binary.LittleEndian.Uint64(b[40:]); size != uint64(len(b)) {
		return id, 0, s.damaged(len(b), "the file has %d bytes instead of %d", len(b), size)
	}
	return [16]byte(b[16:32]), version, nil
}

// record is a record or a mark in a segment.
type record struct {
	seq, durable uint64
	payload      []byte
	at, size     int // offset in the file, and size with padding; parseRecord does not set at
}

// mark reports whether r is a mark: it has no payload and describes the records before it. They are
// durable or, if rotated reports true, the next record is in another segment.
func (r record) mark() bool    { return len(r.payload) == 0 }
func (r record) rotated() bool { return r.mark() && r.durable == r.seq+1 }

// padded returns n rounded up to a multiple of recordAlign.
func padded(n int) int { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// appendRecord appends an encoded record to dst, or a mark if payload is empty.
func appendRecord(dst []byte, seq, durable uint64, payload []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(recordHeader+len(payload)))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = binary.LittleEndian.AppendUint64(dst, durable)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[start+4:], recordChecksum(dst[start:]))
	var zeros [recordAlign]byte
	return append(dst, zeros[:padded(len(payload))-len(payload)]...)
}

// recordChecksum returns the CRC-32C of a record without its padding and its checksum field.
func recordChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// parseRecord decodes the record at the front of b. ok is false if there is no valid one.
func parseRecord(b []byte) (r record, ok bool) {
	if len(b) < recordHeader {
		return r, false
	}
	length := uint64(binary.LittleEndian.Uint32(b))
	if length < recordHeader || length > uint64(len(b)) {
		return r, false
	}
	r = record{seq: binary.LittleEndian.Uint64(b[8:]), durable: binary.LittleEndian.Uint64(b[16:]),
		payload: b[recordHeader:length], size: padded(int(length))}
	ok = r.size <= len(b) && binary.LittleEndian.Uint32(b[4:]) == recordChecksum(b[:length]) &&
		len(bytes.Trim(b[length:r.size], "\x00")) == 0
	return r, ok
}

// walk calls f for each record in the segment's bytes b, beginning with record next at offset end. It
// returns the offset after the last record and the seq that would follow. It stops at a damaged record
// as well as at an unwritten one; proveTorn distinguishes the two.
func walk(b []byte, end int, next uint64, f func(record) error) (int, uint64, error) {
	for {
		r, ok := parseRecord(b[min(end, len(b)):])
		if !ok || r.seq != next || r.mark() {
			return end, next, nil
		}
		r.at = end
		if err := f(r); err != nil {
			return end, next, err
		}
		end, next = end+r.size, next+1
	}
}

// proveTorn examines the bytes after the last good record, which ends at offset end; next is the seq of
// the record that would follow. proveTorn returns a DamageError if a later record or mark proves that
// record next was durable.
func proveTorn(s segment, b []byte, end int, next uint64) error {
	seqMax := next + uint64(len(b)/recordHeader)
	for at := end; at+recordHeader <= len(b); at += recordAlign {
		// Compute a checksum only if the other fields look like proof: a payload read as records could
		// otherwise cost a checksum of megabytes every eight bytes.
		seq, durable := binary.LittleEndian.Uint64(b[at+8:]), binary.LittleEndian.Uint64(b[at+16:])
		if durable < next || seq < durable || seq > seqMax {
			continue
		}
		if _, ok := parseRecord(b[at:]); ok {
			return s.damaged(end, "record %d is not readable, although record %d at offset %d was written after it",
				next, seq, at)
		}
	}
	return nil
}
