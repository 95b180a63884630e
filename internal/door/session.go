package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"outcry/internal/engine"
)

// textTooMuch is the reply to a large frame that cannot wait until its client is within its share again.
const textTooMuch = "account views and market data lack too much of what this client did; nothing of this frame was " +
	"done; try again later"

// serve runs the session. It returns when both goroutines have ended and the connection is closed.
func (c *session) serve() {
	defer c.conn.Close()
	defer c.cancel()
	if !c.secure() {
		return
	}
	if c.server.options.Tokens == nil {
		c.caller.proved()
	}
	defer context.AfterFunc(c.ctx, c.unsent.wake)()
	gotReason := make(chan bool, 1)
	go func() { gotReason <- c.write() }()
	reason := c.read()
	c.caller.end()
	c.late.wait()
	if reason != "" {
		c.push(c.lastReply(reason))
	}
	c.forget()
	c.unsent.close()
	if <-gotReason {
		c.linger()
	}
}

// refuse sends a client the reason why it gets no session, and closes the connection.
func (c *session) refuse(reason string) {
	defer c.conn.Close()
	defer c.cancel()
	if c.secure() && c.transmit(c.lastReply(reason).bytes) == nil {
		c.linger()
	}
}

// read executes frames until the client or the server ends the session. It returns the text of the last
// reply, "" for none.
func (c *session) read() (reason string) {
	c.setReading(true)
	defer c.setReading(false)
	defer c.arrived()
	if reason, ok := c.prove(); !ok {
		return reason
	}
	for {
		frame, err := c.nextFrame()
		if err != nil {
			return c.explain(err)
		}
		begun := time.Now()
		b := c.server.takeBatch(c.codec)
		b.watch.Start()
		err = c.gather(b, frame)
		if err == nil {
			c.server.options.Metrics.lap(&b.watch, stageDecode)
			err = c.mayExecute(b)
		}
		if err == nil && c.caller.tokenEnded() {
			err = errTokenEnded
		}
		switch {
		case errors.Is(err, ErrBusy):
			c.server.release(b)
			c.refuseFrame()
			continue
		case err != nil:
			c.server.release(b)
			return c.explain(err)
		}
		asked := max(b.frames, len(b.commands))
		for b != nil {
			rest := c.server.split(b)
			if !c.execute(b, begun) {
				return textFailed
			}
			b = rest
		}
		waited, err := c.caller.slowDown(c.ctx, asked, c.checkPeer)
		if err != nil {
			return c.explain(err)
		}
		if waited {
			c.clock.restart() // the client was not read, so could not meet its deadlines
		}
	}
}

// nextFrame returns the next frame, as soon as it is complete.
func (c *session) nextFrame() ([]byte, error) {
	if frame := c.next; frame != nil {
		c.next = nil
		return frame, nil
	}
	return c.frames.Next()
}

// gather decodes a frame and the further frames that have already arrived, up to the limits of a batch. The
// error is that of hold.
func (c *session) gather(b *batch, frame []byte) error {
	o := &c.server.options
	memory := c.codec.Memory(frame)
	if err := c.hold(b, frame, memory); err != nil {
		return err
	}
	b.judge = c.caller.judge()
	c.decode(b, frame)
	c.arrived()
	for !b.large && b.frames < o.BatchFramesMax && c.frames.Buffered() {
		frame, err := c.frames.Next()
		if err != nil {
			break // the next call of Next returns the same error
		}
		more := c.codec.Memory(frame)
		if memory+more > o.BatchMemoryMax {
			c.next = frame
			break
		}
		memory += more
		c.decode(b, frame)
	}
	b.cost = memory
	c.clock.rearm()
	return nil
}

// hold reserves memory for the first frame of a batch, as Server.hold does. A frame that needs much first waits until
// the client is within its share. A frame that has itself reserved memory has waited in admit, and cannot wait here.
// The error is ErrBusy if such a frame must not be executed: its client is above lagMax, or above its share if admit
// did not know who pays.
func (c *session) hold(b *batch, frame []byte, memory int) error {
	if memory <= c.server.options.BatchMemoryMax {
		return c.server.hold(c.ctx, b, memory)
	}
	commands, named := c.caller.expect(c.codec, frame)
	if c.arriving == 0 {
		c.named = named
	}
	for {
		if c.arriving == 0 {
			if err := c.waitForTurn(commands); err != nil {
				return err
			}
		}
		if err := c.server.hold(c.ctx, b, memory); err != nil {
			return err
		}
		switch above := c.caller.above(c.ctx, commands); {
		case !above:
			return nil
		case c.arriving > 0 && c.named && c.caller.lag(c.caller.pressed(commands)...).work <= lagMax:
			return nil
		case c.arriving > 0:
			return ErrBusy
		}
		c.server.discard(b)
	}
}

// mayExecute waits before a batch is executed. A large one has waited in admit or hold; if only its commands show who
// pays, it cannot wait, and the error is ErrBusy. Otherwise the error is that of waitForTurn.
func (c *session) mayExecute(b *batch) error {
	switch {
	case len(b.commands) == 0:
		return nil
	case !b.large:
		return c.waitForTurn(b.commands)
	case !c.named && c.caller.above(c.ctx, b.commands):
		return ErrBusy
	}
	return nil
}

// refuseFrame answers a frame of which nothing was done.
func (c *session) refuseFrame() {
	c.arrived()
	c.late.wait()
	c.server.options.Metrics.hit(limitFollowers)
	r := c.server.newReply(engine.Mark{}, time.Now())
	r.bytes = c.codec.EndReply(c.codec.AppendError(r.bytes, textTooMuch), 0)
	c.executed++
	r.frame = c.executed
	c.push(r)
}

