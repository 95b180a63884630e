package door

import (
	"errors"
	"os"
	"time"
)

// deadlines reads from a session's connection and enforces the client's timeouts: IdleTimeout from the last
// reply to the first byte of the next frame, and FrameTimeout from there to the frame's end. Both are fixed
// points in time, so a client cannot extend them with single bytes or blank lines. Only the session's reader
// uses it.
type deadlines struct {
	session *session
	idle    time.Time // the next frame must begin before; may be out of date (prolong); zero before the first read
	prove   time.Time // the client must have presented its token before; zero once it has, or if it need not
	frame   time.Time // the frame that has begun must be complete before; zero while none has begun
	drained time.Time // a session of a server that shuts down reads until then; zero before the shutdown
	armed   time.Time // the read deadline that was last set here; others may have set another one since
	limits  *Limits   // the limits that idle and frame were computed with
}

// rearm ends the time of the present frame; the next frame's begins with the next read. It leaves the idle
// time alone: when that is over, prolong computes it from the last reply. So a busy connection does not set a
// timer for each frame.
func (d *deadlines) rearm() { d.frame = time.Time{} }

// restart clears all timeouts of the client; they are computed afresh at the next read.
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

// arm sets the connection's read deadline. Code that wants to end a read first changes the server's or the
// session's context (or the limits), and then sets a deadline of its own. arm checks these after it has set
// its deadline. So it cannot overwrite such a deadline unnoticed.
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

// until returns the deadline that holds for the next read. A carriage return alone may begin a blank line or
// a malformed length: it starts the frame's time, but does not extend the idle time.
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

// within returns the shorter of a limit and the silence that the client has set for its connection. A silent
// peer may be gone, so that no wait for it should be longer than that silence.
func (c *session) within(limit time.Duration) time.Duration {
	if silence := time.Duration(c.silence.Load()); silence > 0 {
		return min(limit, silence)
	}
	return limit
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
