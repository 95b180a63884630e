package door

import (
	"time"

	"outcry/internal/engine"
)

// applySettings applies the settings that a client has made for its connection: its orders are canceled when the
// connection ends, and the connection ends after the given silence, if that is not 0. Only the reader calls
// it.
func (c *session) applySettings(silence time.Duration) {
	c.onDisconnect = true
	if silence > 0 {
		c.silence.Store(int64(silence))
		c.clock.restart()
	}
}

// originOfOrders returns the origin that links orders to this connection, so that they are canceled when it ends. It
// makes the origin on its first call. Only the reader calls it.
func (c *session) originOfOrders() *engine.Origin {
	if c.origin == nil {
		c.origin = c.server.exchange.NewOrigin()
	}
	return c.origin
}

// within returns the shorter of a limit and the silence that the client has set for its connection. A silent
// peer may be gone, so that no wait for it should be longer than that silence.
func (c *session) within(limit time.Duration) time.Duration {
	if silence := time.Duration(c.silence.Load()); silence > 0 {
		return min(limit, silence)
	}
	return limit
}
