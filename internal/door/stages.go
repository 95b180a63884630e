package door

import (
	"math/rand/v2"
	"time"
)

// stage is a part of a request's time.
type stage int

const (
	stageDecode stage = iota
	stageInbox        // and stageMatch: the exchange tells them
	stageMatch
	stageEncode
	stageJournal
	stageWrite
	stages
)

var stageNames = [stages]string{"decode", "inbox", "match", "encode", "journal", "write"}

// stageSample is of how many batches the stages of one are measured: a reading of the
// clock costs more than a step of a histogram, and each stage would take one.
const stageSample = 16

// stageClock is when the present stage of a batch began; zero if it is not measured.
type stageClock struct{ began time.Time }

// start draws whether a batch is measured, whose first frame was whole at a time.
func (c *stageClock) start(begun time.Time) {
	c.began = time.Time{}
	if rand.Uint32()%stageSample == 0 {
		c.began = begun
	}
}

// lap ends a stage and begins the next.
func (m *Metrics) lap(c *stageClock, s stage) {
	if !c.began.IsZero() {
		now := time.Now()
		m.byStage[s].Observe(now.Sub(c.began), 1)
		c.began = now
	}
}

// resume begins a stage after one that is measured elsewhere.
func (c *stageClock) resume() {
	if !c.began.IsZero() {
		c.began = time.Now()
	}
}

// Executed notes how long a batch waited for the goroutines of its symbols, and how
// long these worked on it: the exchange draws samples of its own.
func (m *Metrics) Executed(inbox, match time.Duration) {
	m.byStage[stageInbox].Observe(inbox, 1)
	m.byStage[stageMatch].Observe(match, 1)
}
