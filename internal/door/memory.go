package door

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// errNoMemory is the error of a frame that waited FrameTimeout for memory.
var errNoMemory = errors.New("session: no memory for a frame")

// memory is a pool that all sessions share for one purpose, beyond the small buffers that each session has.
// There are four pools, so that waits cannot form a cycle, and so that few requests queue after one that
// waits for long:
//
//   - arriving, a quarter of MemoryMax: the buffers of large frames that arrive. A session waits for this
//     memory while it holds nothing else.
//   - working, three eighths: large frames that are decoded and executed, and large replies until the
//     client has read them. A session waits for this memory while it holds a complete frame. A holder of
//     working memory never waits for more (try).
//   - huge, a quarter: like working, for frames that would need more than an eighth of working. So these
//     frames wait only for each other.
//   - recalling, the rest: frames that are executed and whose replies wait for the history. A session with
//     no batch in its queue does not wait for this memory: the reader then answers the batch itself.
//
// Waiters are served in order of arrival. The methods may be called from any goroutine.
type memory struct {
	max  int64
	free *semaphore.Weighted
	held prometheus.Gauge
}

func newMemory(max int64, held prometheus.Gauge) *memory {
	return &memory{max: max, free: semaphore.NewWeighted(max), held: held}
}

// wait reserves n bytes, or the whole pool if that is smaller, as soon as they are free. It returns how many
// bytes it reserved; the caller releases them. The error is errNoMemory after the timeout, or ctx's.
func (m *memory) wait(ctx context.Context, n int, timeout time.Duration) (held int64, err error) {
	held = min(int64(n), m.max)
	if !m.free.TryAcquire(held) {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoMemory)
		defer cancel()
		if m.free.Acquire(ctx, held) != nil {
			return 0, context.Cause(ctx)
		}
	}
	m.held.Add(float64(held))
	return held, nil
}

// try reserves n bytes if they are free and no caller waits. It reports whether it did.
func (m *memory) try(n int64) bool {
	if !m.free.TryAcquire(n) {
		return false
	}
	m.held.Add(float64(n))
	return true
}

// release returns n reserved bytes to the pool; n may be 0.
func (m *memory) release(n int64) {
	if n > 0 {
		m.free.Release(n)
		m.held.Sub(float64(n))
	}
}

// textNoMemory is the error for a large frame that was not executed because no memory was free.
func textNoMemory(waited time.Duration) string {
	return fmt.Sprintf("the exchange had no memory for a frame of this size for %s; try again later, or with smaller "+
		"frames", waited)
}
