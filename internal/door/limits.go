package door

import "time"

// Limits are those Options that may be changed while a Server runs.
type Limits struct {
	ConnectionsMax int
	IdleTimeout    time.Duration
	FrameTimeout   time.Duration
	WriteTimeout   time.Duration
}

// SetLimits changes the limits. Each must be above 0. Open connections stay, even if they are more than the
// new limit. The new IdleTimeout and FrameTimeout also hold for frames and idle times that have already
// begun, counted from their beginning. Replies that are being sent keep the old WriteTimeout.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.rereadLimits()
	}
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
