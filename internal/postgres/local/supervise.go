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
)

const (
	// A postmaster that died is started again after restartMin, then after twice
	// as long each time, up to restartMax. One that lived longer than restartMax
	// begins anew.
	restartMin = 100 * time.Millisecond
	restartMax = 2 * time.Second

	// The log is emptied when it has grown over logBytesMax, which is looked at
	// every logCheck.
	logBytesMax = 16 << 20
	logCheck    = time.Minute
)

var errStopping = errors.New("the cluster is being stopped")

// settings are those of Postgres, for one projector that writes much and a few
// people who look.
var settings = map[string]string{
	"listen_addresses":        "",
	"port":                    port,
	"unix_socket_permissions": "0700",
	"cluster_name":            "outcry", // shown in the list of processes
	"max_connections":         "24",
	"shared_buffers":          "256MB",
	"max_wal_size":            "4GB",
	"checkpoint_timeout":      "15min",
	"wal_compression":         "on", // the images of whole pages after a checkpoint
	"jit":                     "off",
	"max_parallel_workers":    "0", // the processors are the exchange's
	"autovacuum_naptime":      "15s",
	// Plans here follow keys, whatever the planner knows of a table. To analyze the large ones after each tenth of
	// growth costs a third of what writing them does.
	"autovacuum_analyze_scale_factor": "1",
	"logging_collector":               "off",
	"log_min_messages":                "warning",
	"restart_after_crash":             "on",
}

// supervise runs the postmaster, again and again, until the cluster is stopped.
// It sends why the first one failed.
//
// The kernel ends the postmaster when the thread that forked it ends. So this
// goroutine keeps its thread for itself, and forks every postmaster. It gives the thread
// back at its end: the thread may have started other processes before, which would end
// with it.
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
		default: // only Start listens, and only once
		}
		if time.Since(begun) > restartMax {
			delay = restartMin
		}
		c.options.Log.Warn("the local Postgres has ended and is started again",
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

// runPostmaster starts a postmaster and returns when it has ended, and why.
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
	// In append mode, so that Postgres goes on at the start of an emptied log.
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
	endWithThread(cmd.SysProcAttr, syscall.SIGQUIT)

	// Under the lock, so that Stop sees either the postmaster or none to come.
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

// command prepares a Postgres program that works on a data directory as the user
// who may. The directory must stay open until the program has been started.
func (c *Cluster) command(ctx context.Context, data *os.File, program string, args ...string) *exec.Cmd {
	name := data.Name()
	if c.as.Credential != nil {
		name = "/proc/self/fd/3" // the first of ExtraFiles
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), append([]string{"-D", name}, args...)...)
	if c.as.Credential != nil {
		cmd.ExtraFiles = []*os.File{data}
	}
	attr := *c.as
	// In a process group of its own: Ctrl-C on a terminal is for us alone. Postgres would end
	// before what we have is brought to it.
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
	cmd.Dir = "/" // ours may be closed to that user
	cmd.Env = environment()
	return cmd
}

// environment is that of Postgres's programs: of ours only what they need, so that
// no PGOPTIONS, LD_PRELOAD or secret gets there.
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

// boundLog empties the log when it has grown too big.
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
