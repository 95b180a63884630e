package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestASteadyClockContinues sets the wall clock back, lets it stand still, and sets it forward.
func TestASteadyClockContinues(t *testing.T) {
	wall, elapsed := int64(1000*exchange.Second), time.Duration(0)
	c := &steadyClock{wall: func() int64 { return wall }, elapsed: func() time.Duration { return elapsed }}
	pass := func(w, e time.Duration) int64 {
		wall, elapsed = wall+int64(w), elapsed+e
		return c.now() - 1000*exchange.Second
	}
	require.Equal(t, int64(time.Second), pass(time.Second, time.Second))
	require.Equal(t, int64(2*time.Second)+3, pass(time.Second+3, time.Second), "no step")
	require.Equal(t, int64(3*time.Second), pass(time.Second-3, time.Second), "no step")
	due := c.at(wall + 60*exchange.Second)
	require.Equal(t, int64(4*time.Second)+3, pass(-time.Hour, time.Second), "set back")
	require.Equal(t, due+3-59*exchange.Second, c.now())
	require.Equal(t, c.now()+60*exchange.Second, c.at(wall+60*exchange.Second))
	for range 1000 {
		pass(0, time.Second/100)
	}
	since := float64(c.now() - 1000*exchange.Second)
	require.InDelta(t, float64(14*time.Second), since, float64(stepMin)+4, "it stands still")
	require.Greater(t, pass(time.Hour, 0), int64(time.Hour), "set on")
}

// TestASwitchPassesThoughTheClockIsSetBack also checks that the limit on cancel-alls still works.
func TestASwitchPassesThoughTheClockIsSetBack(t *testing.T) {
	c := &clock{}
	m := open(t, c.options())
	began := time.Now()
	m.keeper.mu.Lock()
	m.keeper.clock.elapsed = func() time.Duration { return time.Since(began) }
	m.keeper.mu.Unlock()
	c.Store(77 + 5000*exchange.Second)
	m.all(buy("A", 1, 1), cancelAfter("1", 1))
	for range cancelAllsMax {
		m.do(cancelAllOf("2", ""))
	}
	c.Store(77)
	m.untilOpen(0)
	require.Eventually(t, func() bool { return m.do(cancelAllOf("2", "")).Reason == exchange.OK }, time.Minute,
		time.Millisecond)
	m.agrees()
}
