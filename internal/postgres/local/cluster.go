package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options configure a cluster.
type Options struct {
	// Dir is the directory of the cluster. It is made if it does not exist.
	Dir string

	// Log receives the progress of a slow start, and restarts of Postgres.
	Log *slog.Logger

	// Settings are further settings of Postgres, which override the package's own. With "fsync": "off", for
	// tests, initdb does not sync either.
	Settings map[string]string
}

const (
	port = "5432" // only the name of the socket depends on the port

	// readyPoll is the time between two pings of a starting Postgres, and readyTimeout bounds each ping.
	readyPoll    = 20 * time.Millisecond
	readyTimeout = 5 * time.Second

	// progressEvery is the time between log lines during a slow start.
	progressEvery = 5 * time.Second

	// abortTimeout bounds the shutdown after a failed start.
	abortTimeout = 10 * time.Second

	// quitTimeout is how long an immediate shutdown may take before Postgres is killed, and then how long the
	// killed process may take to end.
	quitTimeout = 10 * time.Second

	// orphansTimeout is how long a start tolerates processes of a killed postmaster that still use its shared
	// memory. Until they end, a new postmaster exits at once, with orphansText at the end of its log.
	orphansTimeout = 30 * time.Second
	orphansText    = "pre-existing shared memory block"
)

// Cluster is a running Postgres cluster. It is safe for concurrent use.
type Cluster struct {
	options Options
	bin     string               // folder of the binaries
	as      *syscall.SysProcAttr // user as whom Postgres runs
	lock    *os.File
	socket  string // folder of the Unix socket

	stepped func(c *Cluster, does string) // the function of machine with this name

	stopOnce sync.Once
	stop     chan struct{} // closed when Stop is called
	done     chan struct{} // closed when no process of the cluster is running any more

	mu         sync.Mutex // guards postmaster
	postmaster *os.Process
}

// machine holds what differs between machines, so that tests can replace it.
type machine struct {
	installed func() []string // folders that may hold binaries
	download  func(ctx context.Context, o Options, major int) (bin string, err error)
	user      func(data, bin string) (*syscall.SysProcAttr, error)
	stepped   func(c *Cluster, does string) // called after each step of settleRoles; may be nil
}

// Start initializes the cluster in o.Dir if it is new, starts it, and returns once it answers. It first waits
// until the postmaster of an earlier process has ended, and then for the recovery after a crash; ctx bounds
// both.
//
// Start returns an error if the cluster is in use by another process, if there are no binaries or none of the
// right version, if root cannot become another user, if initdb or Postgres fails (the error has the end of its
// log), if the role of a former version could not be replaced, or if ctx ends. After an error nothing is
// running, and the data is unchanged.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	return start(ctx, o, machine{installed: installed, download: pinned.download, user: asUser})
}

func start(ctx context.Context, o Options, m machine) (*Cluster, error) {
	c := &Cluster{options: o, stepped: m.stepped, stop: make(chan struct{}), done: make(chan struct{})}
	if err := c.prepare(ctx, m); err != nil {
		c.release()
		return nil, err
	}
	failed := make(chan error, 1)
	go c.supervise(failed)
	err := c.waitUntilReady(ctx, failed)
	if err == nil {
		err = c.settleRoles(ctx)
	}
	if err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		return nil, errors.Join(err, c.Stop(stopping))
	}
	return c, nil
}

// waitUntilReady returns once Postgres answers. After a crash this takes as long as the recovery. It returns
// an error if the first postmaster ends before that, unless the reason is that processes of a killed
// postmaster are still ending.
func (c *Cluster) waitUntilReady(ctx context.Context, failed <-chan error) error {
	begun := time.Now()
	poll, progress := time.NewTicker(readyPoll), time.NewTicker(progressEvery)
	defer poll.Stop()
	defer progress.Stop()
	for {
		state := c.ping(ctx)
		if state == nil {
			return nil
		}
		if refused(state) {
			return fmt.Errorf("cluster: Postgres refuses user %d: %w; its log ends with: %s", os.Geteuid(), state,
				c.logTail())
		}
		select {
		case err := <-failed:
			if time.Since(begun) < orphansTimeout && strings.Contains(c.logTail(), orphansText) {
				continue // supervise starts another postmaster
			}
			return fmt.Errorf("cluster: Postgres ended before it answered: %w; its log ends with: %s", err, c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("cluster: wait for Postgres to answer: %w; its log ends with: %s", ctx.Err(), c.logTail())
		case <-progress.C:
			c.options.Log.Info("the local Postgres is starting", "state", state)
		case <-poll.C:
		}
	}
}

// ping connects once, and returns the error of connecting or nil.
func (c *Cluster) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	conn, err := c.connectAsSuperuser(ctx)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// URL returns the connection URL, for pgx and psql alike. Its user owns the database and is not a superuser.
// Only root, the user of this process and the user as whom Postgres runs can connect with it. It is valid
// until the cluster is stopped, and differs after each start.
func (c *Cluster) URL() string { return urlOf(c.socket, role) }

// AdminURL is like URL, for a superuser.
func (c *Cluster) AdminURL() string { return urlOf(c.socket, superuser) }

// PsqlCommand returns a shell command with which an operator can inspect the tables, as the same user as this
// process. It is the same after each start, unless the path of the cluster's directory is too long for a
// socket.
func (c *Cluster) PsqlCommand() string {
	const socketPathMax = 107
	host := filepath.Join(c.options.Dir, socketLink)
	if len(host)+len("/.s.PGSQL."+port) > socketPathMax {
		host = c.socket
	}
	return fmt.Sprintf("psql -h '%s' -p %s -U %s %s", host, port, role, database)
}

// Pid returns the process id of the postmaster. It returns 0 while no postmaster is running: before a restart,
// and after Stop.
func (c *Cluster) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.postmaster == nil {
		return 0
	}
	return c.postmaster.Pid
}

// Done returns a channel that is closed once the cluster is stopped and none of its processes is running. A
// postmaster that dies does not close it, because it is restarted.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Stop stops Postgres with a fast shutdown: it ends connections and writes everything. If ctx ends first, Stop
// uses an immediate shutdown, after which the next start must recover, and returns an error that wraps ctx's.
// In both cases no process is running when Stop returns, unless the error says that a process survived being
// killed. Later calls return nil.
func (c *Cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { close(c.stop) })
	select {
	case <-c.done: // stopped, even if ctx has ended too
		return nil
	default:
	}
	c.signal(syscall.SIGINT)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		c.signal(s)
		select {
		case <-c.done:
			return fmt.Errorf("cluster: stop %s in order: %w; it was stopped at once", c.options.Dir, ctx.Err())
		case <-time.After(quitTimeout):
		}
	}
	return fmt.Errorf("cluster: stop %s: %w; process %d does not end", c.options.Dir, ctx.Err(), c.Pid())
}

// signal sends s to the postmaster, if one is running.
func (c *Cluster) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.postmaster != nil {
		_ = c.postmaster.Signal(s) // fails if the process has just ended
	}
}

// release frees the cluster's lock and removes its socket.
func (c *Cluster) release() {
	if c.socket != "" {
		_ = os.RemoveAll(c.socket) // the next start removes what is left
		_ = os.Remove(filepath.Join(c.options.Dir, socketLink))
	}
	if c.lock != nil {
		_ = unlock(c.lock)
	}
}
