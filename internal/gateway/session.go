package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"outcry/internal/wire"
)

// session is one connection.
type session struct {
	server *Server
	conn   net.Conn
	reader *wire.FrameReader
	clock  *deadlines
	out    chan *job // from the reader to the writer

	ctx    context.Context // ends when the writer can send no more
	cancel context.CancelFunc
}

func newSession(s *Server, conn net.Conn) *session {
	c := &session{server: s, conn: conn, out: make(chan *job, s.options.RepliesQueueMax)}
	c.clock = &deadlines{session: c}
	c.reader = wire.NewFrameReader(c.clock, s.options.FrameBytesMax)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// drain lets the session read what has already arrived, and then end.
func (c *session) drain() {
	_ = c.conn.SetReadDeadline(time.Now().Add(drainGrace))
}

// run serves the connection until it ends.
func (c *session) run() {
	defer c.conn.Close()
	defer c.cancel()
	sent := make(chan bool)
	go func() { sent <- c.write() }()
	reason := c.read()
	if reason != "" {
		j := c.server.jobs.Get().(*job)
		j.reset()
		j.reply = c.server.frame(j.reply, wire.AppendError(nil, reason))
		c.out <- j
	}
	close(c.out)
	if ok := <-sent; ok && reason != "" {
		c.server.linger(c.conn)
	}
}

// read executes frames until the client or the server ends that. It returns what
// the client is to be told as the last reply, "" where nothing is.
func (c *session) read() (reason string) {
	for {
		frame, err := c.reader.Next()
		if err != nil {
			return c.explain(err)
		}
		j := c.server.jobs.Get().(*job)
		j.reset()
		if err = c.gather(j, frame); err == nil {
			err = c.server.do(c.ctx, j)
		}
		if err != nil {
			c.server.options.Log.Debug("a connection ends", "client", c.conn.RemoteAddr(), "error", err)
			return "the exchange is stopping; whether the last requests were done is known after it has started again"
		}
		c.out <- j
	}
}

// gather decodes a frame and all others that are already here, up to a bound.
func (c *session) gather(j *job, frame []byte) error {
	o := &c.server.options
	j.add(frame)
	for j.frames < o.BatchFramesMax && j.bytes < o.BatchBytesMax && c.reader.Buffered() {
		frame, err := c.reader.Next()
		if err != nil {
			return nil // the next call of Next says so again
		}
		j.add(frame)
	}
	c.clock.rearm()
	return c.ctx.Err()
}

// explain turns what ended the reading into a reason for the client. It counts
// limits and logs what somebody may want to know.
func (c *session) explain(err error) (reason string) {
	o := &c.server.options
	var frame *wire.FrameError
	switch {
	case c.server.draining.Load(), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ""
	case errors.As(err, &frame):
		o.Metrics.hit(limitFrame)
		reason = frame.Text
	case errors.Is(err, os.ErrDeadlineExceeded) && c.reader.InFrame():
		o.Metrics.hit(limitFrameTime)
		reason = fmt.Sprintf("a frame did not arrive within %s", o.FrameTimeout)
	case errors.Is(err, os.ErrDeadlineExceeded):
		o.Metrics.hit(limitIdle)
		reason = fmt.Sprintf("nothing was sent for %s", o.IdleTimeout)
	}
	o.Log.Info("a connection is closed", "client", c.conn.RemoteAddr(), "reason", reason, "error", err)
	return reason
}

// write sends the replies in order, each once it may be told. It returns false
// when that failed; the rest is then thrown away and the reader is stopped.
func (c *session) write() (ok bool) {
	ok = true
	for j := range c.out {
		if ok {
			if err := c.send(j); err != nil {
				ok = false
				c.cancel()
				c.conn.Close()
				if c.server.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
					c.server.options.Log.Info("replies cannot be sent", "client", c.conn.RemoteAddr(), "error", err)
				}
			}
		}
		j.trim()
		c.server.jobs.Put(j)
	}
	return ok
}

func (c *session) send(j *job) error {
	if j.seq > 0 {
		if err := c.server.exchange.Durable(c.ctx, j.seq); err != nil {
			return err
		}
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(j.reply); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.server.options.Metrics.hit(limitWriteTime)
		}
		return err
	}
	c.server.options.Metrics.took(j)
	return nil
}

// deadlines reads from the connection and keeps its deadlines: one for the time
// without a frame, and from a frame's first byte on one for the frame. It is used
// by the reader alone.
type deadlines struct {
	session *session
	armed   bool
	inFrame bool // what the deadline that is armed is for
}

// rearm begins a new deadline with the next read.
func (d *deadlines) rearm() { d.armed = false }

// Read implements io.Reader.
func (d *deadlines) Read(p []byte) (int, error) {
	c := d.session
	if inFrame := c.reader.InFrame(); !d.armed || inFrame != d.inFrame {
		d.armed, d.inFrame = true, inFrame
		timeout := c.server.options.IdleTimeout
		if inFrame {
			timeout = c.server.options.FrameTimeout
		}
		if err := c.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return 0, err
		}
	}
	if c.server.draining.Load() {
		c.drain()
	}
	return c.conn.Read(p)
}
