package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// setVersion sets the version in a segment's header and updates the checksum.
func setVersion(segment []byte, version uint32) {
	binary.LittleEndian.PutUint32(segment[8:], version)
	binary.LittleEndian.PutUint32(segment[60:], crc32.Checksum(segment[:60], castagnoli))
}

func versionOf(segment []byte) uint32 { return binary.LittleEndian.Uint32(segment[8:]) }

// older returns a journal of several segments as written by a program of version 1.
func older(t *testing.T, end ending) *memFS {
	t.Helper()
	fs := grownTo(t, end, specimenLast, Options{Version: newest, SegmentBytes: specimenBytes})
	for _, f := range fs.files {
		if len(f.data) > 0 { // the allocator may have created the next segment and written nothing yet
			setVersion(f.data, 1)
		}
	}
	return fs.clone() // a copy with everything synced
}

func TestANewerSegmentIsRefusedWhereverItIs(t *testing.T) {
	whole := grownTo(t, busy, specimenLast, Options{Version: newest, SegmentBytes: specimenBytes})
	all, err := segments(whole, memDir)
	require.NoError(t, err)
	require.Len(t, all, 4)
	for _, newer := range all {
		for _, torn := range []bool{false, true} {
			fs := whole.clone()
			setVersion(fs.files[newer.path].data, newest+1)
			if torn { // damage that a program of this version would cut or refuse
				for _, s := range all {
					fs.files[s.path].data[len(fs.files[s.path].data)/2] ^= 1
				}
			}
			before := fs.clone()
			_, err := open(fs, memDir, small)
			var refusal *VersionError
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, VersionError{newer.path, newest + 1, newest}, *refusal)
			require.ErrorContains(t, err, fmt.Sprintf("has version %d and this program reads up to version %d", newest+1,
				newest))
			require.Len(t, fs.files, len(before.files))
			for path, f := range before.files {
				require.True(t, bytes.Equal(f.data, fs.files[path].data), "%s is changed", path)
			}
			_, err = scan(fs, memDir, newest, func(record) error { return errors.New("a record is shown") })
			require.ErrorAs(t, err, &refusal)
		}
	}
}

func TestAJournalsVersionIsAskedForWithoutItsRecords(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, CheckVersion(filepath.Join(dir, "missing"), newest))
	require.NoError(t, CheckVersion(dir, newest))
	j := mustOpen(t, dir, small)
	fill(t, j, 50, 200)
	require.NoError(t, j.Close())
	require.NoError(t, CheckVersion(dir, newest))
	all, err := segments(disk{}, dir)
	require.NoError(t, err)
	require.Greater(t, len(all), 2)
	b, err := os.ReadFile(all[1].path)
	require.NoError(t, err)
	setVersion(b, 99)
	require.NoError(t, os.WriteFile(all[1].path, b, 0o600))
	require.ErrorContains(t, CheckVersion(dir, newest),
		filepath.Base(all[1].path)+" has version 99 and this program reads up to")
}

func TestVersionZeroIsDamage(t *testing.T) {
	fs := older(t, closed)
	for _, f := range fs.files {
		setVersion(f.data, 0)
	}
	refused(t, fs, "version 0")
}

func TestAnOlderJournalIsReadAndGoesOnInANewSegment(t *testing.T) {
	for _, end := range []ending{closed, idle, busy} {
		fs := older(t, end)
		require.Equal(t, uint64(specimenLast), readAll(t, fs))
		synctest.Test(t, func(t *testing.T) {
			j, err := open(fs, memDir, Options{Version: newest, SegmentBytes: specimenBytes})
			require.NoError(t, err)
			require.Equal(t, uint64(specimenLast), j.Synced())
			synctest.Wait() // wait until the next segment is made
			all, err := segments(fs, memDir)
			require.NoError(t, err)
			require.Len(t, all, 5)
			for i, s := range all {
				want := uint32(1)
				if i == 4 {
					want = newest
				}
				require.Equal(t, want, versionOf(fs.files[s.path].data), s.path)
				require.Equal(t, want, versionOf(fs.files[s.path].onDisk(func(int) bool { return false })), "%s: synced", s.path)
			}
			fill(t, j, specimenLast+100, 203)
			require.NoError(t, j.Close())
			require.Equal(t, uint64(specimenLast+100), readAll(t, fs))
		})
	}
}

func TestAnOlderJournalsEmptySegmentIsReplaced(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	id := j.ID()
	require.NoError(t, j.Close())
	_, f := lastSegment(t, fs)
	setVersion(f.data, 1)
	j, err = open(fs, memDir, small)
	require.NoError(t, err)
	fill(t, j, 3, 100)
	require.NoError(t, j.Close())
	require.Equal(t, id, j.ID())
	all, err := segments(fs, memDir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.EqualValues(t, newest, versionOf(fs.files[all[0].path].data))
	require.Equal(t, uint64(3), readAll(t, fs))
}

func TestAnOlderJournalOnAFullDiskIsLeftAsItIs(t *testing.T) {
	fs := older(t, closed)
	fs.setRoom(0)
	_, err := open(fs, memDir, small)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "make a segment of version")
	fs.setRoom(-1)
	requireUsable(t, fs, specimenLast, "with room again")
}

// TestACrashWhileAnOlderJournalIsTakenOverLosesNothing interrupts the first session of a newer program at
// each of its steps.
func TestACrashWhileAnOlderJournalIsTakenOverLosesNothing(t *testing.T) {
	budget.SkipRaced(t, "many journals one after the other; other tests write one from many goroutines")
	const seed, records, variants = 13, 12, 4
	t.Logf("seed %d", seed)
	for _, end := range []ending{closed, busy} {
		base := older(t, end)
		synctest.Test(t, func(t *testing.T) {
			whole := base.clone()
			_, err := session(whole, seed, records)
			require.NoError(t, err)
			for at := 1; at <= whole.calls; at++ {
				fs := base.clone()
				fs.failFrom(at)
				promised, err := session(fs, seed, records)
				require.Truef(t, err == nil || errors.Is(err, errPower), "step %d: %v", at, err)
				survives(t, fs, max(promised, specimenLast), variants, fmt.Sprintf("step %d", at))
			}
		})
	}
}
