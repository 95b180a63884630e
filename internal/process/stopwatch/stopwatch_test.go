package stopwatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// About one task in Sample is measured. Each Start of the same Watch decides again.
func TestSomeTasksAreMeasured(t *testing.T) {
	const tasks = 100 * Sample
	measured := 0
	var w Watch
	require.False(t, w.Measures())
	for range tasks {
		if w.Start(); w.Measures() {
			measured++
		}
	}
	require.InDelta(t, tasks/Sample, measured, tasks/Sample*0.7) // seven standard deviations
}

// The stages of a measured task follow each other without a gap, and other tasks have none.
func TestLapsAddUp(t *testing.T) {
	var w Watch
	require.Zero(t, w.Lap())
	for !w.Measures() {
		w.Start()
	}
	begun := w.began
	time.Sleep(time.Millisecond)
	first := w.Lap()
	time.Sleep(2 * time.Millisecond)
	second := w.Lap()
	require.GreaterOrEqual(t, first, time.Millisecond)
	require.GreaterOrEqual(t, second, 2*time.Millisecond)
	require.Equal(t, w.began.Sub(begun), first+second)
}
