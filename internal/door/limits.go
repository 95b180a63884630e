package door

import "time"

// Limits are those Options that may be changed while a Server runs.
type Limits struct {
	ConnectionsMax int
	IdleTimeout    time.Duration
	FrameTimeout   time.Duration
	WriteTimeout   time.Duration
}

// SetLimits puts other limits in force, each of which must be above 0. Connections that
// there are keep their place even if there may be fewer now. What is idle now, or sends a
// frame, has had the new time since its last reply, or since the frame's first byte;
// replies that are being sent keep the time that they were given.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.rereadLimits()
	}
}

// rereadLimits has a reader that waits read the limits again. The server's must have been
// changed before. Who reads for another reason, to shake hands or to let the last reply
// arrive, has a time of its own.
func (c *session) rereadLimits() {
	c.readingMu.Lock()
	defer c.readingMu.Unlock()
	if c.reading {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// setReading says whether the session reads frames now.
func (c *session) setReading(reading bool) {
	c.readingMu.Lock()
	defer c.readingMu.Unlock()
	c.reading = reading
}
