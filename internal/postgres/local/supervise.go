package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"outcry/internal/process/child"
)

const (
	// A postmaster that died is restarted after restartMin, and after twice the previous delay each further
	// time, up to restartMax. The delay is reset if a postmaster ran for longer than restartMax.
	restartMin = 100 * time.Millisecond
	restartMax = 2 * time.Second

	// The log is emptied if it is larger than logBytesMax. Its size is checked every logCheck.
	logBytesMax = 16 << 20
	logCheck    = time.Minute
)

var errStopping = errors.New("the cluster is being stopped")

// settings are the settings of Postgres, chosen for one projector that writes a lot and a few readers.
var settings = map[string]string{
	"listen_addresses":        "",
	"port":                    port,
	"unix_socket_permissions": "0700",
	"cluster_name":            "outcry", // shown in the list of processes
	"max_connections":         "24",
	"shared_buffers":          "256MB",
	"max_wal_size":            "4GB",
	"checkpoint_timeout":      "15min",
	"wal_compression":         "on", // compress the full-page images after a checkpoint
	"jit":                     "off",
	"max_parallel_workers":    "0", // leave the processors to the exchange
	"autovacuum_naptime":      "15s",
	// All queries here use keys regardless of the planner's statistics. Analyzing the large tables after each 10 % of
	// growth costs a third of what writing them does.
	"autovacuum_analyze_scale_factor": "1",
	"logging_collector":               "off",
	"log_min_messages":                "warning",
	"restart_after_crash":             "on",
}

// supervise runs the postmaster and restarts it until the cluster is stopped. While Start is waiting, it sends
// why a postmaster ended to failed.
//
// The kernel ends the postmaster when the thread that forked it ends. Therefore this goroutine is locked to
// its thread and forks every postmaster. It unlocks the thread when it returns, because the thread may have
// started other processes before, which would end with it.
func (c *Cluster) supervise(failed chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	defer c.release()
	for delay := restartMin; ; delay = min(2*delay, restartMax) {
		begun := time.Now()
		err := c.runPostmaster()
		if c.stopping() {
			return
		}
		select {
		case failed <- err:
		default: // only Start receives, and only while it waits
		}
		if time.Since(begun) > restartMax {
			delay = restartMin
		}
		c.options.Log.Warn("the local Postgres has ended and is restarted",
			"error", err, "in", delay, "its_log", c.logPath())
		select {
		case <-time.After(delay):
		case <-c.stop:
			return
		}
	}
}

func (c *Cluster) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// runPostmaster starts a postmaster, waits until it ends, and returns why it ended.
func (c *Cluster) runPostmaster() error {
	cmd, err := c.launch()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	check := time.NewTicker(logCheck)
	defer check.Stop()
	for {
		select {
		case <-ended:
			c.mu.Lock()
			c.postmaster = nil
			c.mu.Unlock()
			return fmt.Errorf("the postmaster ended with %s", cmd.ProcessState)
		case <-check.C:
			c.boundLog()
		}
	}
}

// launch starts a postmaster, unless the cluster is being stopped.
func (c *Cluster) launch() (*exec.Cmd, error) {
	c.boundLog()
	// In append mode, Postgres continues at the start of the log after it was emptied.
	log, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	data, err := os.Open(c.dataDir())
	if err != nil {
		return nil, err
	}
	defer data.Close()

	all := maps.Clone(settings)
	all["unix_socket_directories"] = c.socket
	maps.Copy(all, c.options.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	cmd := c.command(context.Background(), data, "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	child.EndWithThread(cmd.SysProcAttr, syscall.SIGQUIT)

	// Holding the lock ensures that Stop either sees this postmaster or prevents its start.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping() {
		return nil, errStopping
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.postmaster = cmd.Process
	return cmd, nil
}

// command prepares a Postgres program for a data directory, as the user c.as. The directory must stay open
// until the program has started.
func (c *Cluster) command(ctx context.Context, data *os.File, program string, args ...string) *exec.Cmd {
	name := data.Name()
	if c.as.Credential != nil {
		name = "/proc/self/fd/3" // fd 3 is the first of ExtraFiles
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), append([]string{"-D", name}, args...)...)
	if c.as.Credential != nil {
		cmd.ExtraFiles = []*os.File{data}
	}
	attr := *c.as
	// A separate process group keeps Ctrl-C on a terminal from Postgres. It would otherwise end before this
	// process has written everything to it.
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
	cmd.Dir = "/" // our working directory may be closed to that user
	cmd.Env = environment()
	return cmd
}

// environment returns the environment of Postgres's programs: only the variables that they need, without any
// PGOPTIONS, LD_PRELOAD or secret.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "TZ"} {
		if value, there := os.LookupEnv(name); there {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (c *Cluster) dataDir() string { return filepath.Join(c.options.Dir, "data") }
func (c *Cluster) logPath() string { return filepath.Join(c.options.Dir, "postgres.log") }

// boundLog empties the log if it is larger than logBytesMax.
func (c *Cluster) boundLog() {
	if info, err := os.Stat(c.logPath()); err == nil && info.Size() > logBytesMax {
		if err := os.Truncate(c.logPath(), 0); err != nil {
			c.options.Log.Warn("the log of the local Postgres cannot be emptied", "error", err)
		}
	}
}

// logTail returns the end of the log.
func (c *Cluster) logTail() string {
	const shown = 800
	f, err := os.Open(c.logPath())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	b := make([]byte, shown)
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	n, _ := f.ReadAt(b, max(0, info.Size()-shown)) // io.EOF if the log is shorter
	return strings.TrimSpace(string(b[:n]))
}
