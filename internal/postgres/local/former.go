package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// formerTimeout bounds the wait for the postmaster of a process that was killed.
	formerTimeout = 60 * time.Second

	// formerPoll is how often it is looked for.
	formerPoll = 20 * time.Millisecond
)

// waitForFormer waits for the postmaster of a process that was killed: it is
// still shutting down, and its lock file must not be taken from it.
func (c *Cluster) waitForFormer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
	poll := time.NewTicker(formerPoll)
	defer poll.Stop()
	for told := false; ; told = true {
		pid, err := c.former()
		if pid == 0 {
			return err
		}
		if !told {
			c.options.Log.Info("waiting for a former Postgres to end", "pid", pid)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("cluster: wait for process %d, a Postgres that runs on %s: %w; end it with kill -INT %d",
				pid, c.dataDir(), ctx.Err(), pid)
		}
	}
}

// former returns the process that postmaster.pid names, if that is a living
// postmaster of the data directory, else 0.
//
// Postgres itself sees to a file whose process is gone. It does not where the
// process id has been given to another program of the same user: it takes that
// for a postmaster and refuses to start, forever. Such a file is removed.
func (c *Cluster) former() (pid int, err error) {
	path := filepath.Join(c.dataDir(), "postmaster.pid")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 0 || syscall.Kill(pid, 0) != nil {
		return 0, nil
	}
	if c.worksOnData(pid) {
		return pid, nil
	}
	c.options.Log.Info("removing a stale lock file of Postgres, whose process id is not a Postgres's now",
		"file", path, "pid", pid)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	return 0, nil
}

// worksOnData reports whether a process is a postmaster of the data directory, or
// cannot be told from one. A postmaster works in its data directory; a process
// that has ended, reaped or not, works nowhere.
func (c *Cluster) worksOnData(pid int) bool {
	data, err := os.Stat(c.dataDir())
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	if _, err := os.Stat("/proc/self/cwd"); err != nil { // not Linux
		out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
		return err != nil || strings.Contains(string(out), c.dataDir())
	}
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	switch {
	case err == nil:
		return os.SameFile(cwd, data)
	case errors.Is(err, fs.ErrNotExist):
		return false
	}
	// In a container even root may not look at other users' processes.
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err != nil || strings.HasPrefix(string(name), "postgres") || strings.HasPrefix(string(name), "postmaster")
}
