package websocket

import (
	"bytes"
	"sync"
)

// Bounds of what is written at once.
const (
	writeBytesMax = 64 << 10 // one larger frame is written alone
	itemsMax      = 256
)

// batch is what is written, in pieces. Its writer may stop where the client has no room, and another goroutine
// goes on. Its memory is used again.
type batch struct {
	items  []item
	size   int    // bytes of the frames in items
	cost   int    // of the frames in items, and of what an answer begins with: what Conn.waiting has of them
	at     int    // of items, the first that is not gathered
	held   Frame  // likewise, of a slot: there was no room for it
	buffer []byte // of frames that are written together; never grows
	rest   []byte // of what is written now
	sent   int
}

var batches = sync.Pool{New: func() any { return &batch{buffer: make([]byte, 0, writeBytesMax)} }}

// begins reports whether the caller, who holds mu, is to write: there is something, and nobody does.
func (c *Conn) begins() bool {
	if c.writing || c.dead || c.conn == nil || !c.hasWork() {
		return false
	}
	c.writing = true // finish waits for it
	return true
}

// hasWork reports whether anything is to be written that nobody has taken yet. Its caller holds mu.
func (c *Conn) hasWork() bool { return c.pingDue || c.pong.bytes != nil || !c.queue.empty() }

// flush has a goroutine write if there is something to write. Its caller holds mu.
func (c *Conn) flush() {
	if c.begins() {
		go c.write(batches.Get().(*batch), true)
	}
}

// flushHere is Flush, but writes what the client has room for before it returns: a goroutine for each of many
// connections costs more than what it does. Its caller holds no lock that a slot waits for.
func (c *Conn) flushHere() {
	c.mu.Lock()
	begins := c.begins()
	c.mu.Unlock()
	if begins {
		c.write(batches.Get().(*batch), false)
	}
}

// write writes the rest of a batch, and then what waits until nothing does. If it may not wait, a goroutine does so
// for what the client has no room for.
func (c *Conn) write(b *batch, wait bool) {
	for {
		whole, err := b.send(c, wait)
		if !whole {
			go c.write(b, true)
			return
		}
		c.wrote(b, err)
		if !c.take(b) {
			batches.Put(b)
			return
		}
	}
}

// take takes what is to be written next, and returns false if there is nothing.
func (c *Conn) take(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(b.items)
	*b = batch{items: b.items[:0], buffer: b.buffer[:0]}
	if c.pingDue && !c.dead {
		c.pingDue = false
		b.items = append(b.items, item{frame: pingFrame}) // it never counted
	}
	if c.pong.bytes != nil && !c.dead {
		b.add(item{frame: c.pong})
		c.pong = Frame{} // waiting has it until it is written
	}
	for len(b.items) < itemsMax && b.size < writeBytesMax && !c.dead {
		i, ok := c.queue.pop()
		if !ok {
			break
		}
		if i.slot != nil {
			i.slot.queued = false
		}
		if i.progress != nil {
			i.progress.n.Store(i.n) // it is written before a close, whatever happens
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

// add adds what is to be written.
func (b *batch) add(i item) {
	b.items = append(b.items, i)
	b.size += i.frame.Len()
	b.cost += i.frame.cost()
}

// wrote notes what has become of a batch.
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

// send writes a batch. It reports false if it may not wait, and the client has no room for all of it. The error is the
// connection's, which has ended.
func (b *batch) send(c *Conn, wait bool) (whole bool, err error) {
	for {
		for len(b.rest) > 0 {
			n := 0
			if wait {
				n, err = c.conn.Write(b.rest) // however long that takes: what ends is the connection
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

// gather makes rest what is to be written next. It reports false if there is nothing.
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

// next returns the next frame. It reports false if there is none.
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
		if f, ok = i.slot.next(); ok && !c.isCut() { // what was made since, the client may have no right to
			return f, true
		}
	}
	return Frame{}, false
}

// AnswerFrames is Answer of frames that EndFrame has completed, one behind the other. It keeps nothing of them, and
// writes what the client has room for before it returns. Its caller holds no lock that a slot waits for.
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

// beginAnswer returns a batch that begins with frames, which the caller is to write at once; nil if they wait behind
// others, or if there is an error.
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
