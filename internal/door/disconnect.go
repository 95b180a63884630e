package door

import (
	"time"

	"outcry/internal/engine"
)

// set notes what a client has set for its connection: its orders are canceled when that ends, which it does
// after a silence, if that is not 0. The reader calls it.
func (c *session) set(silence time.Duration) {
	c.onDisconnect = true
	if silence > 0 {
		c.silence.Store(int64(silence))
		c.clock.restart()
	}
}

// begins returns what the orders of the connection name that are canceled when it ends. The reader calls it.
func (c *session) begins() *engine.Origin {
	if c.origin == nil {
		c.origin = c.server.exchange.NewOrigin()
	}
	return c.origin
}

// within returns how long a client may take that a limit gives so long: no longer than the silence after which it
// has the connection ended, as it cannot tell how far a peer has come that is silent.
func (c *session) within(limit time.Duration) time.Duration {
	if silence := time.Duration(c.silence.Load()); silence > 0 {
		return min(limit, silence)
	}
	return limit
}
