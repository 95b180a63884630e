package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTheNewestRecordIsKnownWhileTheJournalIsInUse calls Newest after each of many records in several
// segments.
func TestTheNewestRecordIsKnownWhileTheJournalIsInUse(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Newest(filepath.Join(dir, "none"), newest)
	require.ErrorContains(t, err, "no journal in")
	_, _, err = Newest(dir, newest)
	require.ErrorContains(t, err, "no journal in")
	j, err := Open(dir, Options{Version: newest, SegmentBytes: 1 << 12, FirstSeq: 41})
	require.NoError(t, err)
	id, seq, err := Newest(dir, newest)
	require.NoError(t, err)
	require.Equal(t, j.ID(), id)
	require.Equal(t, uint64(40), seq)
	for range 100 {
		last, err := j.Append(make([]byte, 500))
		require.NoError(t, err)
		require.NoError(t, j.Wait(t.Context(), last))
		_, seq, err = Newest(dir, newest)
		require.NoError(t, err)
		require.Equal(t, last, seq)
	}
	require.Greater(t, j.SegmentCount(), 5)
	require.NoError(t, j.Close())
	_, seq, err = Newest(dir, newest)
	require.NoError(t, err)
	require.Equal(t, uint64(140), seq)
}

// TestACopyIsAnotherJournalWithTheSameRecords copies several segments.
func TestACopyIsAnotherJournalWithTheSameRecords(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
	j, err := Open(from, Options{Version: newest, SegmentBytes: 1 << 12})
	require.NoError(t, err)
	for i := range 30 {
		_, err := j.Append(fmt.Appendf(nil, "%500d", i))
		require.NoError(t, err)
	}
	require.NoError(t, j.Close())
	records := func(dir string) (all []string, s Summary) {
		s, err := Inspect(dir, newest, func(seq uint64, payload []byte) error {
			all = append(all, fmt.Sprint(seq, string(payload)))
			return nil
		})
		require.NoError(t, err)
		return all, s
	}
	id := [16]byte{1, 2, 3}
	require.NoError(t, Copy(from, to, id))
	want, original := records(from)
	got, copied := records(to)
	require.Equal(t, want, got)
	require.Len(t, got, 30)
	require.Equal(t, id, copied.ID)
	require.Equal(t, j.ID(), original.ID)
	require.Equal(t, original.Segments, copied.Segments)
	require.ErrorIs(t, Copy(from, to, id), os.ErrExist)

	j, err = Open(to, Options{Version: newest, SegmentBytes: 1 << 12})
	require.NoError(t, err)
	require.Equal(t, uint64(30), j.Appended())
	require.Equal(t, id, j.ID())
	require.NoError(t, j.Close())
}

func TestADirectoryThatIsOnlyReadIsLockedWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	reading, err := LockToRead(dir)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "LOCK"))
	require.NoError(t, reading.Unlock())

	writing, err := Lock(dir)
	require.NoError(t, err)
	_, err = LockToRead(dir)
	require.ErrorIs(t, err, ErrInUse)
	require.EqualError(t, err, "journal: "+dir+" is in use by another process")
	require.NoError(t, writing.Unlock())
	reading, err = LockToRead(dir)
	require.NoError(t, err)
	another, err := LockToRead(dir)
	require.NoError(t, err, "readers do not keep each other out")
	require.NoError(t, another.Unlock())
	_, err = Lock(dir)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, reading.Unlock())
	writing, err = Lock(dir)
	require.NoError(t, err)
	require.NoError(t, writing.Unlock())
}

// A child process that is being started holds a copy of every descriptor until it calls exec. This
// test imitates that with a duplicate descriptor.
func TestADirectoryIsFreeAlthoughAProcessIsBeingStarted(t *testing.T) {
	dir := t.TempDir()
	for _, take := range []func(string) (*DirLock, error){Lock, LockToRead} {
		held, err := take(dir)
		require.NoError(t, err)
		started, err := unix.FcntlInt(held.f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(started)
		require.NoError(t, held.Unlock())
		free, err := Lock(dir)
		require.NoError(t, err)
		require.NoError(t, free.Unlock())
	}
}
