package main

import (
	"os"
	"runtime/pprof"
	"time"
)

// stopGrace is the time that a stop may take beyond --stop-timeout before the process is ended by force.
const stopGrace = 5 * time.Second

// abandonAfter ends the process like a crash after d unless the returned timer is stopped first.
// It writes all goroutine stacks to stderr, to show what hangs. No answered command is lost.
func (s *server) abandonAfter(d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() {
		s.log.Error("the stop took too long and was abandoned, as in a crash; "+
			"the next start has everything that was answered",
			"took", d.String())
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // shows what hangs
		s.exit(exitError)
	})
}
