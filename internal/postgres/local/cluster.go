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

// Options say where and how a cluster runs.
type Options struct {
	// Dir is where the cluster lives. It is made if it does not exist.
	Dir string

	// Log receives progress of a slow start, and restarts.
	Log *slog.Logger

	// Settings are further settings of Postgres, which override the package's own. With "fsync": "off", for
	// tests, initdb does not sync either.
	Settings map[string]string
}

const (
	port = "5432" // only the name of the socket depends on it

	// readyPoll is how often a starting Postgres is asked whether it answers, and
	// readyTimeout how long it may take to say so.
	readyPoll    = 20 * time.Millisecond
	readyTimeout = 5 * time.Second

	// progressEvery is the time between log lines during a slow start.
	progressEvery = 5 * time.Second

	// abortTimeout bounds the shutdown after a failed start.
	abortTimeout = 10 * time.Second

	// quitTimeout is how long an immediate shutdown may take before Postgres is killed, and then how long the
	// killed process may take to end.
	quitTimeout = 10 * time.Second

	// orphansTimeout is how long what a killed postmaster has left may still use its memory;
	// until then a new one ends at once, and its log ends with orphansText.
	orphansTimeout = 30 * time.Second
	orphansText    = "pre-existing shared memory block"
)

// Cluster is a running cluster. Safe for concurrent use.
type Cluster struct {
	options Options
	bin     string               // folder of the binaries
	as      *syscall.SysProcAttr // user as whom Postgres runs
	lock    *os.File
	socket  string // folder of the Unix socket

	stepped func(c *Cluster, does string) // of machine

	stopOnce sync.Once
	stop     chan struct{} // closed when Stop is called
	done     chan struct{} // closed when none of its processes runs any more

	mu         sync.Mutex // guards postmaster
	postmaster *os.Process
}

// machine is what differs between machines, and what tests replace.
type machine struct {
	installed func() []string // folders that may hold binaries
	download  func(ctx context.Context, o Options, major int) (bin string, err error)
	user      func(data, bin string) (*syscall.SysProcAttr, error)
	stepped   func(c *Cluster, does string) // is called after each step of settleRoles; nil for none
}

// Start initializes the cluster in o.Dir if that has not been done, starts it,
// and returns once it answers. It first waits for the postmaster of a former
// process to end, and then for the recovery after a crash; ctx bounds both.
//
// The error says what is missing or went wrong: the cluster is in use by another
// process, there are no binaries or none of the right version, root can become
// nobody else, initdb or Postgres failed (with the end of its log), the role of a former
// version could not be replaced, ctx ended. Nothing runs then, and the data is as before.
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

// waitUntilReady returns once Postgres answers. After a crash that takes as long
// as Postgres needs to recover. A postmaster that ends before is not waited for, unless
// processes of a killed one are still ending.
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
			return fmt.Errorf("cluster: Postgres does not let user %d in: %w; its log ends with: %s", os.Geteuid(), state,
				c.logTail())
		}
		select {
		case err := <-failed:
			if time.Since(begun) < orphansTimeout && strings.Contains(c.logTail(), orphansText) {
				continue // supervise starts another one
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

// ping connects once and returns the error.
func (c *Cluster) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	conn, err := c.connectAsSuperuser(ctx)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// URL returns what a client connects with, pgx and psql alike. The user in it owns the
// database and is no superuser. Root, the user of this process and the one whom Postgres
// runs as may use it. It stays the same until the cluster is stopped, and differs each
// time that it is started.
func (c *Cluster) URL() string { return urlOf(c.socket, role) }

// AdminURL returns a URL like that of URL, for a superuser.
func (c *Cluster) AdminURL() string { return urlOf(c.socket, superuser) }

// PsqlCommand returns the shell command with which people look at the tables, run
// as the same user as this process. It is the same every time, unless the
// cluster's directory is too deep for the path of a socket.
func (c *Cluster) PsqlCommand() string {
	const socketPathMax = 107
	host := filepath.Join(c.options.Dir, socketLink)
	if len(host)+len("/.s.PGSQL."+port) > socketPathMax {
		host = c.socket
	}
	return fmt.Sprintf("psql -h '%s' -p %s -U %s %s", host, port, role, database)
}

// Pid returns the process id of the postmaster, 0 while there is none: after it
// died and before it is started again, and once the cluster is stopped.
func (c *Cluster) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.postmaster == nil {
		return 0
	}
	return c.postmaster.Pid
}

// Done returns a channel that is closed once the cluster is stopped and nothing of
// it runs any more. A postmaster that dies does not close it: it comes back.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Stop stops Postgres in order, with a fast shutdown: connections are ended,
// everything is written. When ctx ends first, Postgres is stopped at once, which
// costs the next start a recovery, and Stop returns an error that wraps ctx's.
// Either way nothing runs any more when it returns, unless the error says that a
// process does not end even though it was killed. Later calls return nil.
func (c *Cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { close(c.stop) })
	select {
	case <-c.done: // whatever ctx says
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

// signal sends s to the postmaster, if there is one.
func (c *Cluster) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.postmaster != nil {
		_ = c.postmaster.Signal(s) // it may just have ended
	}
}

// release frees what a cluster holds besides the postmaster.
func (c *Cluster) release() {
	if c.socket != "" {
		_ = os.RemoveAll(c.socket) // what is left is removed by the next start
		_ = os.Remove(filepath.Join(c.options.Dir, socketLink))
	}
	if c.lock != nil {
		_ = unlock(c.lock)
	}
}
