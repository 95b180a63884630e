package fanout

import (
	"time"

	"outcry/internal/exchange"
)

// CloseGrace is how long after the end of its interval a candle is closed if no trade follows: its last trades may
// come late.
const CloseGrace = time.Second

// Candle is the newest candle of an interval. Callers hold the topic's lock.
type Candle struct {
	exchange.Candle // empty before the first trade
	Interval        exchange.Interval
	Closed          bool // it was reported closed
}

// IsOpen reports whether there is a candle that was not reported closed.
func (c *Candle) IsOpen() bool { return c.Trades > 0 && !c.Closed }

// Follows reports whether next is a later candle while c must still be reported closed.
func (c *Candle) Follows(next *exchange.Candle) bool { return c.IsOpen() && next.Start != c.Start }

// Set sets the newest candle, which is open.
func (c *Candle) Set(next exchange.Candle) { c.Candle, c.Closed = next, false }

// ClosesAt returns the time when an open candle is closed if no trade follows.
func (c *Candle) ClosesAt() time.Time {
	return time.Unix(0, c.Start+c.Interval.Length()).Add(CloseGrace)
}

// TryClose closes the candle if it is open and its interval is over, and reports whether it did.
func (c *Candle) TryClose(now time.Time) bool {
	if !c.IsOpen() || now.Before(c.ClosesAt()) {
		return false
	}
	c.Closed = true
	return true
}
