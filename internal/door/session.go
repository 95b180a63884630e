package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/engine"
	"outcry/internal/process/trywrite"
)

// Last replies of sessions that end because the exchange ends. Neither text reveals whether something was
// done that a crash could still undo.
const (
	textFailed   = "the exchange is stopping; whether the last requests were done is known after it has started again"
	textDraining = "the exchange is stopping; nothing that was sent after the last reply was done"
)

// textNoMemory is the error for a large frame that was not executed for want of memory.
func textNoMemory(waited time.Duration) string {
	return fmt.Sprintf("the exchange had no memory for a frame of this size for %s; try again later, or with smaller "+
		"frames", waited)
}

// session is one connection.
type session struct {
	server *Server
	id     uint64 // numbers the server's connections from 1
	conn   net.Conn
	codec  Codec
	frames Frames
	clock  *deadlines
	unsent *unsent // from the reader to the writer
	caller Caller  // the policy of the connection; used by the reader
	forget func()  // stops watching for the end of the grant

	// The fields below are used by the reader only.
	next     []byte // a frame that did not fit into its batch, nil if none
	arriving int64  // memory of the server reserved for the arriving frame
	executed uint64 // number of frames executed so far

	onDisconnect bool // orders without an instruction of their own are canceled when the connection ends

	silence atomic.Int64 // the client wants the connection to end after this silence, in nanoseconds; 0 if not set

	late late // batches that wait for the history, and those after them

	// tryWriter is nil if the connection cannot write without waiting. While no reply is unsent, it belongs
	// to the goroutine that pushes replies: answerLate while that runs, else the reader. Otherwise it belongs
	// to the writer.
	tryWriter *trywrite.Writer

	readingMu sync.Mutex
	reading   bool // the session reads frames, under the deadlines of Limits

	ctx    context.Context // ends when the writer can send no more, and with the server's ctx
	cancel context.CancelFunc
}

func newSession(s *Server, conn net.Conn, codec Codec) *session {
	c := &session{server: s, id: s.lastID.Add(1), conn: conn, codec: codec, forget: func() {},
		caller: Caller{server: s, connected: true}, unsent: newUnsent(s.options.UnsentRepliesMax, s.options.UnsentBytesMax)}
	c.tryWriter = trywrite.New(conn)
	c.late.moved = sync.NewCond(&c.late.mu)
	c.clock = &deadlines{session: c, limits: s.limits.Load()}
	frameBytesMax := s.options.FrameBytesMax
	if s.options.Tokens != nil {
		frameBytesMax = min(frameBytesMax, authFrameBytesMax)
	}
	c.frames = codec.NewFrames(c.clock, frameBytesMax, c.admit)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.caller.place.end = c.closeDisplaced
	return c
}

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
	c.caller.endOrders()
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

// closeDisplaced ends a session whose place was given to another connection.
func (c *session) closeDisplaced() {
	c.cancel()
	c.cutOff()
}

// drain lets the reader read what has already arrived, and then end. The server must be draining.
func (c *session) drain() {
	_ = c.conn.SetReadDeadline(time.Now().Add(drainGrace))
}

