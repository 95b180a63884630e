package gateway

// A connection has a place among ConnectionsMax before it has shown who it is. So that
// those who never do shut nobody out, the one that has not for the longest time gives way
// when there are as many as there may be: in a handshake, or before its token.

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
	s.settled(c)
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
	s.settled(c)
}

// settled takes a session off the list of those that have not proved anything, if it is
// there. Its caller holds mu.
func (s *Server) settled(c *session) {
	if c.unproved != nil {
		s.unproved.Remove(c.unproved)
		c.unproved = nil
	}
}
