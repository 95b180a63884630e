package door

import (
	"sync"
	"time"
)

// queue holds the unsent replies of a session in order. One goroutine, the pusher, appends; another, the
// taker, removes from the front.
type queue struct {
	lenMax, bytesMax int

	// woken wakes the taker, which waits on it while the queue is empty. push does not send to it: a reply is
	// rarely durable when it is pushed, and a taker that wakes up only to wait for that costs a switch of
	// goroutines. The pusher arranges that something is sent to woken later.
	woken chan struct{}

	// mu guards the fields below. The pusher waits on room.
	mu      sync.Mutex
	room    *sync.Cond
	replies []*reply
	bytes   int
	closed  bool
	emptied time.Time // when drop last emptied the queue, or a reply was last sent past it
}

func newQueue(lenMax, bytesMax int) *queue {
	q := &queue{lenMax: lenMax, bytesMax: bytesMax, woken: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// push appends a reply once there is room. A reply that is larger than bytesMax is appended when the queue is
// empty.
func (q *queue) push(r *reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.replies) > 0 && (len(q.replies) >= q.lenMax || q.bytes+len(r.bytes) > q.bytesMax) {
		q.room.Wait()
	}
	q.replies = append(q.replies, r)
	q.bytes += len(r.bytes)
}

// wake wakes the taker.
func (q *queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// front returns the oldest reply, and leaves it in the queue. While the queue is empty, it waits to be woken.
// It returns nil once the queue is closed and empty.
func (q *queue) front() *reply {
	for {
		q.mu.Lock()
		r, closed := (*reply)(nil), q.closed
		if len(q.replies) > 0 {
			r = q.replies[0]
		}
		q.mu.Unlock()
		if r != nil || closed {
			return r
		}
		<-q.woken
	}
}

// passed records that a reply was sent without entering the queue.
func (q *queue) passed() {
	q.mu.Lock()
	q.emptied = time.Now()
	q.mu.Unlock()
}

// drop removes the oldest reply, after it was sent or abandoned.
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
	q.room.Signal()
}

// close marks that nothing will be pushed any more, and wakes the taker.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

// silence returns since when the queue has been empty, the zero time if no reply was ever sent. ok is false
// while the queue is not empty.
func (q *queue) silence() (since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.emptied, len(q.replies) == 0
}
