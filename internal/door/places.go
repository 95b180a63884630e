package door

import (
	"container/list"
	"fmt"

	"outcry/internal/auth"
)

// A connection has a place among ConnectionsMax before its client has authenticated. Clients that never authenticate
// must not shut others out. So when all places are in use, the oldest connection that is still in its handshake, or
// has not presented its token, is closed for a new one. And the holders of one token never get the last places, so
// that they cannot shut out all others.

// place is one of the ConnectionsMax places. It belongs to a Caller that is a connection.
// The server's mu guards it, except end.
type place struct {
	end       func()        // ends the connection without waiting
	unproved  *list.Element // in Server.unproved; nil once authenticated, or if the server requires no proof
	displaced bool          // its place was given to another connection
	bearer    string        // the token's ID in Server.bearers; "" before the token was accepted
}

// needsProof reports whether the server requires a token or TLS of its clients.
func (s *Server) needsProof() bool { return s.options.TLS != nil || s.options.Tokens != nil }

// takePlace takes one of the ConnectionsMax places for a new connection. If all are in use, it takes the place of
// the oldest connection that has not authenticated. If there is no such connection, it returns an error whose text
// is for the client. Its caller holds mu.
func (s *Server) takePlace() error {
	most := s.limits.Load().ConnectionsMax
	if s.served >= most {
		s.options.Metrics.hit(limitConnections)
		if !s.displace() {
			return fmt.Errorf("the exchange has %d connections and accepts no more; try again later", most)
		}
	}
	s.served++
	return nil
}

// displace closes the oldest connection that has not authenticated, and reports whether there was one. Its
// caller holds mu.
func (s *Server) displace() bool {
	oldest := s.unproved.Front()
	if oldest == nil {
		return false
	}
	p := oldest.Value.(*place)
	s.unlistUnproved(p)
	s.served--
	p.displaced = true
	p.end()
	return true
}

// listUnproved adds the place of a connection that must authenticate. Its caller holds mu.
func (s *Server) listUnproved(p *place) { p.unproved = s.unproved.PushBack(p) }

// unlistUnproved removes a place from Server.unproved, if it is there. Its caller holds mu.
func (s *Server) unlistUnproved(p *place) {
	if p.unproved != nil {
		s.unproved.Remove(p.unproved)
		p.unproved = nil
	}
}

// countBearer counts a connection as one that uses a token, and protects its place from being given to others. If the
// token already has as many connections as it may have, countBearer changes nothing and returns an error whose text is
// for the client. Its caller holds mu.
func (s *Server) countBearer(p *place, grant *auth.Grant) error {
	most := s.limits.Load().ConnectionsMax
	most = max(1, most-max(1, most/othersShare))
	if s.bearers[grant.ID] >= most {
		s.options.Metrics.hit(limitConnections)
		return fmt.Errorf("the token has %d connections and is allowed no more; try again later", most)
	}
	s.unlistUnproved(p)
	s.bearers[grant.ID]++
	p.bearer = grant.ID
	return nil
}

// giveBack frees a place. Its caller holds mu.
func (s *Server) giveBack(p *place) {
	s.unlistUnproved(p)
	if p.bearer != "" {
		if s.bearers[p.bearer]--; s.bearers[p.bearer] == 0 {
			delete(s.bearers, p.bearer)
		}
	}
	if !p.displaced {
		s.served--
	}
}
