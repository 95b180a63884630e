package fanout

import "time"

// Pace decides when an encoder may send its next message. Callers hold the topic's lock.
type Pace struct {
	Every time.Duration // minimum time between two messages
	// Grid, if not 0, is the time between two moments at which messages are sent, so that all changes between them are in
	// one message. The moments are counted from Began. The minimum time is then Every less half of Grid, so that a
	// message that a late timer delayed a little does not delay the next one by a whole Grid.
	Grid  time.Duration
	Began time.Time

	next time.Time // the next message may be sent from this time on
}

// Next returns the first time at or after at when a message may be sent.
func (p *Pace) Next(at time.Time) time.Time {
	if at.Before(p.next) {
		at = p.next
	}
	if p.Grid == 0 {
		return at
	}
	steps := (at.Sub(p.Began) + p.Grid - 1) / p.Grid
	return p.Began.Add(max(steps, 1) * p.Grid)
}

// Sent notes that a message was sent now.
func (p *Pace) Sent(now time.Time) { p.next = now.Add(p.Every - p.Grid/2) }
