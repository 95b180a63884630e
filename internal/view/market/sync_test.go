package market

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
)

// syncing is a journal that syncs each record when a test adds it.
type syncing struct {
	mu    sync.Mutex
	all   [][]byte
	next  int
	wakes []chan<- struct{}
}

func (j *syncing) TryNext() (uint64, []byte, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.next == len(j.all) {
		return 0, nil, false, nil
	}
	j.next++
	return uint64(j.next), j.all[j.next-1], true, nil
}

func (j *syncing) Close() {}

// Notify does what the Notify of a journal does.
func (j *syncing) Notify(seq uint64, wake chan<- struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if uint64(len(j.all)) >= seq {
		wake <- struct{}{}
		return
	}
	j.wakes = append(j.wakes, wake)
}

// add adds a record.
func (j *syncing) add(record []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, record)
	for _, wake := range j.wakes {
		wake <- struct{}{}
	}
	j.wakes = nil
}

// TestARecordComesAsItIsSynced: with a fake clock, a listener and a waiting caller get a record at the time of its
// sync, and do not wait for the next poll.
func TestARecordComesAsItIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &syncing{all: [][]byte{made}}
		f := NewFeed(Options{Records: trailtest.Follow(source, 0, source.Notify),
			Log: slog.New(slog.DiscardHandler)}, &Snapshot{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		require.NoError(t, f.Await(ctx, 1))

		begun := time.Now()
		waited := make(chan time.Duration, 1)
		go func() {
			if f.Await(ctx, 2) == nil {
				waited <- time.Since(begun)
			}
		}()
		time.Sleep(7 * time.Millisecond)
		source.add(placed(1, exchange.Sell, 5, 7))
		require.Equal(t, 7*time.Millisecond, <-waited)

		w := newBookTwin(t, "S")
		_, err := f.Listen("S", w, w.begin)
		require.NoError(t, err)
		time.Sleep(time.Second + 3*time.Millisecond)
		source.add(placed(2, exchange.Sell, 5, 8))
		synctest.Wait()
		require.Equal(t, uint64(3), w.seq, "without a moment more")
		require.False(t, w.unflushed)
		cancel()
		running.Wait()
	})
}
