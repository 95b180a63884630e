// Package trail is what followers of the journal share: who waits until a follower has a record, and when it looks
// for further ones. A follower that nobody waits for or listens to looks some times a second, which costs nothing;
// one that somebody does is woken by the log's syncs.
package trail

import (
	"context"
	"time"
)

const (
	// StepTime is how often a follower looks for records while nobody waits or listens.
	StepTime = 50 * time.Millisecond

	// gatherTime is how long records gather while somebody listens and nobody waits: each look costs some
	// microseconds, and listeners send what it brings together. The first record after a pause does not wait for it.
	gatherTime = 2 * time.Millisecond

	// pollTime is how often a follower looks that somebody waits for, and that no sync can wake: what may be told
	// lags behind what is synced.
	pollTime = time.Millisecond
)

// Pace says when a follower looks for records. Sleep is for the follower's goroutine, the other methods
// may be called from any.
type Pace struct {
	waits
	notify func(seq uint64, wake chan<- struct{})
	hurry  chan struct{} // somebody is new
	synced chan struct{} // the log has synced more

	// The follower's own.
	timer *time.Timer
	seq   uint64 // as it was when Sleep was called last
	asked bool   // notify was called, and has not sent yet
	woken bool   // the last Sleep ended with a sync
}

// NewPace returns a Pace. notify is a log's Notify: it sends to wake once record seq is synced, or perhaps before,
// and does not wait. Without it, nil, a follower that somebody waits for or listens to polls.
func NewPace(notify func(seq uint64, wake chan<- struct{})) *Pace {
	timer := time.NewTimer(StepTime)
	timer.Stop()
	return &Pace{notify: notify, hurry: make(chan struct{}, 1), synced: make(chan struct{}, 1), timer: timer}
}

// Hurry makes a Sleep end that is under way, or the next one.
func (p *Pace) Hurry() {
	select {
	case p.hurry <- struct{}{}:
	default:
	}
}

// Sleep returns when it is time to look for records behind seq, or false once ctx has ended. listened reports whether
// somebody wants all records soon.
func (p *Pace) Sleep(ctx context.Context, seq uint64, listened bool) bool {
	moved := seq != p.seq
	vain := p.woken && !moved // there is more, and it may not be told yet
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
