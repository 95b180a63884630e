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

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/process/trywrite"
)

// What clients are told when the exchange ends before they do. Neither text
// reveals whether something was done that a crash could still undo.
const (
	textFailed   = "the exchange is stopping; whether the last requests were done is known after it has started again"
	textDraining = "the exchange is stopping; nothing that was sent after the last reply was done"
)

// textNoMemory is what the client of a large frame is told that was not done.
func textNoMemory(waited time.Duration) string {
	return fmt.Sprintf("the exchange had no memory for a frame of this size for %s; try again later, or with smaller "+
		"frames", waited)
}

// session is one connection.
type session struct {
	server *Server
	id     uint64 // counts the server's connections from 1
	conn   net.Conn
	codec  Codec
	frames Frames
	clock  *deadlines
	unsent *queue // from the reader to the writer
	place         // among ConnectionsMax

	grant  *auth.Grant // what the client has proved; nil if nobody asks, and before that
	forget func()      // takes back what happens when the grant ends

	// The reader's own.
	sent     allowance // of the connection's rate
	next     []byte    // a frame that found no room in its batch, nil if there is none
	arriving int64     // what the frame that arrives holds of the server's memory
	executed uint64    // frames

	// Of orders that are canceled when the connection ends, the reader's own too.
	onDisconnect bool           // all that do not say otherwise
	origin       *engine.Origin // nil if there was none yet

	silence atomic.Int64 // after which the client has the connection ended, in nanoseconds; 0 if it does not say

	late late // batches that wait for the history, or behind one

	// tryWriter belongs to who pushes replies while none is unsent, and else to the writer; nil
	// if the connection cannot do that. The reader pushes, or answerLate while it runs.
	tryWriter *trywrite.Writer

	readingMu sync.Mutex
	reading   bool // frames, so that the read deadline is that of the limits

	ctx    context.Context // ends when the writer can send no more, and with the server's
	cancel context.CancelFunc
}

func newSession(s *Server, conn net.Conn, codec Codec) *session {
	c := &session{server: s, id: s.lastID.Add(1), conn: conn, codec: codec, forget: func() {},
		unsent: newQueue(s.options.UnsentRepliesMax, s.options.UnsentBytesMax)}
	c.tryWriter = trywrite.New(conn)
	c.late.moved = sync.NewCond(&c.late.mu)
	c.clock = &deadlines{session: c, limits: s.limits.Load()}
	frameBytesMax := s.options.FrameBytesMax
	if s.options.Tokens != nil {
		frameBytesMax = min(frameBytesMax, authFrameBytesMax)
	}
	c.frames = codec.NewFrames(c.clock, frameBytesMax, c.admit)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.end = c.displacedNow
	return c
}

// serve is the session from its begin to its end. It returns when both goroutines
// have ended and the connection is closed.
func (c *session) serve() {
	defer c.conn.Close()
	defer c.cancel()
	if !c.secure() {
		return
	}
	if c.server.options.Tokens == nil {
		c.server.proved(c)
	}
	defer context.AfterFunc(c.ctx, c.unsent.wake)()
	told := make(chan bool, 1)
	go func() { told <- c.write() }()
	reason := c.read()
	if c.origin != nil {
		c.server.exchange.EndOrigin(c.origin)
	}
	c.late.wait()
	if reason != "" {
		c.push(c.lastReply(reason))
	}
	c.forget()
	c.unsent.close()
	if <-told {
		c.linger()
	}
}

// refuse tells a client why it gets no session.
func (c *session) refuse(reason string) {
	defer c.conn.Close()
	defer c.cancel()
	if c.secure() && c.transmit(c.lastReply(reason).bytes) == nil {
		c.linger()
	}
}

// displacedNow ends a session whose place another has.
func (c *session) displacedNow() {
	c.cancel()
	c.cutOff()
}

// drain lets the reader take what has already arrived, and then end. The server
// must be draining.
func (c *session) drain() {
	_ = c.conn.SetReadDeadline(time.Now().Add(drainGrace))
}

