package door

import (
	"errors"
	"os"
	"time"
)

// deadlines reads from a session's connection and keeps the time that a client may
// take: IdleTimeout from the last reply to the first byte of the next frame,
// FrameTimeout from there to the frame's end. Both are points in time, so that
// single bytes or blank lines win nothing. The session's reader alone uses it.
type deadlines struct {
	session *session
	idle    time.Time // until when a frame must have begun, as far as is known; zero before the first read
	prove   time.Time // until when the client must have shown its token; zero if it need not, and after
	frame   time.Time // until when the begun frame must be here; zero if none has begun
	drained time.Time // until when a session of a server that shuts down reads; zero before that
	armed   time.Time // what the connection's read deadline is, as far as we set it
	limits  *Limits   // which idle and frame come from
}

// rearm lets the time for the next frame begin with the next read. The idle time is
// only checked when it is over: it then counts anew from the last reply (prolong),
// so that a busy connection does not set a timer for each frame.
func (d *deadlines) rearm() { d.frame = time.Time{} }

// restart lets all times of the client begin anew with the next read.
func (d *deadlines) restart() { d.idle, d.frame = time.Time{}, time.Time{} }

// Read implements io.Reader. It returns os.ErrDeadlineExceeded when the client took
// too long or the server shuts down, and the context's error once the session has
// been stopped.
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

// early reports whether the deadline that ended a read was not the client's: a change
// of limits sets one that is over, also if the reader has the limits already.
func (d *deadlines) early() bool {
	s := d.session
	if s.ctx.Err() != nil || s.server.isDraining() || s.tokenEnded() || !time.Now().Before(d.armed) {
		return false
	}
	d.armed = time.Time{}
	return true
}

// prolong gives an idle client more time, and reports whether it did: one that is owed
// a reply is not idle, and one that was owed a reply is so since it was sent.
func (d *deadlines) prolong() bool {
	if !d.frame.IsZero() || !d.drained.IsZero() || !d.prove.IsZero() || d.session.tokenEnded() {
		return false
	}
	until := d.idleSince().Add(d.session.within(d.limits.IdleTimeout))
	if !until.After(d.idle) {
		return false
	}
	d.idle = until
	return true
}

// idleSince returns when the client began to be idle: now, if it is owed a reply.
func (d *deadlines) idleSince() time.Time {
	if since, silent := d.session.unsent.silence(); silent && !d.session.late.busy.Load() {
		return since
	}
	return time.Now()
}

// relimit takes over limits that were changed, and reports whether they were.
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
	d.armed = time.Time{} // who changed them has set another one
	return true
}

// arm sets the connection's read deadline. Code that wants to end the reading sets
// a deadline of its own after it has said so in the server's or the session's context, and
// so does a change of limits. So these are checked after the deadline was set,
// and none can be missed.
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
	if c.tokenEnded() {
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

// until returns the point in time that the client must not miss now. A carriage
// return alone may begin a blank line as well as a wrong length: it begins the
// frame's time, but does not lengthen the idle time.
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
