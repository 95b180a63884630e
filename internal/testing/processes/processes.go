// Package processes looks at other processes of a test, and stops them where they stand.
// It knows only what /proc says.
package processes

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
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

// Of returns what a process has used so far. The error says that it is gone.
func Of(pid int) (u Usage, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, fmt.Errorf("processes: %w", err)
	}
	stat, statErr := p.Stat()
	status, statusErr := p.NewStatus()
	files, filesErr := p.FileDescriptorsLen()
	if err := errors.Join(statErr, statusErr, filesErr); err != nil {
		return u, fmt.Errorf("processes: %w", err)
	}
	return Usage{ticks(stat.UTime + stat.STime), int64(status.VmRSS), files}, nil
}

func ticks(n uint) time.Duration { return time.Duration(n) * time.Second / ticksPerSecond }

// FamilyCPU returns the processor time of a process and its children so far, that of
// children that have ended included.
func FamilyCPU(pid int) (sum time.Duration) {
	for _, s := range family(pid) {
		sum += ticks(s.UTime + s.STime + uint(s.CUTime) + uint(s.CSTime))
	}
	return sum
}

// Children returns the process ids of a process's children, none of one that is gone.
func Children(pid int) (ids []int) {
	for _, s := range family(pid) {
		if s.PID != pid {
			ids = append(ids, s.PID)
		}
	}
	return ids
}

// Freeze stops a process and its children where they stand, and returns what lets them go
// on, and how many there are, once they do stand. Those that end meanwhile do not matter.
func Freeze(pid int) (thaw func(), n int) {
	frozen := family(pid)
	send := func(s syscall.Signal) {
		for _, p := range frozen {
			_ = syscall.Kill(p.PID, s)
		}
	}
	send(syscall.SIGSTOP)
	for _, p := range frozen {
		awaitStopped(p.PID)
	}
	return func() { send(syscall.SIGCONT) }, len(frozen)
}

// Stop is Freeze without the children.
func Stop(pid int) (goOn func()) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	awaitStopped(pid)
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

// stopTimeout bounds how long a process may take to stand: a thread that waits for a disk
// does so later.
const stopTimeout = 10 * time.Second

// awaitStopped waits until no thread of a process runs: the signal is on its way when it is
// sent, and a busy machine lets a thread go on for a while.
func awaitStopped(pid int) {
	for end := time.Now().Add(stopTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, _ := procfs.AllThreads(pid) // of one that is gone there are none
		runs := func(thread procfs.Proc) bool {
			s, err := thread.Stat()
			return err == nil && s.State == "R"
		}
		if !slices.ContainsFunc(threads, runs) {
			return
		}
	}
}

// family returns a process, first, and its children; nothing of a process that is gone.
func family(pid int) (found []procfs.ProcStat) {
	all, _ := procfs.AllProcs() // a system without /proc has none
	for _, p := range all {
		s, err := p.Stat()
		switch {
		case err != nil || pid <= 0: // it may have ended
		case s.PID == pid:
			found = append([]procfs.ProcStat{s}, found...)
		case s.PPID == pid:
			found = append(found, s)
		}
	}
	return found
}
