package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
)

// Summary is what Inspect found in a journal.
type Summary struct {
	ID          [16]byte
	Segments    int    // 0 where the directory holds no journal; all else is zero then
	First, Last uint64 // seqs of the records; Last is First-1 where there is none

	// Torn is how many bytes a crash has left behind the last record, from offset
	// TornOffset of TornFile on. Nobody was told of them, and Open cuts them.
	Torn       int64
	TornFile   string
	TornOffset int64
}

// Peek is Inspect of the newest segment alone, whatever the others hold: it tells all
// but Torn, TornFile and TornOffset. It locks and changes nothing, and may be asked while
// the journal is in use: all that was synced when it is called is counted. Version
// is the newest one that the caller reads. A directory that is not there holds no
// journal. A *DamageError or *VersionError is of the newest
// segment; other errors say what could not be read.
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

// Inspect reads a journal that nobody has open: it checks everything that Open
// checks, calls f for every record, oldest first, and returns what is there. Version is
// the newest one that the caller reads. It changes nothing. The payload is valid until f returns. A *DamageError names
// what Open would refuse; other errors are f's, or say which file could not be read.
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

// clearMarks takes the end marks out of r.bytes that lie a page or more behind the
// last record: the second one of now, and those of earlier that no record has
// overwritten yet.
func (r *recovered) clearMarks(end int) {
	for at := (end + markApart - 1) / markApart * markApart; at+recordHeader <= len(r.bytes); at += markApart {
		if mark, ok := parseRecord(r.bytes[at:]); ok && mark.mark() && mark.seq < r.next {
			clear(r.bytes[at : at+mark.size])
		}
	}
}

// marked returns where the end mark at offset end of the last segment ends, or
// end where there is none.
func (r *recovered) marked(end int) int {
	if mark, ok := parseRecord(r.bytes[end:]); ok && mark.mark() && mark.seq == r.next-1 {
		end += mark.size
	}
	return end
}
