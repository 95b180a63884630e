package harness

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// ticksPerSecond is what the kernel counts processor time in: USER_HZ, which is
// 100 on every architecture that Go runs on.
const ticksPerSecond = 100

// Usage is what a process has used and has.
type Usage struct {
	CPU      time.Duration // of all its threads, since it began
	Resident int64         // bytes
	Files    int           // open file descriptors
}

// Usage returns what the server has used so far. The error says that it is gone.
func (s *Server) Usage() (u Usage, err error) {
	p, err := procfs.NewProc(s.Pid())
	if err != nil {
		return u, fmt.Errorf("harness: %w", err)
	}
	stat, statErr := p.Stat()
	status, statusErr := p.NewStatus()
	files, filesErr := p.FileDescriptorsLen()
	if err := errors.Join(statErr, statusErr, filesErr); err != nil {
		return u, fmt.Errorf("harness: %w", err)
	}
	return Usage{ticks(stat.UTime + stat.STime), int64(status.VmRSS), files}, nil
}

func ticks(n uint) time.Duration { return time.Duration(n) * time.Second / ticksPerSecond }

// CPU returns the processor time of all processes of the cluster so far, those
// that have ended included: they are among their parent's.
func (p *Postgres) CPU() (sum time.Duration) {
	for _, s := range p.processes() {
		sum += ticks(s.UTime + s.STime + uint(s.CUTime) + uint(s.CSTime))
	}
	return sum
}

// processes returns the postmaster and its children.
func (p *Postgres) processes() (found []procfs.ProcStat) {
	postmaster := p.cluster.Pid()
	all, _ := procfs.AllProcs() // a system without /proc has none
	for _, process := range all {
		s, err := process.Stat()
		if err == nil && postmaster > 0 && (s.PID == postmaster || s.PPID == postmaster) { // it may have ended
			found = append(found, s)
		}
	}
	return found
}

// Every calls look now and again every d, until what it returns is called, which waits
// for the last look.
func Every(d time.Duration, look func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			look()
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
