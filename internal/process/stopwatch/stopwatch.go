// Package stopwatch measures how long the stages of a task take, for a random sample of tasks.
package stopwatch

import (
	"math/rand/v2"
	"time"
)

// One task in Sample is measured, on average. Reading the time at each hand-off between goroutines costs as much as
// the hand-off.
const Sample = 16

// Watch measures the stages of one task. Its zero value does not measure. The goroutine that has the task uses it.
type Watch struct{ began time.Time } // when the present stage began; zero if the task is not measured

// Start decides at random whether the task is measured, and begins its first stage.
func (w *Watch) Start() {
	w.began = time.Time{}
	if rand.Uint32()%Sample == 0 {
		w.began = time.Now()
	}
}

// Measures reports whether the task is measured.
func (w *Watch) Measures() bool { return !w.began.IsZero() }

// Lap ends the current stage, begins the next one, and returns how long the ended stage took. It returns 0 if the task
// is not measured.
func (w *Watch) Lap() (took time.Duration) {
	if w.began.IsZero() {
		return 0
	}
	now := time.Now()
	took, w.began = now.Sub(w.began), now
	return took
}
