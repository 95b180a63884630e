package websocket

import "time"

var pingFrame = newFrame(opPing, nil)

// pulse is the state of a connection at its last ping.
type pulse struct {
	began   bool // false before the first ping
	reading bool // the handler waited in Read
	waiting bool // something waited to be written
	taken   uint64
}

// pingEvery returns the time between two pings. It is at most half the idle timeout, as a pong counts as life.
func (c *Conn) pingEvery() time.Duration {
	o := &c.server.options
	every := o.PingEvery
	if idle := o.IdleTimeout(); idle > 0 {
		every = min(every, idle/2)
	}
	return every
}

// beat disconnects the client if it is unresponsive, and otherwise sends the next ping. A client is unresponsive if no
// frame has arrived since the last ping although the handler waited for one, or if the client read nothing of its
// pending output.
func (c *Conn) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || c.timer == nil {
		return
	}
	now := pulse{began: true, reading: c.reading, waiting: c.waiting > 0, taken: c.taken}
	last, heard := c.pulse, c.heard.Swap(false)
	c.pulse = now
	deaf := now.reading && last.reading && !heard
	stuck := now.waiting && last.waiting && now.taken == last.taken
	if last.began && (deaf || stuck) {
		c.server.options.Metrics.dead.Inc()
		c.server.options.Log.Info("the client of a WebSocket connection does not respond", "client", c.remote)
		c.abort()
		return
	}
	c.pingDue = true
	c.flush()
	c.timer.Reset(c.pingEvery())
}
