package gateway

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"outcry/internal/exchange"
)

// What frames and replies take is bounded for all connections together.
//
// Small ones are free: a connection may have freeBytes of a frame and as much of
// replies that it has not taken, the number of connections is bounded, and so is
// the number of batches that are decoded and executed at a time (enter).
//
// Large ones share a budget. Whoever reads a large frame waits until there is
// memory for it. A reply that grows never waits, since its session may hold memory
// already, and two of these could wait for each other: where there is none, its
// queries are refused.
const (
	// freeBytes is what a frame or a reply takes without asking.
	freeBytes = 64 << 10

	// frameWeight is how many bytes a frame takes for each of its own, from its
	// first byte until its replies are encoded: buffer, elements, commands, results.
	// Measured: 11 for orders, 27 for queries, 36 for the shortest elements.
	frameWeight = 32

	// answerBytes and executionBytes are the most that an answer takes in a reply,
	// apart from what it repeats of the request, and each execution in it.
	answerBytes    = 160
	executionBytes = 112
)

// memory is a budget of bytes that all sessions share.
type memory struct {
	budget *semaphore.Weighted // first come, first served
	max    int64
	used   atomic.Int64
	gauge  prometheus.Gauge // shows used
}

func newMemory(max int64, gauge prometheus.Gauge) *memory {
	return &memory{budget: semaphore.NewWeighted(max), max: max, gauge: gauge}
}

// take notes that n bytes were taken, or given back where n is negative.
func (m *memory) take(n int64) {
	m.used.Add(n)
	m.gauge.Add(float64(n))
}

// acquire waits for n bytes, or for all there are where n is more, and returns how
// many it took. The error is ctx's.
func (m *memory) acquire(ctx context.Context, n int64) (int64, error) {
	n = min(n, m.max)
	if err := m.budget.Acquire(ctx, n); err != nil {
		return 0, err
	}
	m.take(n)
	return n, nil
}

// try takes n bytes if they are there.
func (m *memory) try(n int64) bool {
	if !m.budget.TryAcquire(n) {
		return false
	}
	m.take(n)
	return true
}

func (m *memory) release(n int64) {
	if n > 0 {
		m.take(-n)
		m.budget.Release(n)
	}
}

// enter waits until a batch may be decoded and executed. It returns false when ctx
// ends first; otherwise leave is due, before anything waits for a client.
func (s *Server) enter(ctx context.Context) bool {
	select {
	case s.underWay <- struct{}{}:
		return true
	default:
	}
	s.options.Metrics.hit(limitBatches)
	select {
	case s.underWay <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) leave() { <-s.underWay }

// busyError says that there was no memory for a frame. Its text is for the client.
type busyError struct{ text string }

func (e *busyError) Error() string { return e.text }

// admit waits for the memory of a frame of so many bytes. The error is ctx's, or a
// *busyError where there was none for as long as a frame may take.
func (s *Server) admit(ctx context.Context, length int) (held int64, err error) {
	if length <= freeBytes {
		return 0, nil
	}
	waiting, cancel := context.WithTimeout(ctx, s.options.FrameTimeout)
	defer cancel()
	held, err = s.memory.acquire(waiting, int64(length)*frameWeight)
	if err != nil && ctx.Err() == nil {
		s.options.Metrics.hit(limitMemory)
		return 0, &busyError{fmt.Sprintf("there was no memory for a frame of %d bytes within %s; try again later", length, s.options.FrameTimeout)}
	}
	return held, err
}

// complete makes the results of one frame ready to be told: it asks for orders that
// only Postgres knows, and refuses queries that would make the reply too long. It
// returns how many bytes of memory it took for the reply.
func (s *Server) complete(ctx context.Context, commands []exchange.Command, results []exchange.Result) (held int64) {
	bytes, executions := int64(0), 0
	for i := range results {
		c, r := &commands[i], &results[i]
		query := c.Kind == exchange.QueryOrder
		switch {
		case query && executions >= s.options.ExecutionsMax && (r.Reason == exchange.OK || r.Reason == exchange.UnknownOrder):
			*r = exchange.Result{Reason: exchange.ReplyFull}
			s.options.Metrics.hit(limitReply)
		case r.Reason == exchange.UnknownOrder:
			s.exchange.Recall(ctx, c, r)
		}
		more := int64(answerBytes + executionBytes*len(r.Status.Executions))
		if bytes+more > freeBytes+held {
			// A good deal at once: this is a long reply.
			if want := max(bytes+more-held, freeBytes); s.memory.try(want) {
				held += want
			} else if query {
				*r, more = exchange.Result{Reason: exchange.NoMemory}, answerBytes
				s.options.Metrics.hit(limitMemory)
			}
		}
		bytes += more
		if query {
			executions += len(r.Status.Executions)
		}
	}
	return held
}
