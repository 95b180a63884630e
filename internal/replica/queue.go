package replica

import (
	"sync"
	"sync/atomic"
)

// queueBytesMax limits the data that waits for a disk, and the messages from peers that wait for
// the loop. The loop accepts no input that would add to a full queue.
const queueBytesMax = 64 << 20

// itemBytes is the size counted for an item of a queue in addition to its content.
const itemBytes = 512

// queue passes items from the loop, which never waits, to one goroutine. The loop checks full
// before it produces more.
type queue[T any] struct {
	ready chan struct{} // holds a value if there may be items
	bytes atomic.Int64  // size of the items that are not done

	mu    sync.Mutex // guards items
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

// full reports whether the queue has reached its limit.
func (q *queue[T]) full() bool { return q.bytes.Load() > queueBytesMax }

func (q *queue[T]) put(v T, bytes int) {
	q.bytes.Add(int64(bytes + itemBytes))
	q.mu.Lock()
	q.items = append(q.items, v)
	q.mu.Unlock()
	wakeUp(q.ready)
}

// waitAll waits for items and returns all of them, or nil once quit is closed. The caller must call
// done for each item.
func (q *queue[T]) waitAll(quit <-chan struct{}) []T {
	for {
		select {
		case <-q.ready:
		case <-quit:
			return nil
		}
		q.mu.Lock()
		items := q.items
		q.items = nil
		q.mu.Unlock()
		if len(items) > 0 {
			return items
		}
	}
}

// done removes an item from the size of the queue. bytes is the argument given to put.
func (q *queue[T]) done(bytes int) { q.bytes.Add(-int64(bytes + itemBytes)) }
