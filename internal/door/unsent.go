package door

import (
	"sync"
	"time"

	"outcry/internal/process/queue"
)

// unsent holds the unsent replies of a session in order. One goroutine, the pusher, appends; another, the
// taker, removes from the front.
type unsent struct {
	lenMax, bytesMax int

	// woken wakes the taker, which waits on it while the queue is empty. push does not send to it: a reply is rarely
	// durable when it is pushed, and waking the taker just to wait for durability would cost a goroutine switch. The
	// pusher arranges for a later send to woken.
	woken chan struct{}

	// mu guards the fields below. The pusher waits on room.
	mu      sync.Mutex
	room    *sync.Cond
	replies queue.Queue[*reply]
	bytes   int
	closed  bool
	emptied time.Time // when drop last emptied the queue, or a reply was last sent past it
}

func newUnsent(lenMax, bytesMax int) *unsent {
	q := &unsent{lenMax: lenMax, bytesMax: bytesMax, woken: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// push appends a reply once there is room. A reply that is larger than bytesMax is appended when the queue is
// empty.
func (q *unsent) push(r *reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.replies.Len() > 0 && (q.replies.Len() >= q.lenMax || q.bytes+len(r.bytes) > q.bytesMax) {
		q.room.Wait()
	}
	q.replies.Push(r)
	q.bytes += len(r.bytes)
}

// wake wakes the taker.
func (q *unsent) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// front returns the oldest reply, and leaves it in the queue. While the queue is empty, it waits to be woken.
// It returns nil once the queue is closed and empty.
func (q *unsent) front() *reply {
	for {
		q.mu.Lock()
		r, closed := (*reply)(nil), q.closed
		if front := q.replies.Front(); front != nil {
			r = *front
		}
		q.mu.Unlock()
		if r != nil || closed {
			return r
		}
		<-q.woken
	}
}

// noteDirect records that a reply was sent without entering the queue.
func (q *unsent) noteDirect() {
	q.mu.Lock()
	q.emptied = time.Now()
	q.mu.Unlock()
}

// drop removes the oldest reply, after it was sent or abandoned.
func (q *unsent) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, _ := q.replies.Pop()
	q.bytes -= len(r.bytes)
	if q.replies.Len() == 0 {
		q.emptied = time.Now()
	}
	q.room.Signal()
}

// close records that nothing more will be pushed, and wakes the taker.
func (q *unsent) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

// silence returns the time since which the queue has been empty, or the zero time if no reply was ever sent. ok is
// false while the queue is not empty.
func (q *unsent) silence() (since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.emptied, q.replies.Len() == 0
}
