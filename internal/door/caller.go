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

// Caller is the sender of requests for Call: a connection that Enter admitted, or one request of a transport
// that does not use Enter for its connections (Request). It is for one goroutine at a time. Leave may be
// called from another goroutine once the last Call has returned.
type Caller struct {
	server    *Server
	grant     *auth.Grant
	connected bool // made by Enter: it has a place, and may have an origin
	place     place
	left      bool           // Leave was called; guarded by the server's mu
	origin    *engine.Origin // names the orders that are canceled when the connection ends; nil before the first
	sent      allowance      // what the connection has used of its rate
	rate      int64          // the rate that sent was computed with
}

// errNoOrigin is a bug of the calling transport: a caller from Request sent an order that is to be canceled
// when its connection ends.
var errNoOrigin = errors.New("session: an order is to end with its connection, but its caller has none")

// Request returns a Caller for one request of a transport that does not use Enter. Its orders must not ask to
// be canceled at the end of a connection (OnDisconnect); Call panics if one does. At most answersMax such
// requests are executed at a time (ErrBusy). grant is nil if no token is required.
func (s *Server) Request(grant *auth.Grant) *Caller { return &Caller{server: s, grant: grant} }

// Enter gives a connection of another transport one of the ConnectionsMax places, until Leave. grant is the
// client's grant if it has already presented its token, else nil. While tokens are required and grant is nil,
// the server may give the place to another connection: it then calls abort, which must end this one without
// waiting. The text of the error tells the client why there is no place.
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
			s.options.Log.Warn("a connection is refused: the limit is reached", slog.String("client", client))
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

// Grant returns what the caller may do. It is nil if no token is required, and before Prove.
func (c *Caller) Grant() *auth.Grant { return c.grant }

// Prove sets the grant of the caller, whose place then cannot be given to another connection. The text of the
// error tells the client that its token has too many connections.
func (c *Caller) Prove(grant *auth.Grant) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.prove(grant)
}

// prove is Prove for callers that hold the server's mu.
func (c *Caller) prove(grant *auth.Grant) error {
	if full := c.server.countBearer(&c.place, grant); full > 0 {
		return fmt.Errorf("the token has %d connections and may have no more; try again later", full)
	}
	c.grant = grant
	return nil
}

// Leave gives the place back and cancels the orders that end with the connection. Call it after the last Call
// has returned; further calls do nothing.
func (c *Caller) Leave() {
	s := c.server
	s.mu.Lock()
	if c.left || !c.connected {
		s.mu.Unlock()
		return
	}
	c.left = true
	s.giveBack(&c.place)
	s.mu.Unlock()
	if c.origin != nil {
		s.exchange.EndOrigin(c.origin)
	}
}

// originOfOrders returns the origin that links orders to this connection, so that they are canceled when it ends. It
// makes the origin on its first call.
func (c *Caller) originOfOrders() *engine.Origin {
	if !c.connected {
		panic(errNoOrigin)
	}
	if c.origin == nil {
		c.origin = c.server.exchange.NewOrigin()
	}
	return c.origin
}

// SlowDown counts requests toward the connection's rate, and waits for as long as the connection should not
// be read (Over). It returns early when ctx ends or the server shuts down.
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

// Over counts requests toward the connection's rate. It returns how long the connection should not be read, 0
// if it is within its rate. The result is at most slowMax, a minute.
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
