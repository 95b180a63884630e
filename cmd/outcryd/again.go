package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"outcry/internal/operate/settings"
)

const (
	// againMax is how often a process may restart itself within againTime. A node that loses the leadership
	// more often needs an operator.
	againMax  = 6
	againTime = time.Minute

	// cutOffTimeout bounds how long the process waits for connections to close before it restarts itself. The
	// restart closes the connections that are left.
	cutOffTimeout = time.Second
)

// former has what a process knows of its runs before it restarted itself.
type former struct {
	times    []time.Time // restarts within the last againTime that no operator requested
	postgres int         // process id of the former run's local Postgres, which has ended with that run; 0 for none
}

// takeFormer reads what a former run of this process left in the environment, and removes it there so that
// child processes do not inherit it.
func takeFormer() (f former) {
	text := os.Getenv(settings.AgainVariable)
	_ = os.Unsetenv(settings.AgainVariable) // fails only for an invalid name
	pid, times, _ := strings.Cut(text, " ")
	f.postgres, _ = strconv.Atoi(pid)
	for field := range strings.FieldsSeq(times) {
		ms, err := strconv.ParseInt(field, 10, 64)
		if at := time.UnixMilli(ms); err == nil && time.Since(at) < againTime && len(f.times) < againMax {
			f.times = append(f.times, at)
		}
	}
	return f
}

// variable returns the environment entry for the next run, which starts now. asked means that an operator
// caused the restart, which then does not count towards againMax.
func (f *former) variable(postgres int, asked bool) string {
	text := settings.AgainVariable + "=" + strconv.Itoa(postgres)
	times := f.times
	if !asked {
		times = append(times, time.Now())
	}
	for _, at := range times {
		text += " " + strconv.FormatInt(at.UnixMilli(), 10)
	}
	return text
}

// tooOften returns an error if the process has restarted itself too often to restart now.
func (f *former) tooOften() error {
	if len(f.times) < againMax {
		return nil
	}
	return fmt.Errorf("this node has lost its leadership %d times within %s: check whether its disk, its clock or its "+
		"network is slow, and start it again", againMax+1, againTime)
}

// beginAgain restarts the process: it runs the same program with the same arguments under the same process
// id. That discards all memory, which may hold results that were never committed. It closes listeners and
// connections first and sends no more replies. It returns only if the program cannot be executed, if the
// process has restarted too often, or if ctx has ended, which means that the server is to stop.
func (s *server) beginAgain(ctx context.Context, why error) error {
	s.setNotReady(why)
	asked := s.member.asked.Load()
	if err := s.member.former.tooOften(); err != nil && !asked {
		return err
	}
	// The next program would not learn of a signal that this one receives. So from now on a signal ends the process.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if s.http != nil {
			s.http.Close()
		}
		if s.sockets != nil {
			s.sockets.Abort()
		}
		if s.sessions != nil {
			_ = s.sessions.Shutdown(cut) // logs that connections were cut off
		}
	}()
	select {
	case <-closed:
	case <-time.After(cutOffTimeout):
	}
	if ctx.Err() != nil {
		return why
	}
	s.log.Info("this process restarts as a follower", "pid", os.Getpid())
	postgres := 0
	if s.database != nil && s.database.Cluster != nil {
		postgres = s.database.Cluster.Pid()
	}
	signal.Ignore(syscall.SIGHUP) // by default it would end the next program before its handler is set
	environ := append(os.Environ(), s.member.former.variable(postgres, asked))
	return execSelf(append(environ, s.manager.Environ()...))
}
