package door

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math"
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

// Limits of a connection that has not yet presented its token.
const (
	handshakeTimeout  = 10 * time.Second // for the TLS handshake
	authFrameBytesMax = 4 << 10
)

// AuthTimeout is how long a connection of any protocol may stay open before its client has presented a token, if
// tokens are required.
const AuthTimeout = 10 * time.Second

// LimitKey is the attribute of log lines that names the limit a client has run into, with the names of the
// metric outcry_limit_hits_total.
const LimitKey = "limit"

// errTokenEnded is the error of a read during which the session's token expired or was revoked.
var errTokenEnded = errors.New("session: the token has ended")

// session is one connection.
type session struct {
	server *Server
	id     uint64 // numbers the server's connections from 1
	conn   net.Conn
	codec  Codec
	frames Frames
	clock  *deadlines
	unsent *unsent // replies on their way from the reader to the writer
	caller Caller  // the connection as a sender of commands; used by the reader
	forget func()  // stops watching for the end of the grant

	// The fields below are used by the reader only.
	next     []byte // a frame that did not fit into the last batch, or nil
	arriving int64  // memory of the server reserved for the arriving frame
	named    bool   // it was known who pays for the last large frame before it used memory of the server
	executed uint64 // number of frames executed so far

	onDisconnect bool // orders without an instruction of their own are canceled when the connection ends

	silence atomic.Int64 // the client wants the connection to end after this silence, in nanoseconds; 0 if not set

	late late // batches that wait for the history, and the batches after them

	// tryWriter is nil if the connection cannot write without waiting. While no reply is unsent, it belongs
	// to the goroutine that pushes replies: answerLate while that is running, else the reader. Otherwise it
	// belongs to the writer.
	tryWriter *trywrite.Writer

	readingMu sync.Mutex
	reading   bool // the session reads frames, under the deadlines of Limits

	ctx    context.Context // ends when the writer can no longer send, or with the server's ctx
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

// admit reserves memory for a large frame that has begun to arrive: twice its size, because the buffer is
// copied when it grows. Before that, it waits until the client is within its share, as far as head shows who pays.
// The client's FrameTimeout then starts again. A server that shuts down accepts no further large frame.
func (c *session) admit(head []byte, frameBytes int) (err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	commands, named := c.caller.expect(c.codec, head)
	for c.named = named; ; c.release() {
		if err := c.waitForTurn(commands); err != nil {
			return err
		}
		c.arriving, err = c.server.arriving.wait(ctx, 2*frameBytes, c.server.limits.Load().FrameTimeout)
		if err != nil && c.server.isDraining() {
			return os.ErrDeadlineExceeded // the same error as a read of such a session
		}
		if err != nil || !c.caller.above(ctx, commands) {
			c.clock.rearm()
			return err
		}
	}
}

// waitForTurn waits until the client is within its share of the followers' pending work, before commands are executed.
// The error is that nothing can be sent to the client any more.
func (c *session) waitForTurn(commands []engine.Request) error {
	waited, err := c.caller.waitForFollowers(c.ctx, commands, math.MaxInt64, c.checkLost)
	if waited {
		c.clock.restart() // the client was not read, so could not meet its deadlines
	}
	return err
}

// checkLost returns an error if nothing can be sent to the client any more. A client that has only closed its side
// still gets replies.
func (c *session) checkLost() error {
	if err := peerError(c.conn); err != io.EOF {
		return err
	}
	return nil
}

// arrived releases the memory of a large frame once it is decoded, or if it will not be.
func (c *session) arrived() {
	c.frames.Release()
	c.release()
}

// release releases the memory of the arriving frame.
func (c *session) release() {
	c.server.arriving.release(c.arriving)
	c.arriving = 0
}

// log writes a line about the connection, with its number, which is also in its last reply, and its address.
// frame is the number of the frame that the line is about, counted from 1, or 0 for none.
func (c *session) log(level slog.Level, message string, frame uint64, attrs ...slog.Attr) {
	l := c.server.options.Log
	if !l.Enabled(context.Background(), level) {
		return
	}
	all := []slog.Attr{slog.Uint64("connection", c.id), slog.String("client", c.conn.RemoteAddr().String())}
	if frame > 0 {
		all = append(all, slog.Uint64("frame", frame))
	}
	l.LogAttrs(context.Background(), level, message, append(all, attrs...)...)
}

// within returns the shorter of a limit and the silence that the client has set for its connection. A silent peer may
// be gone, so no wait for it should be longer than that silence.
func (c *session) within(limit time.Duration) time.Duration {
	if silence := time.Duration(c.silence.Load()); silence > 0 {
		return min(limit, silence)
	}
	return limit
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

// cutOff closes the connection at once. For TLS it closes the connection below, because the closing alert of
// TLS would wait for a client that does not read.
func (c *session) cutOff() {
	conn := c.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// rereadLimits wakes a reader that waits for a frame, so that it reads the limits again. Call it after the
// server's limits have changed. Reads for other purposes, the handshake and linger, have deadlines of their
// own and are not woken.
func (c *session) rereadLimits() {
	c.readingMu.Lock()
	defer c.readingMu.Unlock()
	if c.reading {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// setReading records whether the session reads frames at present.
func (c *session) setReading(reading bool) {
	c.readingMu.Lock()
	defer c.readingMu.Unlock()
	c.reading = reading
}

// deadlines reads from a session's connection and enforces the client's timeouts: IdleTimeout from the last
// reply to the first byte of the next frame, and FrameTimeout from there to the frame's end. Both are fixed
// points in time, so a client cannot extend them with single bytes or blank lines. Only the session's reader
// uses it.
type deadlines struct {
	session *session
	idle    time.Time // deadline for the next frame to begin; may be outdated (prolong); zero before the first read
	prove   time.Time // deadline for the client's token; zero once it was presented, or if none is required
	frame   time.Time // deadline for the end of the frame in progress; zero if none is in progress
	drained time.Time // until then the session reads while the server shuts down; zero before the shutdown
	armed   time.Time // the read deadline that this type last set; other code may have set another one since
	limits  *Limits   // the limits that idle and frame were computed with
}

// rearm clears the deadline of the current frame; the next frame's begins with the next read. It leaves the idle time
// alone: when that is over, prolong computes it from the last reply. So a busy connection does not set a timer for
// each frame.
func (d *deadlines) rearm() { d.frame = time.Time{} }

// restart clears all timeouts of the client; the next read computes them again.
func (d *deadlines) restart() { d.idle, d.frame = time.Time{}, time.Time{} }

// Read implements io.Reader. It returns os.ErrDeadlineExceeded if the client took too long or the server
// shuts down, and the context's error once the session has been stopped.
func (d *deadlines) Read(p []byte) (int, error) {
	for {
		if err := d.arm(); err != nil {
			return 0, err
		}
		n, err := d.session.conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !d.relimit() && !d.early() && !d.prolong() {
			return n, err
		}
	}
}

// early reports whether a read ended before the client's deadline. A change of limits sets a deadline in the
// past, even if the reader already uses the new limits.
func (d *deadlines) early() bool {
	s := d.session
	if s.ctx.Err() != nil || s.server.isDraining() || s.caller.tokenEnded() || !time.Now().Before(d.armed) {
		return false
	}
	d.armed = time.Time{}
	return true
}

// prolong extends the deadline of an idle client, and reports whether it did. A client with unsent replies is
// not idle; the idle time counts from the moment when the last reply was sent.
func (d *deadlines) prolong() bool {
	if !d.frame.IsZero() || !d.drained.IsZero() || !d.prove.IsZero() || d.session.caller.tokenEnded() {
		return false
	}
	until := d.idleSince().Add(d.session.within(d.limits.IdleTimeout))
	if !until.After(d.idle) {
		return false
	}
	d.idle = until
	return true
}

// idleSince returns when the client became idle. It returns the present time while replies are unsent.
func (d *deadlines) idleSince() time.Time {
	if since, silent := d.session.unsent.silence(); silent && !d.session.late.busy.Load() {
		return since
	}
	return time.Now()
}

// relimit adopts changed limits, and reports whether they had changed.
func (d *deadlines) relimit() bool {
	now := d.session.server.limits.Load()
	if now == d.limits {
		return false
	}
	within := d.session.within
	since := d.idleSince()
	if since.IsZero() { // no reply yet
		since = d.idle.Add(-within(d.limits.IdleTimeout))
	}
	d.idle = since.Add(within(now.IdleTimeout))
	if !d.frame.IsZero() {
		d.frame = d.frame.Add(within(now.FrameTimeout) - within(d.limits.FrameTimeout))
	}
	d.limits = now
	d.armed = time.Time{} // SetLimits has set another deadline
	return true
}

// arm sets the connection's read deadline. Code that wants to end a read first changes the server's or the session's
// context (or the limits), and then sets a deadline of its own. arm checks these after it has set its deadline. So it
// never overwrites such a deadline unnoticed.
func (d *deadlines) arm() error {
	c := d.session
	for again := true; again; again = d.relimit() {
		if until := d.until(); until != d.armed {
			if err := c.conn.SetReadDeadline(until); err != nil {
				return err
			}
			d.armed = until
		}
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.caller.tokenEnded() {
		return errTokenEnded
	}
	if !c.server.isDraining() {
		return nil
	}
	if d.drained.IsZero() {
		d.drained = time.Now().Add(drainGrace)
	}
	return c.conn.SetReadDeadline(d.drained)
}

// until returns the deadline for the next read. A carriage return alone may begin a blank line or a malformed length:
// it starts the frame's time, but does not extend the idle time.
func (d *deadlines) until() time.Time {
	if !d.prove.IsZero() {
		return d.prove
	}
	if d.idle.IsZero() {
		d.idle = time.Now().Add(d.session.within(d.limits.IdleTimeout))
	}
	if !d.session.frames.InFrame() {
		d.frame = time.Time{}
		return d.idle
	}
	if d.frame.IsZero() {
		d.frame = time.Now().Add(d.session.within(d.limits.FrameTimeout))
	}
	return d.frame
}
