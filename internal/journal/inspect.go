package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
)

// Summary describes a journal as Inspect or Peek found it.
type Summary struct {
	ID          [16]byte
	Segments    int    // 0 if the directory holds no journal; all other fields are zero then
	First, Last uint64 // seqs of the first and last record; Last is First-1 if there are no records

	// Torn is the number of bytes that a crash left after the last record, from TornOffset of TornFile
	// on. They were never reported as synced, and Open cuts them.
	Torn       int64
	TornFile   string
	TornOffset int64
}

// Peek is Inspect for the newest segment only; it ignores the contents of the others. It fills all
// fields except Torn, TornFile and TornOffset. It locks and changes nothing, and may be called while
// the journal is in use; it then sees at least the records that were synced before the call. Version
// is the newest version that the caller reads. A missing directory counts as one without a journal.
// A *DamageError or *VersionError refers to the newest segment; other errors say what could not be
// read.
func Peek(dir string, version uint32) (Summary, error) {
	all, err := segments(disk{}, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Summary{}, fmt.Errorf("journal: list %s: %w", dir, err)
	}
	if len(all) == 0 {
		return Summary{}, nil
	}
	r := &recovered{reads: version, segments: all[len(all)-1:]}
	if err := r.read(disk{}, 0, func(record) error { return nil }); err != nil {
		return Summary{}, err
	}
	return Summary{ID: r.id, Segments: len(all), First: all[0].first, Last: r.next - 1}, nil
}

// Inspect reads a journal that no process has open. It performs the checks of Open, calls f for every record, oldest
// first, and returns a summary. It changes nothing. Version is the newest version that the caller reads. The payload
// is valid until f returns. A *DamageError or *VersionError names what Open would refuse; other errors are those of f,
// or say which file could not be read.
func Inspect(dir string, version uint32, f func(seq uint64, payload []byte) error) (Summary, error) {
	r, err := scan(disk{}, dir, version, func(r record) error { return f(r.seq, r.payload) })
	if err != nil || len(r.segments) == 0 {
		return Summary{}, err
	}
	if err := r.checkEnd(); err != nil {
		return Summary{}, err
	}
	last := r.segments[len(r.segments)-1]
	s := Summary{ID: r.id, Segments: len(r.segments), First: r.segments[0].first, Last: r.next - 1}
	end := r.marked(int(last.end))
	r.clearMarks(end)
	if written := len(bytes.TrimRight(r.bytes, "\x00")); written > end {
		s.Torn, s.TornFile, s.TornOffset = int64(written-end), last.path, int64(end)
	}
	return s, nil
}

// clearMarks overwrites with zeros, in r.bytes, the end marks at page starts after the last record:
// the second copy of the current mark, and copies of earlier ones that no record has overwritten yet.
func (r *recovered) clearMarks(end int) {
	for at := (end + markApart - 1) / markApart * markApart; at+recordHeader <= len(r.bytes); at += markApart {
		if mark, ok := parseRecord(r.bytes[at:]); ok && mark.mark() && mark.seq < r.next {
			clear(r.bytes[at : at+mark.size])
		}
	}
}

// marked returns the offset after the end mark at offset end of the last segment, or end if there is
// no mark.
func (r *recovered) marked(end int) int {
	if mark, ok := parseRecord(r.bytes[end:]); ok && mark.mark() && mark.seq == r.next-1 {
		end += mark.size
	}
	return end
}
