package websocket

import "sync/atomic"

// Progress is how far events of one subscription were taken to be written: what a reason of CodeTooSlow tells. The zero
// value is one of which none was.
type Progress struct{ n atomic.Uint64 }

// Sent returns the number of the newest event that was taken to be written, 0 if none was. A cut finishes those.
func (p *Progress) Sent() uint64 { return p.n.Load() }

// Reset sets what Sent returns: of a subscription that goes on after an event, and of which nothing is queued yet.
func (p *Progress) Reset(n uint64) { p.n.Store(n) }

// Advance sets p to n, up to which a slot gives out frames from now on: all of them are written before a close, as what
// Push queued and a batch has is. It returns false if the connection was cut or has ended. Then p is unchanged, since
// the reason of the cut may have told it, and the slot must give out nothing.
func (c *Conn) Advance(p *Progress, n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	p.n.Store(n)
	return true
}

// Slot has a place in a connection's queue at the most once, however often it is set, and makes its frames when its
// turn comes: what a slow reader gets is then the newest, or all that came meanwhile in one.
type Slot struct {
	conn   *Conn
	next   func() (Frame, bool)
	queued bool // guarded by conn.mu
}

// NewSlot returns a slot. Once its turn comes next is called until it returns false, and the frames go out one behind
// the other with nothing in between. It is called by one goroutine at a time, which holds no lock; Set may be called
// meanwhile, and has it called again.
func (c *Conn) NewSlot(next func() (Frame, bool)) *Slot { return &Slot{conn: c, next: next} }

// Set queues the slot, unless it is queued already. Flush has it sent.
func (s *Slot) Set() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.queued && !c.ending {
		s.queued = true
		c.queue.push(item{slot: s})
	}
}

// item is one thing to be sent: a frame, or a slot.
type item struct {
	frame    Frame
	slot     *Slot
	progress *Progress
	n        uint64 // for progress
}

// queueKeep is how many items an empty queue keeps memory for.
const queueKeep = 64

// queue is a first-in-first-out queue.
type queue struct {
	items []item
	head  int // of items, the first that is in the queue
}

func (q *queue) push(i item) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, i)
}

func (q *queue) pop() (i item, ok bool) {
	if q.head == len(q.items) {
		return i, false
	}
	i = q.items[q.head]
	q.items[q.head] = item{}
	if q.head++; q.head == len(q.items) {
		if q.items, q.head = q.items[:0], 0; cap(q.items) > queueKeep {
			q.items = nil
		}
	}
	return i, true
}

func (q *queue) empty() bool { return q.head == len(q.items) }
