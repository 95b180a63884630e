package engine

import (
	"sync"
	"time"
)

// stepMin is how far the wall clock must fall behind to count as set back.
const stepMin = 250 * time.Millisecond

// steadyClock follows the wall clock but never runs slower than real time. If the wall clock is set back, or stands
// still until it has reached the time of the last record, this clock continues, so that dead man's switches pass
// in time. If the wall clock is set forward, this clock follows.
type steadyClock struct {
	wall    func() int64         // nanoseconds since the Unix epoch
	elapsed func() time.Duration // monotonic time since some moment, independent of wall

	mu    sync.Mutex
	begun bool
	shown int64         // the newest time at which this clock was not behind its own pace
	when  time.Duration // elapsed when the clock showed shown
	ahead int64         // how far this clock is ahead of wall, in nanoseconds
}

// steadyClock returns the clock of an engine. If Options.Now is set, real time is ignored and the clock equals Now.
func (o *Options) steadyClock() *steadyClock {
	if o.Now != nil {
		return &steadyClock{elapsed: func() time.Duration { return 0 }}
	}
	begun := time.Now()
	return &steadyClock{elapsed: func() time.Duration { return time.Since(begun) }}
}

// now returns the time.
func (c *steadyClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look()
}

// at converts a time of the wall clock into one of this clock.
func (c *steadyClock) at(wall int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
	return wall + c.ahead
}

// look updates the clock and returns its time. Callers hold mu.
func (c *steadyClock) look() int64 {
	now, when := c.wall(), c.elapsed()
	least := c.shown + int64(when-c.when)
	switch {
	case !c.begun || now+c.ahead >= least:
		c.begun, c.shown, c.when = true, now+c.ahead, when
	case now+c.ahead < least-int64(stepMin):
		c.ahead = least - now
		c.shown, c.when = least, when
	}
	return now + c.ahead
}
