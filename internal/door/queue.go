package door

import (
	"sync"
	"time"
)

// queue holds the replies of a session that are not sent yet, in order. One
// goroutine pushes, one takes from the front.
type queue struct {
	lenMax, bytesMax int

	// woken lets the taker go on, which waits while the queue is empty. Pushing does not
	// send to it: a reply is rarely durable when it is pushed, and waking the taker to
	// wait for that costs a switch. The pusher sees to it that somebody sends, later.
	woken chan struct{}

	// mu guards what follows. The pusher waits on room.
	mu      sync.Mutex
	room    *sync.Cond
	replies []*reply
	bytes   int
	closed  bool
	emptied time.Time // when drop last left nothing
}

func newQueue(lenMax, bytesMax int) *queue {
	q := &queue{lenMax: lenMax, bytesMax: bytesMax, woken: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// push adds a reply once there is room. A reply that is larger than all the room
// there ever is goes into an empty queue.
func (q *queue) push(r *reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.replies) > 0 && (len(q.replies) >= q.lenMax || q.bytes+len(r.bytes) > q.bytesMax) {
		q.room.Wait()
	}
	q.replies = append(q.replies, r)
	q.bytes += len(r.bytes)
}

// wake has the taker go on.
func (q *queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// front returns the oldest reply, which stays in the queue. If there is none, it
// waits to be woken. It returns nil once the queue is closed and empty.
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

// passed notes that a reply was sent that was not in the queue.
func (q *queue) passed() {
	q.mu.Lock()
	q.emptied = time.Now()
	q.mu.Unlock()
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
	q.room.Signal()
}

// close says that nothing will be pushed any more.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

// silence returns since when no reply has waited, the zero time if none ever
// did. It returns false while one waits.
func (q *queue) silence() (since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.emptied, len(q.replies) == 0
}
