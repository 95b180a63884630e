package door

import (
	"container/list"

	"outcry/internal/auth"
)

// A connection has a place among ConnectionsMax before it has shown who it is. So that
// those who never do shut nobody out, the one that has not for the longest time gives way
// when there are as many as there may be: in a handshake, or before its token. And so that
// the bearer of a token shuts nobody else out either, the last places are for others.

// place is one among ConnectionsMax: of a session, or of a connection of another transport (Caller). The server's mu
// guards it, except end.
type place struct {
	end       func()        // ends the connection without waiting
	unproved  *list.Element // among those that have to prove who they are; nil for others
	displaced bool          // another has its place
	bearer    string        // the ID of the token among the server's bearers; "" before it is
}

// asks reports whether clients have to prove something, if only that they speak TLS.
func (s *Server) asks() bool { return s.options.TLS != nil || s.options.Tokens != nil }

// displace ends the connection that has proved nothing for the longest time, and reports
// whether there was one. Its caller holds mu.
func (s *Server) displace() bool {
	oldest := s.unproved.Front()
	if oldest == nil {
		return false
	}
	p := oldest.Value.(*place)
	s.unlist(p)
	s.served--
	p.displaced = true
	p.end()
	return true
}

// proved says that a session has proved all that is asked.
func (s *Server) proved(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(&c.place)
}

// enter gives a session the right to act as the bearer of a token, and keeps it for those
// with the same. If they are as many as one token may have, it returns how many that is.
func (s *Server) enter(c *session, grant *auth.Grant) (full int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bear(&c.place, grant)
}

// bear is enter for a place. Its caller holds mu.
func (s *Server) bear(p *place, grant *auth.Grant) (full int) {
	most := s.limits.Load().ConnectionsMax
	most = max(1, most-max(1, most/othersShare))
	if s.bearers[grant.ID] >= most {
		s.options.Metrics.hit(limitConnections)
		return most
	}
	s.unlist(p)
	s.bearers[grant.ID]++
	p.bearer = grant.ID
	return 0
}

// quit gives a place back. Its caller holds mu.
func (s *Server) quit(p *place) {
	s.unlist(p)
	s.leave(p)
	if !p.displaced {
		s.served--
	}
}

// leave is the end of what bear began, if it did. Its caller holds mu.
func (s *Server) leave(p *place) {
	if p.bearer == "" {
		return
	}
	if s.bearers[p.bearer]--; s.bearers[p.bearer] == 0 {
		delete(s.bearers, p.bearer)
	}
}

// unlist takes a place off the list of those that have not proved anything, if it is
// there. Its caller holds mu.
func (s *Server) unlist(p *place) {
	if p.unproved != nil {
		s.unproved.Remove(p.unproved)
		p.unproved = nil
	}
}
