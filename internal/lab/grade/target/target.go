// Package target has the servers that are graded: one that runs already (Attached), one that a
// command starts (Command), and a service of a Compose file (Compose).
//
// A server that a command starts may be anything: it leaves its process group, clears its
// environment, forks until it may not, ignores what it is told. A keeper stands between it and us,
// a child of ours that runs this program again:
//
//	outcry-lab grade ── lifeline, a pipe ──▶ keeper ── starter, which becomes sh -c COMMAND ── …
//
// On Linux the keeper is the subreaper of all that the command starts: what loses its parent becomes
// the keeper's child, whatever it did to its group, session and environment. The end of the
// lifeline, which comes also when we are killed, has the keeper kill all descendants until the kernel
// says that it has no child. While something lives, it takes no exit status: each process killed
// still counts against the limit of processes, so a fork bomb runs out of forks. If somebody
// kills the keeper, we are the next subreaper: we kill what becomes our child, and every process with
// the mark that the server's environment had.
//
// Elsewhere (macOS) only the process group is killed. Out of reach is what other services start
// for the server: cron, systemd, Docker.
package target

import (
	"context"
	"errors"
	"net"
	"time"
)

// Bounds on a server that we start.
const (
	ReadyTime   = 60 * time.Second // within it, it has to accept connections
	LogBytesMax = 64 << 10         // so much of the end of what it prints is kept

	killTime = 10 * time.Second // for all processes to end after SIGKILL: one may wait for a disk
	portTime = 5 * time.Second  // for the port to be free then
	pollTime = 20 * time.Millisecond
)

// ErrNotTried means that Start started nothing, for a reason that is not the server's: something else
// listens there, or the server could read or write what it must not, or not read what it must.
var ErrNotTried = errors.New("grade: the server was not tried")

// Target is a server. Its methods are called by one goroutine.
type Target interface {
	// Name is what the report calls it: its address or command.
	Name() string
	// Addr is where it listens, host and port. Start may change it.
	Addr() string
	// Start starts it, and returns when it accepts connections. The error says that it did not
	// within ReadyTime, with the end of what it printed; then nothing of it runs.
	Start(ctx context.Context) error
	// First returns the connection by which the last Start saw that it accepts, which the caller closes; nil if
	// there is none, or it was taken. A server may end at a connection that is closed before it sends anything,
	// so this one carries the first frame. It may be called by any goroutine.
	First() net.Conn
	// CanKill reports whether Kill and Start can be called again.
	CanKill() bool
	// Kill kills every process of it with SIGKILL, and returns when its port is free. Connections to it
	// should be closed before, or reset when it has closed them: else some remain in the kernel, and a
	// server that does not set SO_REUSEADDR cannot listen for a minute. Start tries again until ReadyTime.
	Kill(ctx context.Context) error
	// Log returns the end of what it printed, at most LogBytesMax, as valid UTF-8.
	Log() string
	// Close kills it if Start started it, and removes what it left. Nothing of it runs afterwards.
	Close() error
}

// Limits are of a server that a command starts. They bind its user where the system counts users
// (processes), and each process otherwise. Zero is the default.
type Limits struct {
	Memory    uint64 // bytes of data of a process; DefaultLimits has 4 GiB
	Processes uint64 // and threads, besides those that its user has already
	Files     uint64 // open files of a process
	FileSize  uint64 // bytes of a file
}

// DefaultLimits suit servers in Java and Node too, which reserve much and use little.
var DefaultLimits = Limits{Memory: 4 << 30, Processes: 1024, Files: 4096, FileSize: 1 << 30}

// Options say what Command starts.
type Options struct {
	Command string // for /bin/sh; PORT is in its environment
	// Addr is where it listens, host and port; "" chooses a free port of this machine.
	Addr string
	Dir  string // it starts there; "" is the current directory
	// User runs it: a name or a number. "" is nobody if we are root, and otherwise who we are, which is
	// then the only one that is possible.
	User   string
	Limits Limits
	// Hidden are files and folders that the server must not be able to read, and Results files that it
	// must not be able to write or replace; those that there are not are made, empty. Start refuses if
	// it could, unless it runs as who we are: then it can do what we can.
	Hidden, Results []string
	// Reads are files that the server must be able to read. Start refuses if it could not, as if it could
	// not enter Dir: else it would be the server that fails.
	Reads []string
}
