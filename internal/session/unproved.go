package session

import "outcry/internal/auth"

// A connection has a place among ConnectionsMax before it has shown who it is. So that
// those who never do shut nobody out, the one that has not for the longest time gives way
// when there are as many as there may be: in a handshake, or before its token. And so that
// the bearer of a token shuts nobody else out either, the last places are for others.

// asks reports whether clients have to prove something, if only that they speak TLS.
func (s *Server) asks() bool { return s.options.TLS != nil || s.options.Tokens != nil }

// displace ends the session that has proved nothing for the longest time, and reports
// whether there was one. Its caller holds mu.
func (s *Server) displace() bool {
	oldest := s.unproved.Front()
	if oldest == nil {
		return false
	}
	c := oldest.Value.(*session)
	s.unlist(c)
	s.served--
	c.displaced = true
	c.cancel()
	c.cutOff()
	return true
}

// proved says that a session has proved all that is asked.
func (s *Server) proved(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(c)
}

// enter gives a session the right to act as the bearer of a token, and keeps it for those
// with the same. If they are as many as one token may have, it returns how many that is.
func (s *Server) enter(c *session, grant *auth.Grant) (full int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.limits.Load().ConnectionsMax
	most = max(1, most-max(1, most/othersShare))
	if s.bearers[grant.ID] >= most {
		s.options.Metrics.hit(limitConnections)
		return most
	}
	s.unlist(c)
	s.bearers[grant.ID]++
	c.bearer = grant.ID
	return 0
}

// leave is the end of what enter began, if it did. Its caller holds mu.
func (s *Server) leave(c *session) {
	if c.bearer == "" {
		return
	}
	if s.bearers[c.bearer]--; s.bearers[c.bearer] == 0 {
		delete(s.bearers, c.bearer)
	}
}

// unlist takes a session off the list of those that have not proved anything, if it is
// there. Its caller holds mu.
func (s *Server) unlist(c *session) {
	if c.unproved != nil {
		s.unproved.Remove(c.unproved)
		c.unproved = nil
	}
}
