package websocket

import (
	"bytes"
	"sync"
)

// Bounds of one batch.
const (
	writeBytesMax = 64 << 10 // a larger frame is written alone
	itemsMax      = 256
)

// batch is a set of frames and slots that one writer writes in pieces. If the client has no room for the next piece,
// the writer may stop and another goroutine continues. A batch's memory is reused.
type batch struct {
	items  []item
	size   int    // bytes of the frames in items
	cost   int    // part of Conn.waiting: frames in items, and the answer that the batch begins with
	at     int    // index of the first item that is not gathered yet
	held   Frame  // next frame, for which buffer had no room; the zero Frame if there was room
	buffer []byte // frames that are written together; it never grows
	rest   []byte // bytes of the current piece that are not written yet
	sent   int
}

var batches = sync.Pool{New: func() any { return &batch{buffer: make([]byte, 0, writeBytesMax)} }}

// begins reports whether the caller, which holds mu, must write: there is something to write, and no other writer is
// running.
func (c *Conn) begins() bool {
	if c.writing || c.dead || c.conn == nil || !c.hasWork() {
		return false
	}
	c.writing = true // finish waits for it
	return true
}

// hasWork reports whether there is something to write that no writer has taken yet. Its caller holds mu.
func (c *Conn) hasWork() bool { return c.pingDue || c.pong.bytes != nil || c.queue.Len() > 0 }

// flush starts a writer if there is something to write. Its caller holds mu.
func (c *Conn) flush() {
	if c.begins() {
		go c.write(batches.Get().(*batch), true)
	}
}

// flushHere is like Flush, but before it returns it writes as much as the client has room for. With many connections,
// a goroutine for each would cost more than the write. The caller must not hold a lock that a slot waits for.
func (c *Conn) flushHere() {
	c.mu.Lock()
	begins := c.begins()
	c.mu.Unlock()
	if begins {
		c.write(batches.Get().(*batch), false)
	}
}

// write writes the rest of a batch, and then further batches until nothing is queued. If wait is false and the client
// has no room, a new goroutine continues.
func (c *Conn) write(b *batch, wait bool) {
	for {
		whole, err := b.send(c, wait)
		if !whole {
			go c.write(b, true)
			return
		}
		c.wrote(b, err)
		if !c.fill(b) {
			batches.Put(b)
			return
		}
	}
}

// fill fills the batch with the items to write next. It returns false if there are none, and writing has then ended.
func (c *Conn) fill(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(b.items)
	*b = batch{items: b.items[:0], buffer: b.buffer[:0]}
	if c.pingDue && !c.dead {
		c.pingDue = false
		b.items = append(b.items, item{frame: pingFrame}) // waiting does not count pings
	}
	if c.pong.bytes != nil && !c.dead {
		b.add(item{frame: c.pong})
		c.pong = Frame{} // waiting counts it until it is written
	}
	for len(b.items) < itemsMax && b.size < writeBytesMax && !c.dead {
		i, ok := c.queue.Pop()
		if !ok {
			break
		}
		if i.slot != nil {
			i.slot.queued = false
		}
		if i.progress != nil {
			i.progress.n.Store(i.n) // from here on the frame is written before any close
		}
		b.add(i)
	}
	if len(b.items) == 0 {
		c.writing = false
		c.moved.Broadcast()
		return false
	}
	return true
}

// add adds an item and counts its bytes and its cost.
func (b *batch) add(i item) {
	b.items = append(b.items, i)
	b.size += i.frame.Len()
	b.cost += i.frame.cost()
}

// wrote updates the counts after a batch was written, and ends the connection if err is not nil.
func (c *Conn) wrote(b *batch, err error) {
	if b.sent > 0 {
		m := c.server.options.Metrics
		m.bytes.Add(float64(b.sent))
		m.writes.Inc()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting -= b.cost
	c.taken += uint64(b.sent)
	if err != nil {
		c.abort()
	}
	c.moved.Broadcast()
}

// send writes a batch. It returns false if wait is false and the client has no room for all of it. An error means that
// the connection has ended.
func (b *batch) send(c *Conn, wait bool) (whole bool, err error) {
	for {
		for len(b.rest) > 0 {
			n := 0
			if wait {
				n, err = c.conn.Write(b.rest) // without a deadline: the end of the connection ends the write
			} else {
				n = c.try.Write(b.rest)
			}
			b.sent += n
			if b.rest = b.rest[n:]; err != nil {
				return true, err
			}
			if !wait && len(b.rest) > 0 {
				return false, nil
			}
		}
		if !b.gather(c) {
			return true, nil
		}
	}
}

// gather sets rest to the next piece to write. It returns false if the batch is written.
func (b *batch) gather(c *Conn) bool {
	if len(b.items) == 1 && b.at == 0 && b.items[0].slot == nil {
		b.at, b.rest = 1, b.items[0].frame.bytes
		return true
	}
	b.buffer = b.buffer[:0]
	for f, ok := b.next(c); ok; f, ok = b.next(c) {
		if len(b.buffer)+f.Len() <= cap(b.buffer) {
			b.buffer = append(b.buffer, f.bytes...)
			continue
		}
		if len(b.buffer) == 0 {
			b.rest = f.bytes
			return true
		}
		b.held = f
		break
	}
	b.rest = b.buffer
	return len(b.rest) > 0
}

// next returns the batch's next frame. It returns false if the batch has no more frames.
func (b *batch) next(c *Conn) (f Frame, ok bool) {
	if f = b.held; f.bytes != nil {
		b.held = Frame{}
		return f, true
	}
	for ; b.at < len(b.items); b.at++ {
		i := &b.items[b.at]
		if i.slot == nil {
			b.at++
			return i.frame, true
		}
		if f, ok = i.slot.next(); ok && !c.isCut() { // after a cut the client may have no right to the frame
			return f, true
		}
	}
	return Frame{}, false
}

// AnswerFrames is like Answer, for one or more frames in a row that EndFrame has completed. It keeps no reference to
// frames, and writes as much as the client has room for before it returns. The caller must not hold a lock that a slot
// waits for.
func (c *Conn) AnswerFrames(frames []byte) error {
	b, err := c.beginAnswer(frames)
	if b == nil {
		return err
	}
	b.sent = c.try.Write(frames)
	if b.rest = frames[b.sent:]; len(b.rest) > 0 {
		b.rest = bytes.Clone(b.rest)
		go c.write(b, true)
		return nil
	}
	c.write(b, false)
	return nil
}

// beginAnswer returns a batch that begins with frames, which the caller must write at once. It returns nil if frames
// are queued after others, or if there is an error.
func (c *Conn) beginAnswer(frames []byte) (*batch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(len(frames)); err != nil {
		return nil, err
	}
	if c.writing || c.hasWork() || c.try == nil {
		c.push(item{frame: Frame{bytes.Clone(frames)}})
		c.flush()
		return nil, nil
	}
	c.writing = true // finish waits for it
	b := batches.Get().(*batch)
	b.cost = costOf(len(frames))
	c.waiting += b.cost
	return b, nil
}
