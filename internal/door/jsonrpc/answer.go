package jsonrpc

import (
	"errors"
	"sync"

	"outcry/internal/door/websocket"
	"outcry/internal/process/queue"
)

// enqueue adds calls to the queue of answers, each as soon as there is room. It returns false if the connection has
// ended.
func (c *conn) enqueue(calls ...*call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range calls {
		for c.full() && !c.over() {
			c.changed.Wait()
		}
		if c.over() {
			return false
		}
		c.queue.Push(k)
		c.bytes += k.size
		if k.fault == nil && k.method.reads {
			c.reads++
		}
		if !c.answering {
			c.answering = true
			go c.answerAll()
		}
	}
	return true
}

// waitForReads waits until all earlier reads are answered. Otherwise a read could see the record of a later command,
// and its answer would have a higher seq than that command's. It returns false if the connection has ended.
func (c *conn) waitForReads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.reads > 0 && !c.over() {
		c.changed.Wait()
	}
	return !c.over()
}

// finish waits until the answering goroutine has ended, and so until all calls are answered.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.answering {
		c.changed.Wait()
	}
}

// answerAll answers calls until the queue is empty.
func (c *conn) answerAll() {
	o := outs.Get().(*out)
	defer o.release()
	for {
		k := c.next(o)
		if k == nil {
			return
		}
		if err := c.answer(k, o); err != nil {
			// Cut and the field ended make the reader end, too.
			c.socket.Cut(websocket.CodeGoingAway, "the outcome is unknown: send the command again, with its ref")
			c.cancel()
			c.mu.Lock()
			c.ended, c.broken = true, true
			c.mu.Unlock()
			continue
		}
		if k.fault == nil && k.method.reads {
			c.mu.Lock()
			c.reads--
			c.changed.Broadcast()
			c.mu.Unlock()
		}
		*k = call{}
		calls.Put(k)
	}
}

// next removes the oldest call from the queue. If the queue is empty, it sends the answers in o first. It returns nil
// if the queue is still empty; then the goroutine must end.
func (c *conn) next(o *out) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		c.queue = queue.Queue[*call]{}
		c.bytes, c.reads = 0, 0
	}
	c.changed.Broadcast()
	if c.queue.Len() == 0 && len(o.frames) > 0 {
		c.mu.Unlock()
		_ = c.send(o) // after an error the reader ends the connection
		c.mu.Lock()   // calls may have been queued since
	}
	k, ok := c.queue.Pop()
	if !ok {
		c.answering = false
		c.changed.Broadcast() // finish may have begun to wait since the last Broadcast
		return nil
	}
	c.bytes -= k.size
	return k
}

// answer waits until a call may be answered, and appends its answer to o. It sends o once o is full, or before it
// waits. The error means that no answer can be made, or that the connection has ended.
func (c *conn) answer(k *call, o *out) error {
	f := k.fault
	if f == nil && k.err != nil {
		return k.err
	}
	if f == nil && len(o.frames) > 0 && !c.canAnswer(k) {
		if err := c.send(o); err != nil { // so that finished answers do not wait for this one
			return err
		}
	}
	begin := len(o.frames)
	b := websocket.BeginFrame(o.frames)
	if f == nil {
		var err error
		b, err = k.method.answer(c, c.ctx, k, beginResult(b, k.id))
		switch {
		case errors.As(err, &f):
			b = websocket.BeginFrame(o.frames)
		case err != nil:
			return err
		case b == nil:
			return nil // the method has sent its answer itself
		default:
			b = endResult(b)
		}
	}
	if f != nil {
		b = appendFault(b, k.id, f)
	}
	o.frames = websocket.EndFrame(b, begin)
	if len(o.frames) < outBytes && !k.last {
		return nil
	}
	err := c.send(o)
	if k.last {
		c.socket.Close(websocket.CodeUnauthorized, "the token is not accepted")
	}
	return err
}

// canAnswer reports whether the answer to a command can be made without waiting.
func (c *conn) canAnswer(k *call) bool {
	if !c.mayChange(k.method) || !k.pending.IsDurable() {
		return false
	}
	seq := k.came[0].Seq
	if seq == 0 {
		seq = k.mark.Seq
	}
	return c.door.view().Seq() >= seq
}

// send sends the answers in o and empties it.
func (c *conn) send(o *out) error {
	err := c.socket.AnswerFrames(o.frames)
	o.frames = o.frames[:0]
	return err
}

// outBytes is the size from which answers are sent without waiting for further ones.
const outBytes = 16 << 10

// out holds answers that are sent together. Its memory is reused.
type out struct{ frames []byte }

var outs = sync.Pool{New: func() any { return &out{make([]byte, 0, 2*outBytes)} }}

// release keeps o for reuse, unless it is large.
func (o *out) release() {
	if o.frames = o.frames[:0]; cap(o.frames) <= 2*outBytes {
		outs.Put(o)
	}
}
