package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/durabletest"
)

// The tests in this file use the real disk and observe which files are synced, and when. All other tests
// use a file system in memory, which cannot show that.

// has reports whether the contents of a file include what.
func has(t testing.TB, path string, what []byte) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	assert.NoError(t, err)
	return bytes.Contains(b, what)
}

// TestARecordIsOnTheDiskBeforeItsWaitEnds: Wait returns only after a sync of the segment with the record.
func TestARecordIsOnTheDiskBeforeItsWaitEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	segment := segmentPath(dir, 1)
	record := []byte("the record that somebody waits for")
	var with atomic.Int64 // number of syncs of the segment while it contained the record
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		if s.Path == segment && has(t, segment, record) {
			with.Add(1)
		}
		return nil
	})
	j := mustOpen(t, dir, small)
	for n := range int64(5) {
		before := with.Load()
		seq, err := j.Append(record)
		require.NoError(t, err)
		require.NoError(t, j.Wait(background, seq))
		require.Greater(t, with.Load(), before, "sync %d: %v", n, w.Seen())
	}
	require.NoError(t, j.Close())
	for _, s := range w.Seen() {
		require.Equal(t, filepath.Ext(s.Path) != "", s.Data, "a segment has its size already: %v", s)
	}
}

// TestASegmentHasItsNameBeforeItsRecords: the directory is synced with the segment's name in it before a
// record is written to the segment. New directories are synced too.
func TestASegmentHasItsNameBeforeItsRecords(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "data", "journal")
	named := map[string]bool{} // names in the directory at its last sync
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		switch {
		case s.Path == top:
			assert.DirExists(t, filepath.Dir(dir))
		case s.Path == filepath.Dir(dir):
			assert.DirExists(t, dir)
		case s.Path == dir:
			all, err := segments(disk{}, dir)
			assert.NoError(t, err)
			for _, s := range all {
				named[s.path] = true
			}
		case filepath.Ext(s.Path) == segmentSuffix && has(t, s.Path, []byte("record ")):
			assert.True(t, named[s.Path], "%s has records", s.Path)
		}
		return nil
	})
	j := mustOpen(t, dir, small)
	require.Equal(t, []string{top, filepath.Dir(dir)}, w.Paths()[:2], "the directories that were made")
	fill(t, j, 100, 300)
	require.Greater(t, j.SegmentCount(), 5)
	require.NoError(t, j.Close())
	require.Len(t, named, j.SegmentCount())
}

// TestAFailedSyncOfTheRealDiskIsFinal covers failed syncs of the segment and of the directory.
func TestAFailedSyncOfTheRealDiskIsFinal(t *testing.T) {
	for _, ext := range []string{segmentSuffix, ""} {
		var broken atomic.Bool
		durabletest.Watch(t, func(s durabletest.Sync) error {
			if broken.Load() && filepath.Ext(s.Path) == ext {
				return syscall.EIO
			}
			return nil
		})
		j, err := Open(filepath.Join(t.TempDir(), "journal"), small)
		require.NoError(t, err)
		fill(t, j, 3, 100)
		broken.Store(true)
		for n := 0; err == nil && n < 100; n++ { // enough records for several segments
			var seq uint64
			if seq, err = j.Append(payload(j.Appended()+1, 1000)); err == nil {
				err = j.Wait(background, seq)
			}
		}
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorIs(t, j.Close(), ErrFailed)
	}
}

// TestDeletedSegmentsAreSyncedOneByOne: RemoveBefore syncs each deletion before the next one, so that a
// power cut leaves no gap.
func TestDeletedSegmentsAreSyncedOneByOne(t *testing.T) {
	dir, removing, left := t.TempDir(), atomic.Bool{}, 0
	durabletest.Watch(t, func(s durabletest.Sync) error {
		if removing.Load() && s.Path == dir {
			left--
			all, err := segments(disk{}, dir)
			assert.NoError(t, err)
			assert.Len(t, all, left)
		}
		return nil
	})
	j := mustOpen(t, dir, small)
	fill(t, j, 100, 300)
	all := j.SegmentCount()
	left = all
	removing.Store(true)
	require.NoError(t, j.RemoveBefore(90))
	require.Equal(t, left, j.SegmentCount())
	require.Less(t, left, all-5)
	removing.Store(false)
	require.NoError(t, j.Close())
}

// TestACopyAndWhatIsSetAsideAreDurable: Copy syncs each file with all its contents and then the
// directory; SetAside syncs both directories after each move.
func TestACopyAndWhatIsSetAsideAreDurable(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 30, 300)
	require.NoError(t, j.Close())
	all, err := segments(disk{}, dir)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "restored", "journal")
	var want []string
	for _, s := range all {
		want = append(want, filepath.Join(to, filepath.Base(s.path)))
	}
	want = append([]string{filepath.Dir(filepath.Dir(to)), filepath.Dir(to)}, append(want, to)...)
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		if filepath.Ext(s.Path) == segmentSuffix {
			info, err := os.Stat(s.Path)
			assert.NoError(t, err)
			assert.Equal(t, small.SegmentBytes, info.Size())
		}
		return nil
	})
	require.NoError(t, Copy(dir, to, [16]byte{1}))
	require.Equal(t, want, w.Paths())

	want = nil
	for range all {
		want = append(want, filepath.Join(to, "aside"), to)
	}
	w = durabletest.Watch(t, nil)
	require.NoError(t, SetAside(to, "aside"))
	require.Equal(t, want, w.Paths())
}

// TestAFailedSyncOfACopyIsAnError covers failed syncs of a file and of the directory.
func TestAFailedSyncOfACopyIsAnError(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 3, 300)
	require.NoError(t, j.Close())
	broken := errors.New("the disk is broken")
	syncs := 1 << 10
	for n := 0; n < syncs; n++ {
		seen := 0
		w := durabletest.Watch(t, func(durabletest.Sync) error {
			if seen++; seen > n {
				return broken
			}
			return nil
		})
		err := Copy(dir, filepath.Join(t.TempDir(), "copy"), [16]byte{1})
		if len(w.Seen()) > n {
			require.ErrorIs(t, err, broken)
			continue
		}
		require.NoError(t, err)
		syncs = n
	}
	require.Equal(t, 3, syncs, "the directory's own name, the segment, and its name")
}
