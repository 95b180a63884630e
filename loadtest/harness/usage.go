package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
func (s *Server) Usage() (Usage, error) {
	u := Usage{}
	var err error
	if u.CPU, _, err = cpu(s.Pid()); err != nil {
		return u, err
	}
	if u.Resident, err = resident(s.Pid()); err != nil {
		return u, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid()))
	if err != nil {
		return u, fmt.Errorf("harness: %w", err)
	}
	u.Files = len(files)
	return u, nil
}

// CPU returns the processor time of all processes of the cluster so far, those
// that have ended included.
func (p *Postgres) CPU() time.Duration {
	var sum time.Duration
	for _, pid := range p.processes() {
		own, children, err := cpu(pid)
		if err != nil {
			continue // it has just ended: then it is among its parent's
		}
		sum += own + children
	}
	return sum
}

// cpu returns the processor time of a process, and of its children that ended.
func cpu(pid int) (own, children time.Duration, err error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("harness: %w", err)
	}
	// pid (name) state …, where a name may have blanks and brackets; utime, stime,
	// cutime and cstime are the fields 14 to 17 of proc(5).
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("harness: process %d: unknown format of its state", pid)
	}
	var ticks [4]int64
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("harness: process %d: %w", pid, err)
		}
	}
	const tick = time.Second / ticksPerSecond
	return time.Duration(ticks[0]+ticks[1]) * tick, time.Duration(ticks[2]+ticks[3]) * tick, nil
}

// resident returns the memory that a process has, in bytes.
func resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("harness: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("harness: process %d has no resident memory", pid)
}
