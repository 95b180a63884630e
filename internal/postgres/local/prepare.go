package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"outcry/internal/process/child"
)

const (
	// makingPrefix begins the names of data directories in which initdb has not finished.
	makingPrefix = "data.making-"

	// pipeTimeout is how long initdb's children may outlive a killed initdb.
	pipeTimeout = 5 * time.Second
)

// prepare does all that must precede the first postmaster. release undoes it, also after an error.
func (c *Cluster) prepare(ctx context.Context, m machine) (err error) {
	if c.options.Dir, err = filepath.Abs(c.options.Dir); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := os.MkdirAll(c.options.Dir, 0o700); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if c.lock, err = lockFile(filepath.Join(c.options.Dir, lockName)); err != nil {
		return fmt.Errorf("cluster: lock %s: %w", c.options.Dir, err)
	}
	if c.bin, err = findBinaries(ctx, c.options, m); err != nil {
		return err
	}
	if c.as, err = m.user(c.dataDir(), c.bin); err != nil {
		return err
	}
	if err := c.waitForFormer(ctx); err != nil {
		return err
	}
	if err := c.initialize(ctx); err != nil {
		return err
	}
	c.sayWhoElse()
	if err := c.writeAccess(); err != nil {
		return err
	}
	return c.makeSocketDir()
}

// initialize makes the data directory if there is none. It uses a temporary name until initdb is complete, so
// that an interrupted initdb leaves only a folder to remove.
func (c *Cluster) initialize(ctx context.Context) error {
	if err := removeMatching(filepath.Join(c.options.Dir, makingPrefix+"*")); err != nil {
		return err
	}
	if made, err := madeWith(c.dataDir()); err != nil || made != 0 {
		return errors.Join(err, c.own(c.dataDir()))
	}
	making, err := os.MkdirTemp(c.options.Dir, makingPrefix)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer os.RemoveAll(making) // does nothing after the rename
	c.options.Log.Info("initializing the local Postgres cluster", "directory", c.dataDir())
	if err := c.own(making); err != nil {
		return err
	}
	if err := c.initdb(ctx, making); err != nil {
		return err
	}
	if err := os.Rename(making, c.dataDir()); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return errors.Join(syncDir(c.options.Dir), syncDir(filepath.Dir(c.options.Dir)))
}

// initdb runs initdb in an empty folder.
func (c *Cluster) initdb(ctx context.Context, dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer f.Close()
	args := []string{"-U", superuser, "--auth-local=peer", "--auth-host=reject", "--encoding=UTF8", "--locale=C",
		"--data-checksums"}
	if c.options.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := c.command(ctx, f, "initdb", args...)
	cmd.WaitDelay = pipeTimeout
	runtime.LockOSThread() // the kernel ends initdb when the thread that forked it ends
	defer runtime.UnlockOSThread()
	child.EndWithThread(cmd.SysProcAttr, syscall.SIGKILL)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cluster: %s: %w: %s", cmd.Path, err, strings.TrimSpace(string(out)))
	}
	return nil
}
