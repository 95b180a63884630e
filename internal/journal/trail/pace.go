package trail

import (
	"context"
	"time"
)

const (
	// StepTime is how often a follower looks for records without waiting callers or listeners.
	StepTime = 50 * time.Millisecond

	// gatherTime is how long records gather if there are listeners and no waiting callers: each look costs a few
	// microseconds, and listeners send everything it finds in one piece. The first record after a pause is not delayed.
	gatherTime = 2 * time.Millisecond

	// pollTime is how often a follower looks for records if a caller waits and no sync can wake the follower, because
	// synced records may not be visible yet.
	pollTime = time.Millisecond
)

// Pace decides when a follower looks for records, and lets callers wait until it has one. Without waiting callers or
// listeners, a follower looks several times a second, which costs next to nothing; with them, the journal's syncs wake
// it. Sleep is called by the follower's goroutine; the other methods may be called from any goroutine.
type Pace struct {
	waits
	notify func(seq uint64, wake chan<- struct{})
	hurry  chan struct{} // receives a value when a caller begins to wait or a listener arrives
	synced chan struct{} // receives a value when the journal has synced more

	// Only the follower's goroutine uses the fields below.
	timer *time.Timer
	seq   uint64 // argument of the last Sleep
	asked bool   // notify was called, and synced has not received its value yet
	woken bool   // a sync ended the last Sleep
}

// NewPace returns a Pace. notify is the journal's Notify: it sends to wake once record seq is synced, or perhaps
// earlier, and does not wait. If notify is nil, a follower with waiting callers or listeners polls.
func NewPace(notify func(seq uint64, wake chan<- struct{})) *Pace {
	timer := time.NewTimer(StepTime)
	timer.Stop()
	return &Pace{notify: notify, hurry: make(chan struct{}, 1), synced: make(chan struct{}, 1), timer: timer}
}

// Hurry ends the current Sleep, or the next one if none is in progress.
func (p *Pace) Hurry() {
	select {
	case p.hurry <- struct{}{}:
	default:
	}
}

// Sleep returns true when it is time to look for records after seq, or false once ctx has ended. listened means that
// there are listeners, which need all records soon.
func (p *Pace) Sleep(ctx context.Context, seq uint64, listened bool) bool {
	moved := seq != p.seq
	vain := p.woken && !moved // the journal has synced more records, but they may not be visible yet
	p.seq, p.woken = seq, false
	pause, waited := StepTime, p.Waited()
	switch {
	case !waited && !listened || p.asked:
	case !waited && (moved || vain):
		pause = gatherTime
	case vain || p.notify == nil:
		pause = pollTime
	default:
		p.asked = true
		p.notify(seq+1, p.synced)
	}
	p.timer.Reset(pause)
	select {
	case <-p.timer.C:
	case <-p.hurry:
	case <-p.synced:
		p.asked, p.woken = false, true
	case <-ctx.Done():
		return false
	}
	return true
}
