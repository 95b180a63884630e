package journal

import (
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// TestAnAppendGoesOnAsSoonAsItsBatchIsTaken: an Append that waits for memory returns as soon as the flusher
// takes the full batch, even before the batch is synced.
func TestAnAppendGoesOnAsSoonAsItsBatchIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j, err := open(fs, memDir, Options{Version: newest, SegmentBytes: 1 << 20, PendingBytesMax: 1000})
		require.NoError(t, err)
		gate := make(chan struct{})
		fs.mu.Lock()
		fs.files[segmentPath(memDir, 1)].gate = gate
		fs.mu.Unlock()
		for seq := uint64(1); seq <= 2; seq++ {
			_, err := j.Append(payload(seq, 900))
			require.NoError(t, err)
			synctest.Wait() // the first record is being synced; the second fills the memory
		}
		appended := make(chan error, 1)
		go func() { _, err := j.Append(payload(3, 900)); appended <- err }()
		synctest.Wait()
		require.Empty(t, appended)
		gate <- struct{}{}
		synctest.Wait()
		require.Len(t, appended, 1, "the second is taken, and not synced yet")
		require.Equal(t, uint64(1), j.Synced())
		close(gate)
		require.NoError(t, j.Close())
	})
}

// TestAFailureEndsWhatWaitsForMemory: an Append that waits for memory returns when a sync fails.
func TestAFailureEndsWhatWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j, err := open(fs, memDir, Options{Version: newest, SegmentBytes: 1 << 20, PendingBytesMax: 1000})
		require.NoError(t, err)
		gate := make(chan struct{})
		fs.mu.Lock()
		fs.files[segmentPath(memDir, 1)].gate = gate
		fs.mu.Unlock()
		for seq := uint64(1); seq <= 2; seq++ {
			_, err := j.Append(payload(seq, 900))
			require.NoError(t, err)
			synctest.Wait()
		}
		appended := make(chan error, 1)
		go func() { _, err := j.Append(payload(3, 900)); appended <- err }()
		synctest.Wait()
		require.Empty(t, appended)
		fs.failFrom(1)
		close(gate)
		synctest.Wait()
		require.Len(t, appended, 1)
		require.ErrorIs(t, <-appended, ErrFailed)
		require.ErrorIs(t, j.Close(), ErrFailed)
	})
}

// unclosable is a disk on which closing a file fails.
type unclosable struct{ *memFS }

type unclosableFile struct{ file }

func (unclosableFile) Close() error { return syscall.EIO }

func (u unclosable) open(path string, flag int) (file, error) {
	f, err := u.memFS.open(path, flag)
	return unclosableFile{f}, err
}

func TestCloseSaysWhatCouldNotBeClosed(t *testing.T) {
	budget.SkipRaced(t, "many journals one after the other; other tests write one from many goroutines")
	synctest.Test(t, func(t *testing.T) {
		j, err := open(unclosable{newMemFS()}, memDir, Options{Version: newest})
		require.NoError(t, err)
		require.ErrorIs(t, j.Close(), syscall.EIO)
	})
}

// TestASegmentIsSyncedAheadOfItsUse: the zeros of a segment are synced before the segment is renamed or written to, so
// that no record waits for them.
func TestASegmentIsSyncedAheadOfItsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j := mustOpenMem(t, fs, Options{Version: newest, SegmentBytes: 2*zeroChunk + 100})
		fs.mu.Lock()
		ahead := fs.files[memDir+"/next-0"+spareSuffix]
		fs.mu.Unlock()
		require.NotNil(t, ahead)
		require.Len(t, ahead.safe, 2*zeroChunk+100)
		require.Empty(t, ahead.dirty)
		require.NoError(t, j.Close())
	})
}

// TestARefusedAppendUsesItsClaimUp: AppendClaimed releases the claim even if it returns an error.
func TestARefusedAppendUsesItsClaimUp(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	before := j.RoomBytes()
	require.NoError(t, j.Claim(100))
	require.Less(t, j.RoomBytes(), before)
	_, err := j.AppendClaimed(nil, 100)
	require.Error(t, err)
	j.mu.Lock()
	charged := j.room.charged
	j.mu.Unlock()
	require.Zero(t, charged)
}
