package main

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
)

// TestAStopThatHangsIsGivenUp: if a goroutine of the server never ends, the process exits anyway,
// but only after the time limit for a stop.
func TestAStopThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := settings.Parse([]string{"--stop-timeout=5s"}, io.Discard)
		require.NoError(t, err)
		exited := make(chan int, 1)
		s := &server{config: c, log: slog.New(slog.DiscardHandler), exit: func(status int) { exited <- status },
			unproject: func() {}, unfollow: func() {}}
		s.running.Add(1) // stands for a goroutine that never ends
		begun := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- s.stop() }()
		require.Equal(t, exitError, <-exited)
		require.Equal(t, 5*time.Second+stopGrace, time.Since(begun), "of the bubble's clock")
		s.running.Done()
		require.NoError(t, <-stopped)

		require.NoError(t, s.stop(), "one that ends")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, exited)
	})
}