// stop ends the reader at once.
func (c *session) stop() {
	c.cancel()
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// read executes frames until the client or the server ends that. It returns what
// the client gets as the last reply, "" for none.
func (c *session) read() (reason string) {
	c.setReading(true)
	defer c.setReading(false)
	defer c.arrived()
	if reason, ok := c.prove(); !ok {
		return reason
	}
	for {
		frame, err := c.take()
		if err != nil {
			return c.explain(err)
		}
		begun := time.Now()
		b := c.server.takeBatch(c.codec)
		b.conn = c
		b.clock.start(begun)
		if err := c.gather(b, frame); err != nil {
			c.server.release(b)
			return c.explain(err)
		}
		c.server.options.Metrics.lap(&b.clock, stageDecode)
		if c.tokenEnded() {
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
		if rate := c.server.connectionRate.Load(); rate > 0 {
			if err := c.slowDown(rate, asked); err != nil {
				return c.explain(err)
			}
		}
	}
}

// take returns the next frame, as soon as it is whole.
func (c *session) take() ([]byte, error) {
	if frame := c.next; frame != nil {
		c.next = nil
		return frame, nil
	}
	return c.frames.Next()
}

// gather decodes a frame and all further ones that are already here, up to a bound.
// The error says why there was no memory for the first.
func (c *session) gather(b *batch, frame []byte) error {
	o := &c.server.options
	memory := c.codec.Memory(frame)
	if err := c.server.hold(c.ctx, b, memory); err != nil {
		return err
	}
	b.judge = c.server.judgeOf(c.grant)
	b.add(frame)
	c.arrived()
	for !b.large && b.frames < o.BatchFramesMax && c.frames.Buffered() {
		frame, err := c.frames.Next()
		if err != nil {
			break // the next call of Next says so again
		}
		more := c.codec.Memory(frame)
		if memory+more > o.BatchMemoryMax {
			c.next = frame
			break
		}
		memory += more
		b.add(frame)
	}
	b.cost = memory
	c.clock.rearm()
	return nil
}

// admit waits for the memory of a large frame that has begun to arrive; its buffer
// is there twice when it grows. The client has its time to send the frame anew. A
// server that shuts down takes none any more.
func (c *session) admit(frameBytes int) (err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	c.arriving, err = c.server.arriving.wait(ctx, 2*frameBytes, c.server.limits.Load().FrameTimeout)
	if err != nil && c.server.isDraining() {
		return os.ErrDeadlineExceeded // as when a session of such a server reads
	}
	c.clock.rearm()
	return err
}

// arrived gives back the memory of a large frame that is decoded, or will not be.
func (c *session) arrived() {
	c.frames.Release()
	c.server.arriving.release(c.arriving)
	c.arriving = 0
}

// push sends a reply at once, or hands it to the writer, who is woken once it is
// durable, or when the session is cut off.
func (c *session) push(r *reply) {
	if c.trySend(r) {
		return
	}
	mark := r.mark
	c.unsent.push(r) // from here on it is the writer's
	if mark == (engine.Mark{}) || c.ctx.Err() != nil {
		c.unsent.wake()
	} else {
		c.server.exchange.Notify(mark, c.unsent.woken)
	}
}

// explain turns what ended the reading into a reason for the client, "" if the
// client ended it. It counts limits, and logs what somebody may want to know.
func (c *session) explain(err error) (reason string) {
	o, patience := &c.server.options, c.server.limits.Load()
	var bad FrameError
	var l limit
	switch late := errors.Is(err, os.ErrDeadlineExceeded); {
	case c.ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ""
	case c.tokenEnded():
		c.log(slog.LevelInfo, "a connection is closed", c.executed+1, slog.String("token", c.grant.ID),
			slog.Any("error", c.grant.Err()))
		return c.grant.Err().Error() + "; nothing that was sent after the last reply was done"
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

// write sends the replies in order, each once it is durable. After a failure it
// stops the reader and throws the rest away. It returns whether the last that was
// sent told the client why its connection is closed.
func (c *session) write() (told bool) {
	failed := false
	for r := c.unsent.front(); r != nil; r = c.unsent.front() {
		if !failed {
			if told, failed = c.send(r); failed {
				c.stop()
			}
		}
		c.unsent.drop()
		c.server.recycle(r)
	}
	return told
}

// send sends one reply, or a reason if the reply is never to be seen.
func (c *session) send(r *reply) (told, failed bool) {
	o := &c.server.options
	err := c.server.await(c.ctx, r.mark)
	if !r.durable {
		o.Metrics.lap(&r.clock, stageJournal)
	}
	if err != nil {
		told = c.transmit(c.lastReply(textFailed).bytes) == nil
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
	return told, true
}

// sendWhole sends what is left of a reply, and waits for the client if it has to.
func (c *session) sendWhole(r *reply) error {
	if rest := c.sendSome(r); len(rest) > 0 {
		return c.transmit(rest)
	}
	return nil
}

// transmit writes to the client, which has WriteTimeout to take each piece, and is
// not to take all of them in the longest time.
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

// linger ends the sending side, then reads and discards within bounds. A connection
// that is closed with bytes unread is reset, and the last reply could be lost.
func (c *session) linger() { c.lingerOn(c.conn) }

// lingerOn is linger on what lies below TLS.
func (c *session) lingerOn(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if conn.SetReadDeadline(time.Now().Add(c.server.options.LingerTimeout)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, lingerBytesMax) // any end will do
}
