package journal

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// scarceFS is a memFS. While its field none is set, the process is at its limit of open files: no file can
// be opened, and no directory synced, because a sync opens the directory.
type scarceFS struct {
	*memFS
	none atomic.Pointer[syscall.Errno]
}

func (s *scarceFS) open(path string, flag int) (file, error) {
	if err := s.none.Load(); err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: *err}
	}
	return s.memFS.open(path, flag)
}

func (s *scarceFS) syncDir(dir string) error {
	if err := s.none.Load(); err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: *err}
	}
	return s.memFS.syncDir(dir)
}

// withoutDescriptors runs f for both errors that say that no file can be opened, EMFILE and ENFILE.
func withoutDescriptors(t *testing.T, f func(t *testing.T, fs *scarceFS, j *Journal, lack *syscall.Errno)) {
	for _, lack := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
		bubble(t, func(t *testing.T, mem *memFS) {
			fs := &scarceFS{memFS: mem}
			j, err := open(fs, memDir, small)
			require.NoError(t, err)
			f(t, fs, j, &lack)
			require.NotErrorIs(t, j.Err(), ErrFailed)
			require.NoError(t, j.Close())
		})
	}
}

func TestALackOfDescriptorsIsNoFailure(t *testing.T) {
	withoutDescriptors(t, func(t *testing.T, fs *scarceFS, j *Journal, lack *syscall.Errno) {
		synctest.Wait() // the next segment is ready, so only the directory must be opened
		fs.none.Store(lack)
		for range 20 {
			_, err := j.Append(payload(j.Appended()+1, 500))
			require.NoError(t, err)
		}
		last := j.Appended()
		patience, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		require.ErrorIs(t, j.Wait(patience, last), context.DeadlineExceeded)
		require.ErrorIs(t, j.Room(), ErrNoRoom)
		require.ErrorIs(t, j.Room(), *lack)
		require.ErrorIs(t, j.Claim(1), ErrNoRoom, "orders are refused")

		fs.none.Store(nil)
		require.NoError(t, j.Wait(background, last))
		require.NoError(t, j.Claim(1))
		for range 200 {
			require.NoError(t, claimed(t, j, j.Claim, 100))
		}
		require.Greater(t, j.SegmentCount(), 3)
		require.NoError(t, j.Close())
		require.Equal(t, last+200, readAll(t, fs.memFS))
	})
}

// TestASyncOfTheDirectoryIsNeverRepeated: after a failed sync, the kernel may have dropped the unwritten
// pages.
func TestASyncOfTheDirectoryIsNeverRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		synctest.Wait()
		syncs := 0
		fs.failOnly(func(_ int, op string) error {
			if op == "syncDir" {
				if syncs++; syncs == 1 {
					return syscall.ENOSPC
				}
			}
			return nil
		})
		for range 20 {
			if _, err := j.Append(payload(j.Appended()+1, 500)); err != nil {
				break
			}
		}
		<-j.Failed()
		require.ErrorIs(t, j.Err(), ErrFailed)
		require.Equal(t, 1, syncs)
		require.Error(t, j.Close())
	})
}

func TestAReaderWaitsForADescriptor(t *testing.T) {
	withoutDescriptors(t, func(t *testing.T, fs *scarceFS, j *Journal, lack *syscall.Errno) {
		r, err := j.NewReader(1)
		require.NoError(t, err)
		defer r.Close()
		for range 100 {
			require.NoError(t, claimed(t, j, j.Claim, 100))
		}
		require.Greater(t, j.SegmentCount(), 2)
		fs.none.Store(lack)
		_, _, ok, err := r.TryNext()
		require.NoError(t, err)
		require.False(t, ok)
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		_, _, err = r.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "not the lack of descriptors")
		read := uint64(0)
		for read < 100 {
			fs.none.Store(nil)
			if read%2 == 0 { // covers transitions between segments as well
				fs.none.Store(lack)
				time.AfterFunc(time.Minute, func() { fs.none.Store(nil) })
			}
			seq, record, err := r.Next(background)
			require.NoError(t, err)
			require.Equal(t, read+1, seq)
			require.Equal(t, payload(seq, 100), record)
			read = seq
		}
	})
}

func TestAReaderThatWaitsForADescriptorEndsWithTheJournal(t *testing.T) {
	withoutDescriptors(t, func(t *testing.T, fs *scarceFS, j *Journal, lack *syscall.Errno) {
		r, err := j.NewReader(1)
		require.NoError(t, err)
		defer r.Close()
		require.NoError(t, claimed(t, j, j.Claim, 100))
		fs.none.Store(lack)
		ended := make(chan error, 1)
		go func() {
			_, _, err := r.Next(background)
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, j.Close())
		require.ErrorIs(t, <-ended, ErrClosed)
	})
}

// TestDeletionGoesOnWhenThereIsADescriptor: RemoveBefore syncs each deletion before the next one, even if
// it needs several calls because no file can be opened.
func TestDeletionGoesOnWhenThereIsADescriptor(t *testing.T) {
	withoutDescriptors(t, func(t *testing.T, fs *scarceFS, j *Journal, lack *syscall.Errno) {
		for range 200 {
			require.NoError(t, claimed(t, j, j.Claim, 100))
		}
		synctest.Wait()
		before := j.SegmentCount()
		require.Greater(t, before, 4)
		fs.none.Store(lack)
		for range 5 {
			require.NoError(t, j.RemoveBefore(j.Synced()))
		}
		require.Equal(t, before-1, j.SegmentCount(), "one is deleted, and that is not synced")
		fs.none.Store(nil)
		require.NoError(t, j.RemoveBefore(j.Synced()))
		require.Less(t, j.SegmentCount(), 4)
	})
}
