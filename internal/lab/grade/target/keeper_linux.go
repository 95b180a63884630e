package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self returns a path to this program that works even if its file was replaced or removed.
func self() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of descendants that lose their parent.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("grade: become the subreaper: %w", err)
	}
	return nil
}

// endFirst makes the kernel kill this process and its descendants first when memory runs out.
func endFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) } // best effort

// forgoPrivileges makes this thread, and the program that it executes, unable to gain privileges by
// programs like sudo.
func forgoPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("grade: forgo new privileges: %w", err)
	}
	return nil
}

// process is a process as /proc/PID/stat describes it.
type process struct {
	pid, parent int
	threads     uint64
	ended       bool // its first thread has ended
}

// alive reports whether a process still runs code: other threads may outlive its first.
func (p process) alive() bool { return !p.ended || p.threads > 1 }

// processes returns the processes of the system. Those that end during the call may be missing.
func processes() (all []process, err error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := statOf(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// Fields of /proc/PID/stat after the name, which ends with the last bracket and may contain anything.
const (
	statState   = 0
	statParent  = 1
	statThreads = 17
)

// statOf reads /proc/PID/stat; ok is false if there is no such process.
func statOf(pid int) (p process, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= statThreads {
		return p, false
	}
	parent, wrongParent := strconv.Atoi(string(fields[statParent]))
	threads, wrongThreads := strconv.ParseUint(string(fields[statThreads]), 10, 64)
	state := fields[statState][0]
	return process{pid, parent, threads, state == 'Z' || state == 'X'}, errors.Join(wrongParent, wrongThreads) == nil
}

// killDescendants kills all descendants of this process that it finds, and adds them to killed. alive reports
// whether one of them was alive, and found whether one was new in killed.
func killDescendants(_ int, killed map[int]bool) (alive, found bool, err error) {
	all, err := processes()
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	next := children[os.Getpid()]
	for len(next) > 0 {
		p := next[0]
		next = append(next[1:], children[p.pid]...)
		delete(children, p.pid) // the snapshot is not atomic: reused ids may form a ring
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		alive = alive || p.alive()
		found = found || !killed[p.pid]
		killed[p.pid] = true
	}
	return alive, found, err
}

// killLost kills the remaining processes of a server whose keeper was killed, until none is left. These are the
// processes whose environment had the mark when they began, and the processes that became children of this process,
// with their descendants. It recognizes such children by their session: except for keepers, all processes that the
// kit itself starts stay in the kit's session.
func killLost(mark string) error {
	for end := time.Now().Add(killTime); ; time.Sleep(time.Millisecond) {
		all, err := processes()
		alive := false
		for _, p := range all {
			environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
			if err == nil && mark != "" && p.pid != os.Getpid() && bytes.Contains(environ, []byte(markName+"="+mark)) {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
				alive = alive || p.alive()
			}
		}
		if killAdopted(all) {
			alive = true
		}
		if err != nil || !alive {
			return err
		}
		if time.Now().After(end) {
			return errors.New("grade: processes of a server whose keeper was killed do not end")
		}
	}
}

// killAdopted kills the processes of all that became children of this process, with their descendants, and reaps
// them. It reports whether one of them was alive.
func killAdopted(all []process) (alive bool) {
	keepers.Lock()
	defer keepers.Unlock()
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	ours, _ := unix.Getsid(0) // cannot fail for this process
	next := slices.DeleteFunc(children[os.Getpid()], func(p process) bool {
		session, err := unix.Getsid(p.pid)
		return keepers.pids[p.pid] || err != nil || session == ours
	})
	for _, p := range next {
		if !p.alive() {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
	for len(next) > 0 {
		p := next[0]
		next = append(next[1:], children[p.pid]...)
		delete(children, p.pid)
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		alive = alive || p.alive()
	}
	return alive
}

// threadsOf returns how many threads a user has: the limit on processes counts threads.
func threadsOf(uid int) (n uint64) {
	all, _ := processes() // empty on an error
	for _, p := range all {
		folder, err := os.Stat("/proc/" + strconv.Itoa(p.pid))
		if err != nil {
			continue
		}
		if s, ok := folder.Sys().(*syscall.Stat_t); ok && int(s.Uid) == uid {
			n += p.threads
		}
	}
	return n
}
