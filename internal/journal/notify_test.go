package journal

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNotifyTellsOfTheSyncThatCoversARecord(t *testing.T) {
	j, gate := gated(t)
	first, err := j.Append([]byte("one"))
	require.NoError(t, err)
	taken := func() bool { // whether the first record's batch is being written
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.writing != nil
	}
	require.Eventually(t, taken, time.Minute, time.Millisecond)
	second, err := j.Append([]byte("two"))
	require.NoError(t, err)
	one, two := make(chan struct{}, 1), make(chan struct{}, 1)
	j.Notify(second, two)
	j.Notify(first, one)
	require.Empty(t, one)
	gate <- struct{}{}
	<-one
	require.Equal(t, first, j.Synced())
	require.Empty(t, two)
	gate <- struct{}{}
	<-two
	require.Equal(t, second, j.Synced())
	j.Notify(second, one)
	require.Len(t, one, 1, "it is synced already")
	j.Notify(second, one) // the channel is full, and Notify must not block
	close(gate)
}

func TestNotifyTellsOfTheEnd(t *testing.T) {
	t.Run("close", func(t *testing.T) {
		j := mustOpen(t, t.TempDir(), small)
		wake := make(chan struct{}, 1)
		j.Notify(7, wake)
		require.NoError(t, j.Close())
		<-wake
		require.ErrorIs(t, j.Wait(background, 7), ErrClosed)
		j.Notify(7, wake)
		<-wake
	})
	t.Run("failure", func(t *testing.T) {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			fs.failOnly(func(_ int, op string) error {
				if op == "sync" {
					return errors.New("the disk is gone")
				}
				return nil
			})
			seq, err := j.Append([]byte("lost"))
			require.NoError(t, err)
			now, later := make(chan struct{}, 1), make(chan struct{}, 1)
			j.Notify(seq, now)
			j.Notify(seq+1, later)
			<-now
			<-later
			require.ErrorIs(t, j.Wait(background, seq), ErrFailed)
			_ = j.Close()
		})
	})
}
