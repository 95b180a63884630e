package door

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// late are the batches of a session that wait for the history, or behind one that does.
// They have been executed; a goroutine of their own answers them in their order, while
// the reader goes on. It runs while there are any.
type late struct {
	busy atomic.Bool // there are some

	// mu guards what follows. moved is signaled when one was answered.
	mu      sync.Mutex
	moved   *sync.Cond
	batches []*batch
}

// execute does what a batch asks, and has it answered. It returns false if the
// exchange has failed or is stopping.
func (c *session) execute(b *batch, begun time.Time) bool {
	mark, err := c.server.execute(c.ctx, b)
	b.clock.resume()
	if err != nil {
		c.server.discard(b)
		if c.ctx.Err() == nil { // else the writer has logged why
			c.log(slog.LevelInfo, "a connection is closed", c.executed+1, slog.Any("error", err))
		}
		return false
	}
	c.executed += uint64(b.frames)
	b.last, b.mark, b.begun = c.executed, mark, begun
	if !b.pending && !c.late.busy.Load() || !c.handOver(b) {
		c.answer(b)
	}
	return true
}

// answer hands the replies to a batch to the writer, which may tell them once the batch's
// mark allows it. They travel together as long as they are short, so that what a client
// does not take is not much more than one of them. The batch is given back before
// the last is handed over: that may take as long as the client likes. It returns when the
// history was found not to answer, the zero time if it was not.
func (c *session) answer(b *batch) (failed time.Time) {
	s := c.server
	mark, begun := b.mark, b.begun
	r := s.newReply(mark, begun)
	for i := range b.frames {
		if len(r.bytes) >= writeBytesMax {
			s.holdReply(r, b)
			c.push(r)
			r = s.newReply(mark, begun)
		}
		begin := len(r.bytes)
		b.appendReply(c.ctx, r, i)
		r.bytes = c.codec.EndReply(r.bytes, begin)
	}
	r.frame, failed = b.last, b.answers.failed
	s.options.Metrics.executed(b, r)
	s.holdReply(r, b)
	s.release(b)
	c.push(r)
	return failed
}

// handOver has a batch answered by answerLate, once there is room for it. It returns false
// if none waits before it and there is no memory either: then the reader answers it, and
// only this client waits with it.
func (c *session) handOver(b *batch) bool {
	l, m := &c.late, c.server.recalling
	cost := int64(b.cost)
	if b.large { // it holds its memory already
		cost = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.batches) >= lateBatchesMax || !m.try(cost) {
		if len(l.batches) == 0 {
			return false
		}
		l.moved.Wait()
	}
	b.late, b.executed = cost, time.Now()
	l.batches = append(l.batches, b)
	if len(l.batches) == 1 {
		l.busy.Store(true)
		go c.answerLate()
	}
	return true
}

// answerLate answers batches until there are none. If the history does not answer,
// what was executed before that was known is not asked for again: otherwise each batch
// would take that time anew.
func (c *session) answerLate() {
	l, m := &c.late, c.server.recalling
	var failed time.Time
	for b := l.first(); b != nil; b = l.next() {
		held := b.late
		b.answers.unavailable = b.executed.Before(failed)
		if at := c.answer(b); !at.IsZero() {
			failed = at
		}
		m.release(held)
	}
}

// first returns the oldest batch, which stays.
func (l *late) first() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batches[0]
}

// next drops the oldest batch, which was answered, and returns the one behind it, nil if
// there is none.
func (l *late) next() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := copy(l.batches, l.batches[1:])
	l.batches[n] = nil
	l.batches = l.batches[:n]
	l.moved.Broadcast()
	if n == 0 {
		l.busy.Store(false)
		return nil
	}
	return l.batches[0]
}

// wait returns once all are answered. Nobody may add any meanwhile.
func (l *late) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.batches) > 0 {
		l.moved.Wait()
	}
}
