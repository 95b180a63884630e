package door

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/process/queue"
)

// late holds the batches of a session whose replies wait for the history, and the batches after them. They
// have been executed. A goroutine (answerLate) answers them in order, while the reader reads on. It runs
// while batches is not empty.
type late struct {
	busy atomic.Bool // batches is not empty

	// mu guards the field batches. moved is signaled after each batch that was answered.
	mu      sync.Mutex
	moved   *sync.Cond
	batches queue.Queue[*batch]
}

// execute executes a batch, and answers it or hands it to answerLate. It returns false if the exchange has
// failed or is stopping.
func (c *session) execute(b *batch, begun time.Time) bool {
	mark, err := c.server.execute(c.ctx, b)
	b.watch.Lap() // the exchange measures the stages that end here
	if err != nil {
		c.server.discard(b)
		if c.ctx.Err() == nil { // otherwise the writer has already logged the reason
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

// answer makes the replies to a batch and pushes them to the writer, which sends them once the batch's mark
// is durable. Short replies travel together, up to about writeBytesMax, which bounds what waits for a slow
// client. The batch is given back before the last push, which may block for as long as the client does not
// read. answer returns when the history did not answer in this batch, or the zero time if it did.
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

// handOver queues a batch for answerLate, once there is room. It returns false if no batch is queued and
// there is no memory: then the reader has to answer the batch itself, and only this client waits.
func (c *session) handOver(b *batch) bool {
	l, m := &c.late, c.server.recalling
	cost := int64(b.cost)
	if b.large { // it has reserved its memory already
		cost = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.batches.Len() >= lateBatchesMax || !m.try(cost) {
		if l.batches.Len() == 0 {
			return false
		}
		l.moved.Wait()
	}
	b.late, b.executed = cost, time.Now()
	l.batches.Push(b)
	if l.batches.Len() == 1 {
		l.busy.Store(true)
		go c.answerLate()
	}
	return true
}

// answerLate answers batches until the queue is empty. After the history did not answer, batches that were
// executed before that moment do not ask it; otherwise each would wait for the timeout.
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

// first returns the oldest batch, and leaves it in the queue.
func (l *late) first() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.batches.Front()
}

// next removes the oldest batch, which was answered, and returns the following one, or nil if the queue is
// empty.
func (l *late) next() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches.Pop()
	l.moved.Broadcast()
	if l.batches.Len() == 0 {
		l.busy.Store(false)
		return nil
	}
	return *l.batches.Front()
}

// wait returns once all batches are answered. No batch may be added while it waits.
func (l *late) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.batches.Len() > 0 {
		l.moved.Wait()
	}
}
