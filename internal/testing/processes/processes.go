// Package processes measures and stops other processes of a test. It uses only /proc and signals.
package processes

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// ticksPerSecond is the kernel's unit of processor time: USER_HZ, which is 100 on every architecture that Go
// supports.
const ticksPerSecond = 100

// Usage is the resources that a process has used so far, and those that it holds now.
type Usage struct {
	CPU      time.Duration // processor time of all its threads, since it began
	Resident int64         // resident memory in bytes
	Files    int           // open file descriptors
}

// Of returns the usage of a process so far. The error means that the process has ended.
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

// FamilyCPU returns the processor time of a process and its children so far, including children that have
// ended.
func FamilyCPU(pid int) (sum time.Duration) {
	for _, s := range family(pid) {
		sum += ticks(s.UTime + s.STime + uint(s.CUTime) + uint(s.CSTime))
	}
	return sum
}

// Children returns the process ids of a process's children, or nil if the process has ended.
func Children(pid int) (ids []int) {
	for _, s := range family(pid) {
		if s.PID != pid {
			ids = append(ids, s.PID)
		}
	}
	return ids
}

// Freeze stops a process and its children with SIGSTOP, and waits until they are stopped. thaw continues them, and
// n is their number. It ignores processes that have just ended.
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

// Stop does the same as Freeze without the children.
func Stop(pid int) (goOn func()) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	awaitStopped(pid)
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

// stopTimeout bounds the wait until a process is stopped: a thread that waits for a disk stops later.
const stopTimeout = 10 * time.Second

// awaitStopped waits until no thread of a process runs. A signal is delivered some time after it is sent, and on a
// busy machine a thread may still run for a while.
func awaitStopped(pid int) {
	for end := time.Now().Add(stopTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, _ := procfs.AllThreads(pid) // none if the process has ended
		runs := func(thread procfs.Proc) bool {
			s, err := thread.Stat()
			return err == nil && s.State == "R"
		}
		if !slices.ContainsFunc(threads, runs) {
			return
		}
	}
}

// family returns a process followed by its children, or nil if the process has ended.
func family(pid int) (found []procfs.ProcStat) {
	all, _ := procfs.AllProcs() // none on a system without /proc
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
