package door

import (
	"container/list"

	"outcry/internal/auth"
)

// A connection has a place among ConnectionsMax before its client has authenticated. Clients that never
// authenticate must not shut others out. So when all places are in use, the oldest connection that is still
// in its handshake, or has not presented its token, is closed for a new one. And so that the bearers of one
// token cannot shut out all others, the last places are not given to them.

// place is one of the ConnectionsMax places, of a session or of a connection of another transport (Caller).
// The server's mu guards it, except end.
type place struct {
	end       func()        // ends the connection without waiting
	unproved  *list.Element // in Server.unproved; nil once authenticated or if nothing is asked
	displaced bool          // its place was given to another connection
	bearer    string        // the token's ID in Server.bearers; "" before the token was accepted
}

// needsProof reports whether clients have to prove something, even if only that they use TLS.
func (s *Server) needsProof() bool { return s.options.TLS != nil || s.options.Tokens != nil }

// displace closes the oldest connection that has not authenticated, and reports whether there was one. Its
// caller holds mu.
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

// proved records that a session has proved all that is asked.
func (s *Server) proved(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(&c.place)
}

// enter counts a session as one that uses a token. If the token already has as many connections as it may
// have, enter returns that number and changes nothing; otherwise it returns 0.
func (s *Server) enter(c *session, grant *auth.Grant) (full int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.countBearer(&c.place, grant)
}

// countBearer does the work of enter, for any place. Its caller holds mu.
func (s *Server) countBearer(p *place, grant *auth.Grant) (full int) {
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

// giveBack gives a place back. Its caller holds mu.
func (s *Server) giveBack(p *place) {
	s.unlist(p)
	s.uncountBearer(p)
	if !p.displaced {
		s.served--
	}
}

// uncountBearer undoes countBearer, if that was called. Its caller holds mu.
func (s *Server) uncountBearer(p *place) {
	if p.bearer == "" {
		return
	}
	if s.bearers[p.bearer]--; s.bearers[p.bearer] == 0 {
		delete(s.bearers, p.bearer)
	}
}

// unlist removes a place from Server.unproved, if it is there. Its caller holds mu.
func (s *Server) unlist(p *place) {
	if p.unproved != nil {
		s.unproved.Remove(p.unproved)
		p.unproved = nil
	}
}
