package door

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// errNoMemory says that a frame waited for memory for as long as a frame may take.
var errNoMemory = errors.New("session: no memory for a frame")

// memory is what all sessions together may take for one purpose, over the little
// that each has for itself. There are four of them, so that nobody waits in a
// circle, and few do behind what has to wait for long:
//
//   - arriving, a quarter: the buffers of large frames that arrive. It is waited for
//     with nothing in hand.
//   - working, three eighths: large frames that are decoded and executed, and large
//     replies until the client has taken them. It is waited for with a frame in hand
//     that has arrived; who holds some of it never waits for more (try).
//   - huge, a quarter: the same for frames that would take more than an eighth of
//     working. They wait for each other only.
//   - recalling, the rest: frames that are executed and whose replies wait for the
//     history. Nobody waits for it: a session that finds none is answered as if alone.
//
// Waiting is in order of arrival. Its methods may be called from any goroutine.
type memory struct {
	max  int64
	free *semaphore.Weighted
	held prometheus.Gauge
}

func newMemory(max int64, held prometheus.Gauge) *memory {
	return &memory{max: max, free: semaphore.NewWeighted(max), held: held}
}

// wait takes n bytes, or all there ever are if those are fewer, as soon as they
// are free. It returns how many it took, which are to be released. The error is
// errNoMemory after the timeout, or ctx's.
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

// try takes n bytes if they are free and nobody waits, and reports whether it did.
func (m *memory) try(n int64) bool {
	if !m.free.TryAcquire(n) {
		return false
	}
	m.held.Add(float64(n))
	return true
}

// release gives back n bytes that were taken; 0 is fine.
func (m *memory) release(n int64) {
	if n > 0 {
		m.free.Release(n)
		m.held.Sub(float64(n))
	}
}