// decode adds a frame to a batch, and applies the settings that the frame makes for its connection: orders are
// canceled when the connection ends, and the connection ends after the given silence, if that is not 0.
func (c *session) decode(b *batch, frame []byte) {
	silence, ok := b.add(frame, c.onDisconnect)
	if !ok {
		return
	}
	c.onDisconnect = true
	if silence > 0 {
		c.silence.Store(int64(silence))
		c.clock.restart()
	}
}

// checkPeer returns io.EOF if the client has closed its side and all its frames were read, and another error if
// nothing can be sent to it any more.
func (c *session) checkPeer() error {
	err := peerError(c.conn)
	if err == io.EOF && (c.next != nil || c.frames.Buffered()) {
		return nil
	}
	return err
}

// execute executes a batch, and answers it or hands it to answerLate. It returns false if the exchange has
// failed or is stopping.
func (c *session) execute(b *batch, begun time.Time) bool {
	mark, err := c.server.execute(c.ctx, b)
	b.watch.Lap() // the exchange measures the stages that end here
	if err != nil {
		c.server.discard(b)
		if c.ctx.Err() == nil { // otherwise the writer has already logged the reason
			c.log(slog.LevelInfo, "a connection is closed", c.executed+1, slog.Any("error", err))
		}
		return false
	}
	c.executed += uint64(b.frames)
	b.last, b.mark, b.begun = c.executed, mark, begun
	if !b.pending && !c.late.busy.Load() || !c.handOver(b) {
		c.answer(b)
	}
	return true
}

// answer builds the replies to a batch and pushes them to the writer, which sends them once the batch's mark is
// durable. Short replies are joined, up to about writeBytesMax, which bounds the output that waits for a slow client.
// The batch is released before the last push, which may block for as long as the client does not read. answer returns
// the time when the history did not answer in this batch, or the zero time if it did.
func (c *session) answer(b *batch) (failed time.Time) {
	s := c.server
	mark, begun := b.mark, b.begun
	r := s.newReply(mark, begun)
	for i := range b.frames {
		if len(r.bytes) >= writeBytesMax {
			s.holdReply(r, b)
			c.push(r)
			r = s.newReply(mark, begun)
		}
		begin := len(r.bytes)
		b.appendReply(c.ctx, r, i)
		r.bytes = c.codec.EndReply(r.bytes, begin)
	}
	r.frame, failed = b.last, b.answers.failed
	s.options.Metrics.executed(b, r)
	s.holdReply(r, b)
	s.release(b)
	c.push(r)
	return failed
}

// handOver queues a batch for answerLate, once there is room. It returns false if no batch is queued and
// no memory is free: the reader then answers the batch itself, and only this client waits.
func (c *session) handOver(b *batch) bool {
	l, m := &c.late, c.server.recalling
	cost := int64(b.cost)
	if b.large { // a large frame has already reserved its memory
		cost = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.batches.Len() >= lateBatchesMax || !m.try(cost) {
		if l.batches.Len() == 0 {
			return false
		}
		l.moved.Wait()
	}
	b.late, b.executed = cost, time.Now()
	l.batches.Push(b)
	if l.batches.Len() == 1 {
		l.busy.Store(true)
		go c.answerLate()
	}
	return true
}

// answerLate answers batches until the queue is empty. After the history did not answer, batches that were
// executed before that moment do not ask it; otherwise each would wait for the timeout.
func (c *session) answerLate() {
	l, m := &c.late, c.server.recalling
	var failed time.Time
	for b := l.first(); b != nil; b = l.next() {
		held := b.late
		b.answers.unavailable = b.executed.Before(failed)
		if at := c.answer(b); !at.IsZero() {
			failed = at
		}
		m.release(held)
	}
}

// explain turns the error that ended the reading into a text for the client, or "" if the client ended it. It
// counts the limit that was hit, and logs ends that an operator may want to know about.
func (c *session) explain(err error) (reason string) {
	o, patience := &c.server.options, c.server.limits.Load()
	var bad FrameError
	var l limit
	switch late := errors.Is(err, os.ErrDeadlineExceeded); {
	case c.ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ""
	case c.caller.tokenEnded():
		grant := c.caller.grant
		c.log(slog.LevelInfo, "a connection is closed", c.executed+1, slog.String("token", grant.ID),
			slog.Any("error", grant.Err()))
		return grant.Err().Error() + "; nothing that was sent after the last reply was done"
	case errors.As(err, &bad):
		l, reason = limitLengthLine, bad.Error()
		if bad.OverLimit() {
			l = limitFrame
		}
	case errors.Is(err, errNoMemory):
		l, reason = limitMemory, textNoMemory(patience.FrameTimeout)
	case !late:
		c.log(slog.LevelDebug, "a connection is lost", c.executed+1, slog.Any("error", err))
		return ""
	case c.server.isDraining():
		return textDraining
	case c.frames.InFrame():
		l, reason = limitFrameTime, fmt.Sprintf("a frame did not arrive within %s", c.within(patience.FrameTimeout))
	default:
		l, reason = limitIdle, fmt.Sprintf("nothing was sent for %s", c.within(patience.IdleTimeout))
	}
	o.Metrics.hit(l)
	c.log(slog.LevelInfo, "a connection is closed", c.executed+1, slog.String(LimitKey, limitNames[l]),
		slog.String("reason", reason))
	return reason
}
