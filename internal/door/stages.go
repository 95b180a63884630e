package door

import (
	"math/rand/v2"
	"time"
)

// stage is a part of the time that a request takes.
type stage int

const (
	stageDecode stage = iota
	stageInbox        // the exchange measures this and stageMatch (Executed)
	stageMatch
	stageEncode
	stageJournal
	stageWrite
	stages
)

var stageNames = [stages]string{"decode", "inbox", "match", "encode", "journal", "write"}

// The stages of one batch in stageSample are measured. Reading the clock costs more than a step of a
// histogram, and each stage needs a reading.
const stageSample = 16

// stageClock holds the time when the present stage of a batch began; zero if the batch is not measured.
type stageClock struct{ began time.Time }

// start decides at random whether a batch is measured. begun is when its first frame was complete.
func (c *stageClock) start(begun time.Time) {
	c.began = time.Time{}
	if rand.Uint32()%stageSample == 0 {
		c.began = begun
	}
}

// lap ends stage s and begins the next.
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

// Executed records how long a batch waited for the goroutines of its symbols, and how long these worked on
// it. The exchange calls it for a sample of its own.
func (m *Metrics) Executed(inbox, match time.Duration) {
	m.byStage[stageInbox].Observe(inbox, 1)
	m.byStage[stageMatch].Observe(match, 1)
}
