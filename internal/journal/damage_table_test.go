package journal

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// outcome is the result of opening a damaged journal.
type outcome string

const (
	refusal  outcome = "start is refused, with file and offset"
	complete outcome = "all records come back"
	torn     outcome = "what was written last is cut, like a batch torn by a crash"
	shorter  outcome = "the rest comes back; the database knows that there was more"
)

// The specimen has four segments. The last one has room for both end marks.
const (
	specimenBytes = 2 * markApart
	specimenLast  = 110
)

// specimen is a journal to which each kind of damage is applied, one at a time.
type specimen struct {
	t        *testing.T
	whole    *memFS
	segments []segment
	last     segment
	at       []int // offsets of the records in the last segment, and the offset after the last one
	other    *memFS
	want     outcome
	cases    int
}

func newSpecimen(t *testing.T, end ending, want outcome) *specimen {
	t.Helper()
	options := Options{Version: newest, SegmentBytes: specimenBytes}
	s := &specimen{t: t, whole: grownTo(t, end, specimenLast, options), other: grownTo(t, end, specimenLast, options),
		want: want}
	var err error
	s.segments, err = segments(s.whole, memDir)
	require.NoError(t, err)
	require.Len(t, s.segments, 4)
	s.last = s.segments[len(s.segments)-1]
	s.at = records(t, s.last, s.whole.files[s.last.path].data)
	require.Greater(t, len(s.at), 4)
	require.Less(t, s.at[len(s.at)-1], markApart-recordHeader)
	return s
}

// try damages a copy of the journal, opens it, and checks that the outcome is the expected one.
func (s *specimen) try(harm func(fs *memFS), where ...any) {
	s.t.Helper()
	what := fmt.Sprint(where...)
	s.cases++
	fs := s.whole.clone()
	harm(fs)
	same := maps.EqualFunc(fs.files, s.whole.files, func(a, b *memFile) bool { return bytes.Equal(a.data, b.data) })
	require.False(s.t, same, "no damage: %s", what)
	switch s.want {
	case refusal:
		refused(s.t, fs, "%s", what)
	case complete:
		requireUsable(s.t, fs, specimenLast, "%s", what)
	case torn:
		before := fs.clone()
		requireUsable(s.t, fs, s.last.first+uint64(len(s.at))-4, "%s", what)
		require.Less(s.t, readAll(s.t, before), uint64(specimenLast), what)
	case shorter:
		j, err := open(fs, memDir, small)
		require.NoError(s.t, err, what)
		require.NoError(s.t, j.Close())
		require.True(s.t, j.First() > 1 || j.Synced() < specimenLast, what)
	}
}

// flip tries, for each byte of the last segment in the range [from, to), to flip bits of it.
func (s *specimen) flip(from, to int) {
	for i := from; i < to; i++ {
		for _, bits := range []byte{0x01, 0x80, 0xff} {
			s.try(func(fs *memFS) { fs.files[s.last.path].data[i] ^= bits }, "bits ", bits, " of byte ", i)
		}
	}
}

// zero tries, for each sector of a segment that overlaps the range [from, to), to overwrite it with zeros.
func (s *specimen) zero(path string, from, to int) {
	for i := from / sectorBytes * sectorBytes; i < to; i += sectorBytes {
		s.try(func(fs *memFS) {
			b := fs.files[path].data
			clear(b[i:min(i+sectorBytes, len(b))])
		}, filepath.Base(path), ": sector at ", i)
	}
}

// each calls harm for every segment.
func (s *specimen) each(harm func(i int, seg segment)) {
	for i, seg := range s.segments {
		harm(i, seg)
	}
}

