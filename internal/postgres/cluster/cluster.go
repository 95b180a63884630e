// Package cluster runs a Postgres of the server's own, below its data directory,
// for whoever has not set one up.
//
//   - It uses installed binaries, else it downloads some, else it says what to
//     install.
//   - It works as root too, which Postgres refuses: see asUser.
//   - It listens on a Unix socket only, in a directory that nobody else may enter;
//     that is why connections through it need no password.
//   - A postmaster that dies is started again, as long as the cluster is not
//     stopped. It dies with the process that started it, also on kill -9.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say where and how a cluster runs.
type Options struct {
	Dir string // it lives here; made where it is not there
	Log *slog.Logger

	// Settings are further settings of Postgres, such as "fsync": "off" for tests.
	Settings map[string]string
}

// user is the superuser of a cluster, and its database.
const user = "outcry"

const (
	// staleWait bounds the wait for the postmaster of a run that was killed.
	staleWait = 60 * time.Second

	// readyPoll is how often a starting postmaster is asked whether it answers.
	readyPoll = 30 * time.Millisecond

	// A postmaster that died is started again after restartMin, then after twice
	// as long each time it dies young, up to restartMax.
	restartMin = 100 * time.Millisecond
	restartMax = 2 * time.Second
)

// Cluster is a running local cluster. Its methods may be called from any goroutine.
type Cluster struct {
	options Options
	bin     string // folder of the binaries
	as      *syscall.SysProcAttr
	socket  string // folder of the Unix socket

	pid     atomic.Int64 // of the postmaster, 0 while there is none
	stopped atomic.Bool
	once    sync.Once
	stop    chan struct{}
	done    chan struct{}
}

// Start initializes the cluster where that has not been done, starts it, and
// returns once it answers. The error says what is missing or what went wrong, and
// then nothing runs.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	bin, err := findBinaries(o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, bin: bin, stop: make(chan struct{}), done: make(chan struct{})}
	if c.as, err = asUser(o.Dir, bin); err != nil {
		return nil, err
	}
	if err := c.waitForStale(ctx); err != nil {
		return nil, err
	}
	if err := c.initialize(ctx); err != nil {
		return nil, err
	}
	if err := c.makeSocketDir(); err != nil {
		return nil, err
	}
	first := make(chan error, 1)
	go c.supervise(first)
	if err := <-first; err != nil {
		return nil, err
	}
	if err := c.waitUntilReady(ctx); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.Stop(stopping))
	}
	return c, nil
}

// URL returns what a client connects with.
func (c *Cluster) URL() string {
	q := url.Values{"host": {c.socket}, "user": {user}}
	return "postgres:///postgres?" + q.Encode()
}

// Pid returns the postmaster's process id, 0 while there is none.
func (c *Cluster) Pid() int { return int(c.pid.Load()) }

// Done returns a channel that is closed once the cluster is stopped.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Stop stops the postmaster in order, with a fast shutdown: connections are
// ended, everything is written. When ctx ends first it is stopped at once, which
// costs the next start a recovery. It returns when nothing runs any more.
func (c *Cluster) Stop(ctx context.Context) error {
	c.once.Do(func() {
		c.stopped.Store(true)
		close(c.stop)
	})
	defer os.RemoveAll(c.socket)
	c.signal(syscall.SIGINT)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	c.signal(syscall.SIGQUIT)
	select {
	case <-c.done:
	case <-time.After(5 * time.Second):
		c.signal(syscall.SIGKILL)
		<-c.done
	}
	return fmt.Errorf("cluster: stopped at once: %w", ctx.Err())
}

func (c *Cluster) signal(s syscall.Signal) {
	if pid := c.Pid(); pid > 0 {
		_ = syscall.Kill(pid, s) // it may just have ended
	}
}

// supervise runs the postmaster, again and again, until the cluster is stopped.
// The kernel ends the postmaster when the thread that forked it ends: so this
// goroutine keeps its thread, and starts every postmaster itself.
func (c *Cluster) supervise(first chan<- error) {
	runtime.LockOSThread()
	defer close(c.done)
	for delay := restartMin; ; {
		begun := time.Now()
		cmd, err := c.launch()
		if first != nil {
			first <- err
			first = nil
			if err != nil {
				return
			}
		}
		if err == nil {
			err = cmd.Wait()
			c.pid.Store(0)
		}
		if c.stopped.Load() {
			return
		}
		if time.Since(begun) > restartMax {
			delay = restartMin
		}
		c.options.Log.Warn("the local Postgres has ended and is started again", "error", err, "in", delay)
		select {
		case <-time.After(delay):
		case <-c.stop:
			return
		}
		delay = min(2*delay, restartMax)
	}
}

// launch starts a postmaster.
func (c *Cluster) launch() (*exec.Cmd, error) {
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": c.socket,
		"unix_socket_permissions": "0700",
		"max_connections":         "24",
		"shared_buffers":          "256MB",
		"max_wal_size":            "4GB",
		"checkpoint_timeout":      "15min",
		"wal_compression":         "on",
		"jit":                     "off",
		"max_parallel_workers":    "0",
		"autovacuum_naptime":      "15s",
		"log_min_messages":        "warning",
		"restart_after_crash":     "on",
	}
	for k, v := range c.options.Settings {
		settings[k] = v
	}
	args := []string{"-D", c.dataDir()}
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", k+"="+settings[k])
	}
	log, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	defer log.Close()
	cmd := c.command(context.Background(), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	// At once, not in order: the next start must not have to wait for a
	// checkpoint, and what was committed is safe either way.
	endWithThread(cmd.SysProcAttr, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cluster: start %s: %w", cmd.Path, err)
	}
	c.pid.Store(int64(cmd.Process.Pid))
	if c.stopped.Load() { // Stop may have missed the new pid
		c.signal(syscall.SIGINT)
	}
	return cmd, nil
}

// command prepares a Postgres program, to be run as the user that may.
func (c *Cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	attr := *c.as
	cmd.SysProcAttr = &attr
	cmd.Dir = c.options.Dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }), "LC_ALL=C")
	return cmd
}

// waitUntilReady returns once the cluster answers. After a crash that takes as
// long as Postgres needs to recover.
func (c *Cluster) waitUntilReady(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	told := time.Now()
	for {
		conn, err := pgx.Connect(ctx, c.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			c.options.Log.Info("the local Postgres is starting", "state", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("cluster: %w before Postgres answered: %w; its log: %s", ctx.Err(), err, c.logTail())
		case <-c.done:
			return fmt.Errorf("cluster: Postgres ended; its log: %s", c.logTail())
		}
		if c.Pid() == 0 {
			return fmt.Errorf("cluster: Postgres ended as soon as it was started; its log: %s", c.logTail())
		}
	}
}

func (c *Cluster) dataDir() string { return filepath.Join(c.options.Dir, "data") }
func (c *Cluster) logPath() string { return filepath.Join(c.options.Dir, "postgres.log") }

// logTail returns the last lines of the log.
func (c *Cluster) logTail() string {
	const shown = 600
	b, err := os.ReadFile(c.logPath())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-shown):]))
}
