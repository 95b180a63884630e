package engine

import (
	"math/rand/v2"
	"time"
)

// stageSample is of how many calls of Execute the stages of one are measured: looking
// at the clock on both sides of each hand-off would cost as much as a hand-off.
const stageSample = 16

// stageClock measures how much of a call of Execute the owners worked, and how much
// its task was on its way. The holder of the task uses it.
type stageClock struct {
	begun  time.Time // of the call; zero where it is not measured
	taken  time.Time // by the present owner
	worked time.Duration
}

// begins draws whether a call is measured.
func (e *Engine) begins() (c stageClock) {
	if e.options.OnStages != nil && rand.Uint32()%stageSample == 0 {
		c.begun = time.Now()
	}
	return c
}

// take notes that an owner begins to work, give that it is done.
func (c *stageClock) take() {
	if !c.begun.IsZero() {
		c.taken = time.Now()
	}
}

func (c *stageClock) give() {
	if !c.begun.IsZero() {
		c.worked += time.Since(c.taken)
	}
}

// ended tells what a call was found to take.
func (e *Engine) ended(c *stageClock) {
	if !c.begun.IsZero() {
		e.options.OnStages(time.Since(c.begun)-c.worked, c.worked)
	}
}