// damages is the table of all kinds of damage and their outcomes. After an orderly stop, or after the
// journal was idle for a moment, only the loss of the first segments goes unnoticed by Open: it looks
// like RemoveBefore. The server notices that too, because its database knows how far back the journal must
// reach.
var damages = []struct {
	name    string
	endings []ending
	outcome outcome
	harm    func(s *specimen)
}{
	{"a byte of the last two records changed", []ending{closed, idle}, refusal,
		func(s *specimen) { s.flip(s.at[len(s.at)-3], s.at[len(s.at)-1]) }},
	{"a byte of the record before the last changed", []ending{busy}, refusal,
		func(s *specimen) { s.flip(s.at[len(s.at)-3], s.at[len(s.at)-2]) }},
	{"a byte of the last record changed", []ending{busy}, torn, func(s *specimen) {
		s.flip(s.at[len(s.at)-2],
			s.at[len(s.at)-1])
	}},
	{"a byte of the end mark changed", []ending{closed, idle}, complete,
		func(s *specimen) { s.flip(s.at[len(s.at)-1], s.at[len(s.at)-1]+recordHeader) }},
	{"a byte of the mark that the journal goes on changed", []ending{closed, idle, busy}, complete, func(s *specimen) {
		first := s.segments[0]
		at := records(s.t, first, s.whole.files[first.path].data)
		for i := range recordHeader {
			s.try(func(fs *memFS) { fs.files[first.path].data[at[len(at)-1]+i] ^= 0x10 }, "byte ", i)
		}
	}},
	{"a byte of a header changed", []ending{closed, idle, busy}, refusal, func(s *specimen) { s.flip(0, segmentHeader) }},
	{"a sector of the last segment zeroed", []ending{closed, idle}, refusal,
		func(s *specimen) { s.zero(s.last.path, 0, s.at[len(s.at)-1]) }},
	{"a sector of the last segment zeroed, but the last one", []ending{busy}, refusal,
		func(s *specimen) { s.zero(s.last.path, 0, sectorOf(s.at[len(s.at)-2])) }},
	{"the last sector of the last segment zeroed", []ending{busy}, torn, func(s *specimen) {
		end := s.at[len(s.at)-1]
		s.zero(s.last.path, sectorOf(end-1), end)
	}},
	{"the page with the last records and an end mark zeroed", []ending{closed, idle}, refusal, func(s *specimen) {
		s.try(func(fs *memFS) { clear(fs.files[s.last.path].data[segmentHeader:markApart]) })
	}},
	{"a sector of another segment zeroed", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		for _, seg := range s.segments[:len(s.segments)-1] {
			at := records(s.t, seg, s.whole.files[seg.path].data)
			s.zero(seg.path, 0, at[len(at)-1])
		}
	}},
	{"noise behind the end", []ending{closed, idle, busy}, complete, func(s *specimen) {
		for i := s.at[len(s.at)-1] + recordHeader; i+sectorBytes <= specimenBytes; i += sectorBytes {
			s.try(func(fs *memFS) { copy(fs.files[s.last.path].data[i:], payload(uint64(i), sectorBytes)) }, "at ", i)
		}
	}},
	{"a segment missing between others", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		for _, seg := range s.segments[1 : len(s.segments)-1] {
			s.try(func(fs *memFS) { delete(fs.files, seg.path) }, seg.path)
		}
	}},
	{"the first segments missing", []ending{closed, idle, busy}, shorter, func(s *specimen) {
		for n := 1; n < len(s.segments); n++ {
			s.try(func(fs *memFS) { remove(fs, s.segments[:n]) }, n, " of them")
		}
	}},
	{"the last segments missing", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		for n := 1; n < len(s.segments); n++ {
			s.try(func(fs *memFS) { remove(fs, s.segments[n:]) }, "all but ", n)
		}
	}},
	{"a segment truncated, to any length", []ending{closed}, refusal, func(s *specimen) {
		s.each(func(i int, seg segment) {
			step := 1 // for the last segment, try every length
			if i < len(s.segments)-1 {
				step = 97
			}
			for n := 0; n < specimenBytes; n += step {
				s.try(func(fs *memFS) { fs.files[seg.path].data = fs.files[seg.path].data[:n] }, seg.path, ": ", n, " bytes")
			}
		})
	}},
	{"a segment made longer", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		s.each(func(_ int, seg segment) {
			s.try(func(fs *memFS) { fs.files[seg.path].data = append(fs.files[seg.path].data, 0) }, seg.path)
		})
	}},
	{"two segments swapped", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		s.each(func(i int, a segment) {
			for _, b := range s.segments[:i] {
				s.try(func(fs *memFS) { fs.files[a.path], fs.files[b.path] = fs.files[b.path], fs.files[a.path] }, a.path,
					" and ", b.path)
			}
		})
	}},
	{"a segment of another data directory in its place", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		s.each(func(_ int, seg segment) {
			s.try(func(fs *memFS) { fs.files[seg.path] = s.other.files[seg.path] }, seg.path)
		})
	}},
	{"a segment copied under another name", []ending{closed, idle, busy}, refusal, func(s *specimen) {
		s.each(func(_ int, seg segment) {
			for _, first := range []uint64{2, s.last.first - 1, s.last.first + 1, specimenLast, specimenLast + 1,
				specimenLast + 2, 1 << 60} {
				s.try(func(fs *memFS) { fs.put(segmentPath(memDir, first), fs.files[seg.path].data) }, seg.path, " as record ",
					first)
			}
			for _, name := range []string{"x", "1", "00000000000000000000", "99999999999999999999"} {
				s.try(func(fs *memFS) { fs.put(filepath.Join(memDir, name+segmentSuffix), fs.files[seg.path].data) }, seg.path,
					" as ", name)
			}
		})
	}},
	{"an old segment's records behind the end", []ending{closed, idle, busy}, complete, func(s *specimen) {
		for _, old := range s.segments[:len(s.segments)-1] {
			s.try(func(fs *memFS) {
				end := s.at[len(s.at)-1] + recordHeader
				copy(fs.files[s.last.path].data[end:], fs.files[old.path].data[segmentHeader+end%8:])
			}, old.path)
		}
	}},
	{"an old segment's records under a new header", []ending{closed, idle, busy}, complete, func(s *specimen) {
		for _, old := range s.segments {
			s.try(func(fs *memFS) {
				id, _, err := parseHead(old, fs.files[old.path].data, newest)
				require.NoError(s.t, err)
				next := fs.put(segmentPath(memDir, specimenLast+1), fs.files[old.path].data)
				copy(next.data, segmentHead(id, newest, specimenLast+1, specimenBytes))
			}, old.path)
		}
	}},
}

// sectorOf returns the offset of the sector that contains offset at.
func sectorOf(at int) int { return at / sectorBytes * sectorBytes }

func remove(fs *memFS, all []segment) {
	for _, seg := range all {
		delete(fs.files, seg.path)
	}
}

// TestDamage applies all damage of the table, each to its own copy of a journal.
func TestDamage(t *testing.T) {
	budget.SkipRaced(t, "many journals one after the other; other tests write one from many goroutines")
	for _, d := range damages {
		for _, end := range d.endings {
			t.Run(d.name+", "+string(end)+": "+string(d.outcome), func(t *testing.T) {
				s := newSpecimen(t, end, d.outcome)
				d.harm(s)
				require.Positive(t, s.cases)
			})
		}
	}
}
