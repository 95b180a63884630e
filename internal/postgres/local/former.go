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
	// formerTimeout bounds the wait for the postmaster of a killed process.
	formerTimeout = 60 * time.Second

	// formerPoll is the time between two checks for that postmaster.
	formerPoll = 20 * time.Millisecond
)

// waitForFormer waits until the postmaster of a killed process has ended. While it shuts down, its lock file
// must not be removed.
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
			c.options.Log.Info("waiting for an earlier Postgres to end", "pid", pid)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("cluster: wait for process %d, a Postgres that runs on %s: %w; end it with kill -INT %d",
				pid, c.dataDir(), ctx.Err(), pid)
		}
	}
}

// former returns the process id in postmaster.pid if a postmaster of the data directory is running under it,
// and otherwise 0.
//
// Postgres handles a file whose process has ended. But if the process id has been reused by another program of
// the same user, Postgres mistakes that program for a postmaster and never starts. former removes such a file.
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
	c.options.Log.Info("removing a stale lock file of Postgres, whose process id no longer belongs to a Postgres",
		"file", path, "pid", pid)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	return 0, nil
}

// worksOnData reports whether a process is, or may be, a postmaster of the data directory. A postmaster's working
// directory is its data directory; a process that has ended has no working directory.
func (c *Cluster) worksOnData(pid int) bool {
	data, err := os.Stat(c.dataDir())
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	if _, err := os.Stat("/proc/self/cwd"); err != nil { // no procfs, so this is not Linux
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
	// In a container even root may lack the right to inspect other users' processes.
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err != nil || strings.HasPrefix(string(name), "postgres") || strings.HasPrefix(string(name), "postmaster")
}
