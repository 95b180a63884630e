package engine

import (
	"sync"
	"time"
)

// stepMin is how far the clock must be behind for that to be a step back.
const stepMin = 250 * time.Millisecond

// steadyClock is the clock, but it never goes slower than time does: if the clock is set back, or waits until it
// has reached the time of the last record, this one goes on. So a dead man's switch passes in time. One
// that is set on takes this one with it.
type steadyClock struct {
	wall    func() int64         // nanoseconds since the Unix epoch
	elapsed func() time.Duration // since some moment; whatever happens to wall

	mu    sync.Mutex
	begun bool
	shown int64         // the newest time that was not behind
	when  time.Duration // of shown
	ahead int64         // of wall
}

// steadyClock returns that of an engine: where somebody else gives the time, nothing else counts it.
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

// at returns when it is what the clock shows at a time.
func (c *steadyClock) at(wall int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
	return wall + c.ahead
}

// look returns the time. Callers hold mu.
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
