package websocket

import "sync/atomic"

// Progress is the number of the newest event of one subscription that a writer has taken. Doors name it in the reason
// of a close with CodeTooSlow. The zero value means that no event was taken yet.
type Progress struct{ n atomic.Uint64 }

// Sent returns the number of the newest event that a writer has taken, 0 if there was no event. A cut does not drop
// these events: the writer finishes them before the close.
func (p *Progress) Sent() uint64 { return p.n.Load() }

// Reset sets the value of Sent. It is for a subscription that continues after event n and has nothing queued yet.
func (p *Progress) Reset(n uint64) { p.n.Store(n) }

// Advance sets p to n, the number of the newest event in the frames that a slot returns from now on. The writer sends
// these frames before a close, like frames that were queued by Push and are in a batch. Advance returns false if the
// connection was cut or has ended. Then p is unchanged, because the reason of the cut may already contain it, and the
// slot must return no frames.
func (c *Conn) Advance(p *Progress, n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	p.n.Store(n)
	return true
}

// Slot is an entry in a connection's queue that makes its frames only when its turn comes. It is in the queue at most
// once, no matter how often it is set. A slow reader therefore gets the newest state only, or several changes merged
// in one.
type Slot struct {
	conn   *Conn
	next   func() (Frame, bool)
	queued bool // guarded by conn.mu
}

// NewSlot returns a slot. When its turn comes, the writer calls next until it returns false, and sends the frames
// one after the other with no other frame between them. Only one goroutine at a time calls next, and it holds no
// lock. If Set is called during that, the writer calls next again later.
func (c *Conn) NewSlot(next func() (Frame, bool)) *Slot { return &Slot{conn: c, next: next} }

// Set queues the slot unless it is queued already. Flush starts the sending.
func (s *Slot) Set() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.queued && !c.ending {
		s.queued = true
		c.queue.Push(item{slot: s})
	}
}

// item is an entry of the queue: a frame or a slot.
type item struct {
	frame    Frame
	slot     *Slot
	progress *Progress
	n        uint64 // value that progress gets when a writer takes the frame
}
