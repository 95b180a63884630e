package door

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// Caller is a sender of commands in any protocol: a connection to a port of Serve, a connection of another
// transport that Enter admitted, or one request of a transport that does not use Enter (Request). It has what the
// server applies to all commands of one sender: the grant, the place of the connection, its rate, and the origin of
// its orders. It is for one goroutine at a time. Leave may be called from another goroutine once the last Call has
// returned.
type Caller struct {
	server    *Server
	grant     *auth.Grant // nil if no token is required, and before the client has presented its token
	connected bool        // the caller is a connection: it has a place, and may have an origin
	client    string      // for a request, the address of its client (WithClient); "" if not known
	place     place
	left      bool           // Leave was called; guarded by the server's mu
	origin    *engine.Origin // names the orders that are canceled when the connection ends; nil before the first
	names     exchange.Names // names in its last frames
	sent      allowance      // what the connection has used of its rate
	rate      int64          // the rate that sent was computed with
	own       charge         // the followers' work that the connection has caused
	debts     []debt         // the part of own that is not yet in the charges of payers
	oneDebt   [1]debt        // memory of debts for a caller of one account
	unpaid    int64          // the work of all debts
	payer     uint64         // key of the token or account that was charged last
	expires   time.Time      // set by Expire; zero for never
}

// errNoOrigin is a bug of the calling transport: a caller from Request sent an order that is to be canceled
// when its connection ends.
var errNoOrigin = errors.New("session: an order should be canceled with its connection, but its caller has none")

// Request returns a Caller for one request of a transport that does not use Enter. Its orders must not ask to
// be canceled at the end of a connection (OnDisconnect); Call panics if one does. At most answersMax such
// requests are executed at a time (ErrBusy). grant is nil if no token is required.
func (s *Server) Request(grant *auth.Grant) *Caller { return &Caller{server: s, grant: grant} }

// Expire sets the time after which the client no longer wants its commands executed. A Call that has to wait for
// followers until then returns ErrExpired. A Call that need not wait does not look at the time.
func (c *Caller) Expire(at time.Time) { c.expires = at }

// Enter gives a connection of another transport one of the ConnectionsMax places, until Leave. grant is the
// client's grant if it has already presented its token, else nil. While tokens are required and grant is nil,
// the server may give the place to another connection: it then calls abort, which must end this one without
// waiting. The text of the error is for the client: why it gets no place.
func (s *Server) Enter(client string, grant *auth.Grant, abort func()) (*Caller, error) {
	c := &Caller{server: s, connected: true, place: place{end: abort}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		return nil, errors.New("the exchange is stopping")
	}
	if err := s.takePlace(); err != nil {
		s.options.Log.Warn("a connection is refused: the limit is reached", slog.String("client", client))
		return nil, err
	}
	if grant == nil && s.options.Tokens != nil {
		s.listUnproved(&c.place)
	}
	if grant != nil {
		if err := c.prove(grant); err != nil {
			s.giveBack(&c.place)
			return nil, err
		}
	}
	return c, nil
}

// Grant returns the caller's grant. It is nil if no token is required, and before Prove.
func (c *Caller) Grant() *auth.Grant { return c.grant }

// Prove sets the grant of the caller, whose place then cannot be given to another connection. The text of the
// error is for the client: its token has too many connections.
func (c *Caller) Prove(grant *auth.Grant) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.prove(grant)
}

// prove is Prove for callers that hold the server's mu.
func (c *Caller) prove(grant *auth.Grant) error {
	if err := c.server.countBearer(&c.place, grant); err != nil {
		return err
	}
	c.grant = grant
	return nil
}

// proved marks the client as authenticated, on a server without tokens. Its place then cannot be given to another
// connection.
func (c *Caller) proved() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.unlistUnproved(&c.place)
}

// tokenEnded reports whether the caller's token has expired or was revoked.
func (c *Caller) tokenEnded() bool { return c.grant != nil && c.grant.Err() != nil }

// Leave frees the place and cancels the orders that end with the connection. Call it after the last Call has returned;
// further calls do nothing.
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
	c.end()
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

// end charges the caller for the rest of its work, and cancels the orders that end with the connection. It is called
// once, after the caller's last command.
func (c *Caller) end() {
	c.pay()
	if c.origin != nil {
		c.server.exchange.EndOrigin(c.origin)
	}
}

// SlowDown counts requests toward the connection's rate, and waits for as long as the connection should not be read:
// it is over its rate (Over), or followers of the journal have too much unfinished work from it. It returns early when
// ctx ends or the server shuts down.
func (c *Caller) SlowDown(ctx context.Context, requests int) {
	_, _ = c.slowDown(ctx, requests, unchecked)
}

// slowDown is SlowDown for callers with a check. It calls check every slowCheckEvery, and returns its error. It does
// not wait for followers above lagMax: the orders that come next are rejected. waited reports whether it has waited.
func (c *Caller) slowDown(ctx context.Context, requests int, check func() error) (waited bool, err error) {
	if waited = c.Over(requests) > 0; waited {
		if err := c.waitForRate(ctx, check); err != nil {
			return true, err
		}
	}
	lagged, err := c.waitForFollowers(ctx, nil, lagMax, check)
	return waited || lagged, err
}

// unchecked is the check of a caller without one.
func unchecked() error { return nil }

// Over counts requests toward the connection's rate. It returns how long the connection should not be read, 0
// if it is within its rate. The result is at most slowMax, a minute.
func (c *Caller) Over(requests int) time.Duration {
	c.readRate()
	if c.rate == 0 {
		return 0
	}
	now := time.Now()
	if c.sent.take(requests, c.rate, now) == 0 {
		return 0
	}
	c.sent.bound(slowMax, now)
	c.server.options.Metrics.hit(limitRateConnection)
	return c.sent.over(now)
}

// readRate adopts a change of the rate. Requests counted so far count only toward the old rate.
func (c *Caller) readRate() {
	if rate := c.server.connectionRate.Load(); rate != c.rate {
		c.sent, c.rate = allowance{}, rate
	}
}

// waitForRate waits until the connection is within its rate again. It returns early, with nil, when ctx or the
// caller's token ends or the server shuts down. It calls check every slowCheckEvery, and returns its error.
func (c *Caller) waitForRate(ctx context.Context, check func() error) error {
	ended := make(chan struct{})
	if c.grant != nil {
		defer c.grant.AfterEnd(func() { close(ended) })()
	}
	for over := c.sent.over(time.Now()); over > 0; over = c.sent.over(time.Now()) {
		timer := time.NewTimer(min(over, slowCheckEvery))
		select {
		case <-timer.C:
		case <-ended:
		case <-ctx.Done():
		case <-c.server.Draining():
		}
		timer.Stop()
		if c.tokenEnded() || ctx.Err() != nil || c.server.isDraining() {
			return nil
		}
		if err := check(); err != nil {
			return err
		}
		c.readRate()
	}
	return nil
}
