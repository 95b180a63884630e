package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
)

// Caller is who asks by Call: a connection that Enter let in, or one request of a transport that has no connections of
// its own here (Request). It is for one goroutine at a time; Leave may be called from another once the last Call has
// returned.
type Caller struct {
	server    *Server
	grant     *auth.Grant
	connected bool // it has a place, and an origin
	place     place
	left      bool           // guarded by the server's mu
	origin    *engine.Origin // of its orders that end with the connection; nil if there was none yet
	sent      allowance      // of the connection's rate
	rate      int64          // which sent is of
}

// errNoOrigin is a bug of a door: an order that ends with a connection, of a caller that has none.
var errNoOrigin = errors.New("session: an order of no connection ends with one")

// Request returns the caller of one request over a transport that has no connection of its own here: no order of it may
// end with a connection, and of all these only answersMax are executed at a time (ErrBusy). grant is nil if nobody has
// to prove anything.
func (s *Server) Request(grant *auth.Grant) *Caller { return &Caller{server: s, grant: grant} }

// Enter gives a connection of another transport a place among ConnectionsMax, until Leave. grant is what the client has
// proved already, nil for nothing. While tokens are asked for and it is nil, the connection may have to give way to
// others: then abort is called, which ends it without waiting. The error says to the client why there is no place.
func (s *Server) Enter(client string, grant *auth.Grant, abort func()) (*Caller, error) {
	c := &Caller{server: s, connected: true, place: place{end: abort}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		return nil, errors.New("the exchange is stopping")
	}
	most := s.limits.Load().ConnectionsMax
	if s.served >= most {
		s.options.Metrics.hit(limitConnections)
		if !s.displace() {
			s.options.Log.Warn("a connection is refused: there are too many", slog.String("client", client))
			return nil, fmt.Errorf("the exchange has %d connections and takes no more; try again later", most)
		}
	}
	if grant != nil {
		if err := c.prove(grant); err != nil {
			return nil, err
		}
	} else if s.options.Tokens != nil {
		c.place.unproved = s.unproved.PushBack(&c.place)
	}
	s.served++
	return c, nil
}

// Grant returns what the caller may do; nil if nobody has to prove anything, and before Prove.
func (c *Caller) Grant() *auth.Grant { return c.grant }

// Prove has the caller act as the bearer of a token from here on: it gives way to nobody then. The error says to the
// client that the token has too many connections.
func (c *Caller) Prove(grant *auth.Grant) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.prove(grant)
}

// prove is Prove for callers who hold the server's mu.
func (c *Caller) prove(grant *auth.Grant) error {
	if full := c.server.bear(&c.place, grant); full > 0 {
		return fmt.Errorf("the token has %d connections and may have no more; try again later", full)
	}
	c.grant = grant
	return nil
}

// Leave gives the place back, and has the orders canceled that end with the connection. It is called behind the last
// Call; further calls do nothing.
func (c *Caller) Leave() {
	s := c.server
	s.mu.Lock()
	if c.left || !c.connected {
		s.mu.Unlock()
		return
	}
	c.left = true
	s.quit(&c.place)
	s.mu.Unlock()
	if c.origin != nil {
		s.exchange.EndOrigin(c.origin)
	}
}

// begins returns what the orders of the connection name that are canceled when it ends.
func (c *Caller) begins() *engine.Origin {
	if !c.connected {
		panic(errNoOrigin)
	}
	if c.origin == nil {
		c.origin = c.server.exchange.NewOrigin()
	}
	return c.origin
}

// SlowDown waits for as long as the connection should not be read from, now that it has sent so many requests more
// (Over). It returns early at the end of ctx, and when the server shuts down.
func (c *Caller) SlowDown(ctx context.Context, requests int) {
	over := c.Over(requests)
	if over <= 0 {
		return
	}
	timer := time.NewTimer(over)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.server.Draining():
	case <-ctx.Done():
	}
}

// Over returns for how long the connection should not be read from, as it has sent more than its rate allows, now that
// it has sent so many requests more; 0 if it has not. It is at most a minute.
func (c *Caller) Over(requests int) time.Duration {
	rate := c.server.connectionRate.Load()
	if rate != c.rate {
		c.sent, c.rate = allowance{}, rate
	}
	if rate == 0 {
		return 0
	}
	now := time.Now()
	if c.sent.take(requests, rate, now) == 0 {
		return 0
	}
	c.sent.bound(slowMax, now)
	c.server.options.Metrics.hit(limitRateConnection)
	return c.sent.over(now)
}
