package journal

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// ending is how the process that wrote a journal ended.
type ending string

const (
	closed ending = "closed in order"
	idle   ending = "killed while nothing came" // killed after the journal was idle for longer than idleMark
	busy   ending = "killed while records came"
)

// grown returns a journal of several segments with 60 records in 60 batches, as it is on disk after its
// process has ended.
func grown(t *testing.T, end ending) *memFS {
	t.Helper()
	return grownTo(t, end, 60, small)
}

func grownTo(t *testing.T, end ending, last uint64, o Options) (fs *memFS) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		live := newMemFS()
		j, err := open(live, memDir, o)
		require.NoError(t, err)
		time.Sleep(2 * idleMark) // an idle period before the first record, to write an early mark
		for range last {
			fill(t, j, j.Appended()+1, 203)
		}
		if end == idle {
			time.Sleep(idleMark)
			synctest.Wait()
		}
		if fs = live.clone(); end == closed {
			fs = live
		}
		require.NoError(t, j.Close())
	})
	return fs
}

// refused requires that Open returns a DamageError with file and offset, and that it changes nothing.
func refused(t *testing.T, fs *memFS, what string, args ...any) {
	t.Helper()
	before := fs.clone()
	j, err := open(fs, memDir, small)
	if err == nil {
		j.Close()
	}
	var damage *DamageError
	require.ErrorAs(t, err, &damage, fmt.Sprintf(what, args...))
	require.Contains(t, err.Error(), damage.File)
	require.Contains(t, err.Error(), fmt.Sprintf("offset %d", damage.Offset))
	require.Equal(t, len(before.files), len(fs.files))
	for path, f := range before.files {
		require.Equal(t, f.data, fs.files[path].data, path)
	}
}

func lastSegment(t *testing.T, fs *memFS) (segment, *memFile) {
	t.Helper()
	all, err := segments(fs, memDir)
	require.NoError(t, err)
	s := all[len(all)-1]
	fs.mu.Lock() // the allocator may be making a spare
	defer fs.mu.Unlock()
	return s, fs.files[s.path]
}

// records returns the offsets of the records in a segment, and the offset after the last one.
func records(t *testing.T, s segment, b []byte) (at []int) {
	t.Helper()
	end, _, err := walk(b, segmentHeader, s.first, func(r record) error {
		at = append(at, r.at)
		return nil
	})
	require.NoError(t, err)
	return append(at, end)
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	budget.SkipRaced(t, "many journals one after the other; other tests write one from many goroutines")
	for _, end := range []ending{closed, idle, busy} {
		fs := grown(t, end)
		s, f := lastSegment(t, fs)
		at := records(t, s, f.data)
		require.Greater(t, len(at), 3)
		sure := at[len(at)-1] // damage before this offset must be detected, because the end mark covers all records
		if end == busy {
			sure = at[len(at)-2] // without an end mark, the last record covers only earlier records
		}
		for i := range at[len(at)-1] {
			one := fs.clone()
			one.files[s.path].data[i] ^= 0x10
			if i < 8 || i >= 12 && i < sure {
				refused(t, one, "byte %d", i)
			} else if i >= 12 {
				requireUsable(t, one, 59, "byte %d: the last record is cut, as a torn one would be", i)
			}
		}
	}
}

func TestDamagedEndMarkCostsNothing(t *testing.T) {
	fs := grown(t, closed)
	s, f := lastSegment(t, fs)
	at := records(t, s, f.data)
	for i := range recordHeader {
		one := fs.clone()
		one.files[s.path].data[at[len(at)-1]+i] ^= 0x10
		requireUsable(t, one, 60, "byte %d", i)
	}
}

func TestEndMarkOutlivesAnIdleProcess(t *testing.T) {
	fs := grown(t, closed)
	s, f := lastSegment(t, fs)
	at := records(t, s, f.data)
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	killed := fs.clone()
	require.NoError(t, j.Close())
	killed.files[s.path].data[at[len(at)-2]+30] ^= 1
	refused(t, killed, "the last record")
}