// stop ends the reader at once.
func (c *session) stop() {
	c.cancel()
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
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
		if err := c.gather(b, frame); err != nil {
			c.server.release(b)
			return c.explain(err)
		}
		c.server.options.Metrics.lap(&b.watch, stageDecode)
		if c.caller.tokenEnded() {
			c.server.release(b)
			return c.explain(errTokenEnded)
		}
		asked := max(b.frames, len(b.commands))
		for b != nil {
			rest := c.server.split(b)
			if !c.execute(b, begun) {
				return textFailed
			}
			b = rest
		}
		if c.caller.Over(asked) > 0 {
			if err := c.caller.waitForRate(c.ctx, c.checkPeer); err != nil {
				return c.explain(err)
			}
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
// error means that there was no memory for the first.
func (c *session) gather(b *batch, frame []byte) error {
	o := &c.server.options
	memory := c.codec.Memory(frame)
	if err := c.server.hold(c.ctx, b, memory); err != nil {
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

// checkPeer returns io.EOF if the client has closed its side and no frame of it is left, and another error if
// nothing can be sent to it any more.
func (c *session) checkPeer() error {
	err := peerError(c.conn)
	if err == io.EOF && (c.next != nil || c.frames.Buffered()) {
		return nil
	}
	return err
}

// admit reserves memory for a large frame that has begun to arrive: twice its size, because the buffer is
// copied when it grows. The client's FrameTimeout starts afresh afterwards. A server that shuts down accepts
// no further large frame.
func (c *session) admit(frameBytes int) (err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	c.arriving, err = c.server.arriving.wait(ctx, 2*frameBytes, c.server.limits.Load().FrameTimeout)
	if err != nil && c.server.isDraining() {
		return os.ErrDeadlineExceeded // the same error as a read of such a session
	}
	c.clock.rearm()
	return err
}

// arrived releases the memory of a large frame that is decoded, or that will not be.
func (c *session) arrived() {
	c.frames.Release()
	c.server.arriving.release(c.arriving)
	c.arriving = 0
}

// push sends a reply at once if it can. Otherwise it hands the reply to the writer, which is woken once the
// reply is durable or the session is cut off.
func (c *session) push(r *reply) {
	if c.trySend(r) {
		return
	}
	mark := r.mark
	c.unsent.push(r) // r belongs to the writer from here on
	if mark == (engine.Mark{}) || c.ctx.Err() != nil {
		c.unsent.wake()
	} else {
		c.server.exchange.Notify(mark, c.unsent.woken)
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

// write sends the replies in order, each once it is durable. After a failure it stops the reader and discards
// the remaining replies. It returns whether the last reply told the client why its connection is closed.
func (c *session) write() (gotReason bool) {
	failed := false
	for r := c.unsent.front(); r != nil; r = c.unsent.front() {
		if !failed {
			if gotReason, failed = c.send(r); failed {
				c.stop()
			}
		}
		c.unsent.drop()
		c.server.recycle(r)
	}
	return gotReason
}

// send sends one reply. If the reply can never become durable, it sends textFailed instead.
func (c *session) send(r *reply) (gotReason, failed bool) {
	o := &c.server.options
	err := c.server.await(c.ctx, r.mark)
	if !r.durable {
		o.Metrics.lap(&r.watch, stageJournal)
	}
	if err != nil {
		gotReason = c.transmit(c.lastReply(textFailed).bytes) == nil
	} else if err = c.sendWhole(r); err == nil {
		if !r.last {
			o.Metrics.answered(r)
		}
		return r.last, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		o.Metrics.hit(limitWriteTime)
	}
	c.log(slog.LevelInfo, "replies are not sent", r.frame, slog.Any("error", err))
	return gotReason, true
}

// sendWhole sends the rest of a reply, and waits for the client if necessary.
func (c *session) sendWhole(r *reply) error {
	if rest := c.sendSome(r); len(rest) > 0 {
		return c.transmit(rest)
	}
	return nil
}

// transmit writes to the client. The client has WriteTimeout for each piece, and less than that on average
// for all of them (writePieceTime).
func (c *session) transmit(bytes []byte) error {
	patience := c.within(c.server.limits.Load().WriteTimeout)
	last := time.Now().Add(patience + time.Duration(len(bytes)/writeBytesMax)*writePieceTime)
	for len(bytes) > 0 {
		deadline := time.Now().Add(patience)
		if last.Before(deadline) {
			deadline = last
		}
		if err := c.conn.SetWriteDeadline(deadline); err != nil {
			return fmt.Errorf("session: write reply: %w", err)
		}
		n, err := c.conn.Write(bytes[:min(len(bytes), writeBytesMax)])
		if err != nil {
			return fmt.Errorf("session: write reply: %w", err)
		}
		bytes = bytes[n:]
	}
	return nil
}

// linger closes the sending side, then reads and discards within bounds. A connection that is closed with
// unread bytes is reset, which could lose the last reply.
func (c *session) linger() { c.lingerOn(c.conn) }

// lingerOn is linger for a given connection, such as the TCP connection below TLS.
func (c *session) lingerOn(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if conn.SetReadDeadline(time.Now().Add(c.server.options.LingerTimeout)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, lingerBytesMax) // how it ends does not matter
}
