package door

import (
	"sync"
	"sync/atomic"

	"outcry/internal/process/queue"
)

// late holds the batches of a session whose replies wait for the history, and the batches after them. All of them
// were executed. A goroutine (answerLate) answers them in order, while the reader continues. It runs while batches
// is not empty.
type late struct {
	busy atomic.Bool // batches is not empty

	// mu guards the field batches. moved is signaled after each batch that was answered.
	mu      sync.Mutex
	moved   *sync.Cond
	batches queue.Queue[*batch]
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
