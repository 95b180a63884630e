package gateway

import (
	"sync"
	"time"
)

// queue holds the replies of a session that are not sent yet, in order. One
// goroutine pushes, one takes from the front.
type queue struct {
	lenMax, bytesMax int

	// mu guards what follows. The pusher waits on changed for room, the taker
	// for a reply; never both at once, since a full queue is not empty.
	mu      sync.Mutex
	changed *sync.Cond
	replies []*reply
	bytes   int
	closed  bool
	emptied time.Time // when drop last left nothing
}

func newQueue(lenMax, bytesMax int) *queue {
	q := &queue{lenMax: lenMax, bytesMax: bytesMax}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// push adds a reply once there is room. A reply that is larger than all the room
// there ever is goes into an empty queue.
func (q *queue) push(r *reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.replies) > 0 && (len(q.replies) >= q.lenMax || q.bytes+len(r.bytes) > q.bytesMax) {
		q.changed.Wait()
	}
	q.replies = append(q.replies, r)
	q.bytes += len(r.bytes)
	q.changed.Signal()
}

// front waits for the oldest reply, which stays in the queue. It returns nil once
// the queue is closed and empty.
func (q *queue) front() *reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.replies) == 0 {
		if q.closed {
			return nil
		}
		q.changed.Wait()
	}
	return q.replies[0]
}

// drop takes the oldest reply away, after it was sent or given up.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(q.replies[0].bytes)
	n := copy(q.replies, q.replies[1:])
	q.replies[n] = nil
	q.replies = q.replies[:n]
	if n == 0 {
		q.emptied = time.Now()
	}
	q.changed.Signal()
}

// close says that nothing will be pushed any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
}

// silence returns since when no reply has waited, the zero time where none ever
// did. It returns false while one waits.
func (q *queue) silence() (since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.emptied, len(q.replies) == 0
}
