package replica

import (
	"sync"
	"sync/atomic"
)

// queueBytesMax bounds what waits for a disk, and what has come from peers. Whatever would
// make more of it is not let in.
const queueBytesMax = 64 << 20

// itemBytes is what an item of a queue counts beside its content.
const itemBytes = 512

// queue hands items from the loop, which does not wait, to one goroutine. The loop looks at
// full before it makes more.
type queue[T any] struct {
	ready chan struct{} // holds a value when there may be items
	bytes atomic.Int64  // of the items that are not done

	mu    sync.Mutex // guards items
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

// full reports whether so much waits that nothing should come on top.
func (q *queue[T]) full() bool { return q.bytes.Load() > queueBytesMax }

func (q *queue[T]) put(v T, bytes int) {
	q.bytes.Add(int64(bytes + itemBytes))
	q.mu.Lock()
	q.items = append(q.items, v)
	q.mu.Unlock()
	wakeUp(q.ready)
}

// take waits for items and takes them all; nil once quit is closed. Each is to be done.
func (q *queue[T]) take(quit <-chan struct{}) []T {
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

// done says that an item of so many bytes, put's argument, is done with.
func (q *queue[T]) done(bytes int) { q.bytes.Add(-int64(bytes + itemBytes)) }
