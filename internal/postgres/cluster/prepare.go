package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// initialize makes the data directory. An initdb that was cut off leaves only a
// temporary folder, which the next start removes.
func (c *Cluster) initialize(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dataDir(), "PG_VERSION")); err == nil {
		return nil
	}
	making := c.dataDir() + ".making"
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	args := []string{"-D", making, "-U", user, "--auth=trust", "--encoding=UTF8", "--locale=C", "--data-checksums"}
	if c.options.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	c.options.Log.Info("initializing the local Postgres cluster", "directory", c.dataDir())
	if out, err := c.command(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster: initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(making, c.dataDir()); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// waitForStale waits for the postmaster of a run that was killed: it is shutting
// down, and its lock file must not be taken from it. A file whose process is gone
// is Postgres's own affair.
func (c *Cluster) waitForStale(ctx context.Context) error {
	deadline := time.Now().Add(staleWait)
	for told := false; ; {
		pid, ok := c.stalePid()
		if !ok {
			return nil
		}
		if !told {
			told = true
			c.options.Log.Info("waiting for a former Postgres to end", "pid", pid)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cluster: %s is in use by process %d, which does not end", c.dataDir(), pid)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stalePid returns the process that postmaster.pid names, where it is alive and
// a Postgres of this directory. Process ids are used again: another program
// under the same id is none.
func (c *Cluster) stalePid() (int, bool) {
	b, err := os.ReadFile(filepath.Join(c.dataDir(), "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 0 {
		return 0, false
	}
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return 0, false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && !strings.Contains(string(cmdline), c.dataDir()) {
		return 0, false
	}
	return pid, true
}

// socketPrefix begins the names of socket directories.
const socketPrefix = "outcry-postgres-"

// makeSocketDir makes the directory of the Unix socket. The path of a socket ends
// at 107 bytes, so it is not below the data directory but in the shortest place
// for temporary files. The directory of a run that was killed is removed.
func (c *Cluster) makeSocketDir() error {
	note := filepath.Join(c.options.Dir, "socket")
	if b, err := os.ReadFile(note); err == nil && strings.HasPrefix(filepath.Base(string(b)), socketPrefix) {
		_ = os.RemoveAll(string(b))
	}
	parent := "/tmp"
	if _, err := os.Stat(parent); err != nil {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, socketPrefix)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	c.socket = dir
	if cred := c.as.Credential; cred != nil {
		err = os.Chown(dir, int(cred.Uid), int(cred.Gid))
	}
	if err == nil {
		err = os.WriteFile(note, []byte(dir), 0o600)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cluster: %w", err), os.RemoveAll(dir))
	}
	return nil
}
