package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	magic         = "OUTCRYJL"
	formatVersion = 1
	segmentHeader = 64
	recordHeader  = 24
	recordAlign   = 8
	segmentSuffix = ".seg"
	preparedName  = "prepared.tmp" // the next segment, before it has its name
	largeName     = "large.tmp"    // one that is made for a single large record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DamageError says that a segment holds something that no crash explains.
type DamageError struct {
	File   string
	Offset int64
	Reason string
}

// Error names the file, the offset and the reason.
func (e *DamageError) Error() string {
	return fmt.Sprintf("journal: %s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// segment is one file of the journal.
type segment struct {
	path  string
	first uint64
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, segmentSuffix))
}

// segments lists the segments of a directory, oldest first.
func segments(fs fileSystem, dir string) ([]segment, error) {
	names, err := fs.list(dir)
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, name := range names {
		number, ok := strings.CutSuffix(name, segmentSuffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseUint(number, 10, 64)
		if err != nil || segmentPath(dir, first) != filepath.Join(dir, name) {
			return nil, &DamageError{filepath.Join(dir, name), 0, "the name is not that of a segment"}
		}
		all = append(all, segment{filepath.Join(dir, name), first})
	}
	return all, nil
}

// appendHeader appends the header of a segment.
func appendHeader(dst []byte, id [16]byte, first uint64) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	dst = append(dst, make([]byte, segmentHeader-4-40)...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// parseHeader reads the header of the segment s.
func parseHeader(s segment, b []byte) (id [16]byte, err error) {
	switch {
	case len(b) < segmentHeader:
		return id, &DamageError{s.path, 0, fmt.Sprintf("%d bytes are too few for a segment", len(b))}
	case string(b[:8]) != magic:
		return id, &DamageError{s.path, 0, "it does not begin like a segment"}
	case binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		return id, &DamageError{s.path, 0, "the checksum of the header does not match"}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return id, fmt.Errorf("journal: %s has format version %d, this program reads version %d", s.path, v, formatVersion)
	}
	if first := binary.LittleEndian.Uint64(b[32:]); first != s.first {
		return id, &DamageError{s.path, 32, fmt.Sprintf("it says that it begins at record %d", first)}
	}
	return [16]byte(b[16:32]), nil
}

// record is one record, or an end mark, in a segment.
type record struct {
	seq, durable uint64
	payload      []byte
	size         int // in the file, padding included
}

// endMark tells whether the record only says that the journal was closed here.
func (r record) endMark() bool { return len(r.payload) == 0 }

// appendRecord appends a record or, without a payload, an end mark.
func appendRecord(dst []byte, seq, durable uint64, payload []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(recordHeader+len(payload)))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = binary.LittleEndian.AppendUint64(dst, durable)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[start+4:], recordChecksum(dst[start:]))
	var zeros [recordAlign]byte
	return append(dst, zeros[:padded(len(dst)-start)-(len(dst)-start)]...)
}

// padded returns n rounded up to a multiple of recordAlign.
func padded(n int) int { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// recordChecksum covers everything of a record but the checksum and the padding.
func recordChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// parseRecord reads the record at the front of b; ok is false where there is none.
func parseRecord(b []byte) (r record, ok bool) {
	if len(b) < recordHeader {
		return r, false
	}
	length := binary.LittleEndian.Uint32(b)
	if length < recordHeader || uint64(length) > uint64(len(b)) {
		return r, false
	}
	r = record{seq: binary.LittleEndian.Uint64(b[8:]), durable: binary.LittleEndian.Uint64(b[16:]),
		payload: b[recordHeader:length], size: padded(int(length))}
	return r, binary.LittleEndian.Uint32(b[4:]) == recordChecksum(b[:length])
}

// walk calls f for every record of a segment's bytes, which begin with its
// header, and returns where and before which seq they end. A damaged record ends
// them as an unwritten one does; proveTorn tells the two apart.
func walk(b []byte, first uint64, f func(record) error) (end int, next uint64, err error) {
	end, next = segmentHeader, first
	for {
		r, ok := parseRecord(b[min(end, len(b)):])
		if !ok || r.seq != next || r.endMark() {
			return end, next, nil
		}
		if f != nil {
			if err := f(r); err != nil {
				return end, next, err
			}
		}
		end, next = end+r.size, next+1
	}
}

// proveTorn looks at what follows the last good record, whose successor would be
// record next at offset end. It returns a DamageError where something later says
// that record next was durable.
func proveTorn(s segment, b []byte, end int, next uint64) error {
	for at := end; at+recordHeader <= len(b); at += recordAlign {
		if binary.LittleEndian.Uint32(b[at:]) == 0 {
			continue
		}
		if r, ok := parseRecord(b[at:]); ok && r.durable >= next && r.seq >= next {
			return &DamageError{s.path, int64(end), fmt.Sprintf("record %d is not readable, and record %d at offset %d says that it was there", next, r.seq, at)}
		}
	}
	return nil
}

// written returns where the last byte that is not zero ends, at or behind end.
func written(b []byte, end int) int {
	return end + len(bytes.TrimRight(b[min(end, len(b)):], "\x00"))
}

// readSegment reads a whole segment into buf, which it grows where it must.
func readSegment(fs fileSystem, s segment, buf []byte) (b []byte, err error) {
	f, err := fs.open(s.path)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	size, err := f.size()
	if err != nil {
		return buf, err
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	b = buf[:size]
	if n, err := f.ReadAt(b, 0); err != nil && (err != io.EOF || int64(n) < size) {
		return buf, err
	}
	return b, nil
}
