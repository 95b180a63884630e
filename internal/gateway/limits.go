package gateway

import "time"

// Limits are those Options that may be changed while a Server runs.
type Limits struct {
	ConnectionsMax int
	IdleTimeout    time.Duration
	FrameTimeout   time.Duration
	WriteTimeout   time.Duration
}

// SetLimits puts other limits in force, each of which must be above 0. Connections that
// there are keep their place where there may be fewer now. What is idle now, or sends a
// frame, has had the new time since its last reply, or since the frame's first byte;
// replies that are being sent keep the time that they were given.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.rethink()
	}
}

// rethink has a reader that waits look at the limits again. The server's must have been
// changed before.
func (c *session) rethink() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }
