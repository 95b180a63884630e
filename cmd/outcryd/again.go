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
	// againMax is how often a process may begin again within againTime: a node that is
	// deposed all the time has to be looked at.
	againMax  = 6
	againTime = time.Minute

	// cutOffTimeout is how long connections may take to be closed before the process begins
	// again, which closes them in any case.
	cutOffTimeout = time.Second
)

// former is what the process was before it began again.
type former struct {
	times    []time.Time // when it began again unasked, within the last againTime
	postgres int         // the process id of its local Postgres, which has ended with it; 0 for none
}

// takeFormer takes what a former run of this process has left in the environment, which
// those who are started by this one shall not get.
func takeFormer() (f former) {
	text := os.Getenv(settings.AgainVariable)
	_ = os.Unsetenv(settings.AgainVariable) // fails for no name of ours
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

// variable returns the environment's entry for the next run, which begins now: asked says that
// an operator wanted it, so that it does not count.
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

// tooOften returns an error if the process may not begin again now.
func (f *former) tooOften() error {
	if len(f.times) < againMax {
		return nil
	}
	return fmt.Errorf("this node has lost its leadership %d times within %s: see whether its disk, its clock or its "+
		"network is slow, and start it again", againMax+1, againTime)
}

// beginAgain throws away all that this process has in memory: it may hold what is in
// nobody's history. Listeners and connections are closed by hand, and nothing more is told;
// then the same program runs with the same arguments under the same process id. It returns
// only where that cannot be, or once ctx has ended: the server is to stop.
func (s *server) beginAgain(ctx context.Context, why error) error {
	s.setNotReady(why)
	asked := s.member.asked.Load()
	if err := s.member.former.tooOften(); err != nil && !asked {
		return err
	}
	// The next program forgets a signal that only this one has heard. One that comes from
	// here on ends the process.
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
			_ = s.sessions.Shutdown(cut) // says that connections were cut off
		}
	}()
	select {
	case <-closed:
	case <-time.After(cutOffTimeout):
	}
	if ctx.Err() != nil {
		return why
	}
	s.log.Info("this process begins again as one that follows", "pid", os.Getpid())
	postgres := 0
	if s.database != nil && s.database.Cluster != nil {
		postgres = s.database.Cluster.Pid()
	}
	signal.Ignore(syscall.SIGHUP) // it would end the next program before that hears it
	environ := append(os.Environ(), s.member.former.variable(postgres, asked))
	return execSelf(append(environ, s.manager.Environ()...))
}
