// Package target runs the servers that are graded: one that runs already (Attached), one that a
// command starts (Command), and a service of a Compose file (Compose).
//
// A server that a command starts may do anything: leave its process group, clear its environment, fork
// up to its limit, ignore signals. So a keeper stands between it and the kit. The keeper is a child of
// the kit that runs the same program:
//
//	outcry-lab grade ── lifeline, a pipe ──▶ keeper ── starter, which becomes sh -c COMMAND ── …
//
// On Linux the keeper is the subreaper of all that the command starts: a process that loses its parent becomes the
// keeper's child, regardless of its group, session and environment. When the lifeline ends, which also happens if the
// kit is killed, the keeper kills all descendants until the kernel reports that it has no child. While any of them
// lives, it reaps no child: each killed process then still counts against the process limit, so a fork bomb runs out
// of processes. If the keeper itself is killed, the kit is the next subreaper: it kills the processes that become its
// children, and every process with the mark that was in the server's environment.
//
// Elsewhere (macOS) only the process group is killed. Processes that other services start for the server
// are out of reach: cron, systemd, Docker.
package target

import (
	"context"
	"errors"
	"net"
	"time"
)

// Bounds of a server that the kit starts.
const (
	ReadyTime   = 60 * time.Second // time from the start until the server must accept connections
	LogBytesMax = 64 << 10         // bytes kept of the end of the server's output

	killTime = 10 * time.Second // time for all processes to end after SIGKILL: a process may be waiting for a disk
	portTime = 5 * time.Second  // time for the port to become free after that
	pollTime = 20 * time.Millisecond
)

// ErrNotTried means that Start started nothing, for a reason that is not the server's fault: something else listens at
// its address, or its user has access that it must not have, or does not have access that it needs.
var ErrNotTried = errors.New("grade: the server was not tested")

// Target is a server to grade. Its methods are called by one goroutine, except First.
type Target interface {
	// Name returns the server's name in the report: its address or command.
	Name() string
	// Addr returns where the server listens, host and port. Start may change it.
	Addr() string
	// Start starts the server, and returns when it accepts connections. If the server does not accept one within
	// ReadyTime, the error has the end of its output, and no process of the server is left.
	Start(ctx context.Context) error
	// First returns the connection by which the last Start saw that the server accepts connections, and the caller
	// closes it. It returns nil if there is no such connection, or if it was returned already. The connection
	// should carry the first frame, since a server may end when a connection is closed without a frame. Any
	// goroutine may call it.
	First() net.Conn
	// CanKill reports whether Kill and Start can be called again.
	CanKill() bool
	// Kill kills every process of the server with SIGKILL, and returns when its port is free. Close connections to it
	// first, or reset those that it has closed. Otherwise some connections remain in the kernel, and a server that does
	// not set SO_REUSEADDR cannot listen for a minute; Start then retries until ReadyTime.
	Kill(ctx context.Context) error
	// Log returns the end of the server's output, at most LogBytesMax, as valid UTF-8.
	Log() string
	// Close kills the server if Start started it, and removes its files. Afterwards no process of the server is
	// left.
	Close() error
}

// Limits bound a server that a command starts. The limit of processes applies to its user, the others to each
// process. A zero field means the value in DefaultLimits.
type Limits struct {
	Memory    uint64 // bytes of data of a process
	Processes uint64 // processes and threads, in addition to those that its user already has
	Files     uint64 // open files of a process
	FileSize  uint64 // bytes of a file
}

// DefaultLimits suit servers in Java and Node too, which reserve much memory and use little.
var DefaultLimits = Limits{Memory: 4 << 30, Processes: 1024, Files: 4096, FileSize: 1 << 30}

// Options configure Command.
type Options struct {
	Command string // run by /bin/sh, with PORT in the environment
	// Addr is the address at which the server listens, host and port; "" chooses a free port of this machine.
	Addr string
	Dir  string // the server's working directory; "" means the current one
	// User runs the server: a name or a number. If it is "", root uses the user nobody, and any other user itself. A user
	// other than root cannot name a different user.
	User   string
	Limits Limits
	// Hidden are files and folders that the server must not be able to read. Results are files that it must not be
	// able to write or replace; missing ones are created empty. Start returns ErrNotTried if the server could,
	// unless it runs as the kit's own user and so has all its rights.
	Hidden, Results []string
	// Reads are files that the server must be able to read. Start returns ErrNotTried if it could not read them or
	// enter Dir, since the failure would otherwise count as the server's.
	Reads []string
}
