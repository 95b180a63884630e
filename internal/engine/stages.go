package engine

import (
	"math/rand/v2"
	"time"
)

// stageSample is how many calls of Execute there are for each call whose stages are measured. Reading
// the clock on both sides of every hand-off would cost as much as the hand-off.
const stageSample = 16

// stageClock measures for one call of Execute how long owners worked on its task. The rest of the call's time
// the task was on its way. Only the holder of the task uses it.
type stageClock struct {
	begun     time.Time // start of the call; zero if the call is not measured
	startedAt time.Time // when the present owner started to work
	worked    time.Duration
}

// newStageClock returns the clock of a new call. A random choice decides whether the call is measured.
func (e *Engine) newStageClock() (c stageClock) {
	if e.options.OnStages != nil && rand.Uint32()%stageSample == 0 {
		c.begun = time.Now()
	}
	return c
}

// startWork notes that an owner starts to work on the task. stopWork notes that it has stopped.
func (c *stageClock) startWork() {
	if !c.begun.IsZero() {
		c.startedAt = time.Now()
	}
}

func (c *stageClock) stopWork() {
	if !c.begun.IsZero() {
		c.worked += time.Since(c.startedAt)
	}
}

// reportStages reports the stages of a measured call to OnStages.
func (e *Engine) reportStages(c *stageClock) {
	if !c.begun.IsZero() {
		e.options.OnStages(time.Since(c.begun)-c.worked, c.worked)
	}
}