// TestEndMarkHasRoomInAnySegment closes journals whose last record ends at various offsets near the end of
// the segment, damages that record, and requires that Open refuses it.
func TestEndMarkHasRoomInAnySegment(t *testing.T) {
	for size := 4096 - segmentHeader - 3*recordHeader; size < 4096; size += 4 {
		fs := newMemFS()
		j, err := open(fs, memDir, small)
		require.NoError(t, err)
		fill(t, j, 1, size)
		require.NoError(t, j.Close())
		s, f := lastSegment(t, fs)
		f.data[records(t, s, f.data)[0]+recordHeader] ^= 1
		refused(t, fs, "%d bytes", size)
	}
}

// TestTornBatchIsCut leaves any part of an unacknowledged batch on the disk, including parts without its
// front.
func TestTornBatchIsCut(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	fill(t, j, 5, 100)
	before := fs.clone()
	require.NoError(t, j.Close())
	s, f := lastSegment(t, before)
	at := records(t, s, f.data)
	from := at[len(at)-1]
	var batch []byte
	for seq := uint64(6); seq <= 8; seq++ {
		batch = appendRecord(batch, seq, 5, payload(seq, 100))
	}
	for n := range len(batch) + 1 {
		for missing := -1; missing < n; missing += 50 {
			torn := before.clone()
			f := torn.files[s.path]
			copy(f.data[from:], batch[:n])
			if missing >= 0 {
				clear(f.data[from+missing : from+min(missing+30, n)])
			}
			j, err := open(torn, memDir, small)
			require.NoErrorf(t, err, "%d bytes, without 30 at %d", n, missing)
			synced, end := j.Synced(), int(j.at)
			require.GreaterOrEqual(t, synced, uint64(5))
			require.LessOrEqual(t, synced, 5+uint64((n+recordAlign)/(len(batch)/3)))
			require.Equal(t, make([]byte, len(f.data)-end), f.data[end:], "zeros follow the last record")
			require.NoError(t, j.Close())
		}
	}
}

func TestAnyPrefixReplays(t *testing.T) {
	fs := grown(t, busy)
	s, f := lastSegment(t, fs)
	next := s.first
	for _, at := range records(t, s, f.data) {
		prefix := fs.clone()
		clear(prefix.files[s.path].data[at:])
		requireUsable(t, prefix, next-1, "up to %d", at)
		next++
	}
}

// staleFS returns old contents for a part of one file on its first read, as if the read had overlapped
// with a write.
type staleFS struct {
	*memFS
	path string
	from int // offset at which the zeros begin
	to   int // offset at which the zeros end
}

type staleFile struct {
	file
	fs *staleFS
}

func (s *staleFS) open(path string, flag int) (file, error) {
	f, err := s.memFS.open(path, flag)
	if path == s.path {
		f = staleFile{f, s}
	}
	return f, err
}

func (f staleFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(p, off)
	if len(p) == segmentHeader { // a read of the header, which is never stale
		return n, err
	}
	clear(p[f.fs.from:f.fs.to])
	f.fs.from, f.fs.to = 0, 0
	return n, err
}

func TestScanOfAJournalInUseIsNotMisled(t *testing.T) {
	fs := grown(t, busy)
	s, f := lastSegment(t, fs)
	at := records(t, s, f.data)
	for i := range at[:len(at)-1] {
		last := uint64(0)
		_, err := scan(&staleFS{fs, s.path, at[i], at[i+1]}, memDir, newest, func(r record) error {
			require.Equal(t, last+1, r.seq)
			last = r.seq
			return nil
		})
		require.NoError(t, err)
		if i < len(at)-2 {
			require.Equal(t, uint64(60), last)
		}
	}
}

// goneFS deletes the oldest segment after the directory was listed and before the segment is read.
type goneFS struct{ *memFS }

func (g goneFS) open(path string, flag int) (file, error) {
	if path == segmentPath(memDir, 1) {
		return nil, os.ErrNotExist
	}
	return g.memFS.open(path, flag)
}

func TestScanGoesOnWhereOldSegmentsAreDeletedMeanwhile(t *testing.T) {
	first, last := uint64(0), uint64(0)
	_, err := scan(goneFS{grown(t, busy)}, memDir, newest, func(r record) error {
		if first == 0 {
			first = r.seq
		}
		last = r.seq
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, first, uint64(1))
	require.Equal(t, uint64(60), last)
}
