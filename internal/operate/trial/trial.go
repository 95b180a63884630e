// Package trial runs a cluster of three nodes on this machine for people to try, as outcry cluster try does. It
// starts each node, restarts nodes that end, and prints which node leads.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"outcry/internal/operate/remote"
	"outcry/internal/process/child"
)

// Bounds and times for cluster try.
const (
	nodeCount  = 3
	nodePorts  = 3 // ports of each node
	pollEvery  = 50 * time.Millisecond
	askTimeout = 2 * time.Second
	stopTime   = 30 * time.Second // time that nodes have to stop before they are killed

	// A node that has ended is restarted after restartPause, but not if it has ended endsMax times within
	// endsTime.
	restartPause = 300 * time.Millisecond
	endsMax      = 5
	endsTime     = time.Minute
)

// Ports is how many ports a trial uses: the ports from Options.BasePort on.
const Ports = nodeCount * nodePorts

// Options configure a trial.
type Options struct {
	Program  string // path of outcryd
	Dir      string // directory for the nodes' data and logs; an absolute path
	BasePort int
	Out      io.Writer // receives a line for each event
}

// node is one of the nodes that cluster try runs.
type node struct {
	number             int
	listen, http, peer string
	log                string // path of the node's log file
	asks               *remote.Client

	// The field below belongs to the goroutine that runs the node.
	ends []time.Time

	// The field below belongs to the goroutine that watches the node.
	role string
}

// trial is a run of cluster try, with three nodes.
type trial struct {
	program string
	dir     string
	nodes   []*node
	peers   string
	began   time.Time

	mu     sync.Mutex // guards the fields below
	stdout io.Writer
	gone   time.Time // when the last leader's process ended, if known
	leader int
}

// Run runs the nodes until ctx ends, and then stops them. It returns an error if a node cannot run or does not
// stop.
func Run(ctx context.Context, o Options) error {
	t := newTrial(o)
	if err := t.free(); err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	var addrs, https []string
	for _, n := range t.nodes {
		addrs, https = append(addrs, n.listen), append(https, n.http)
	}
	fmt.Fprintf(t.stdout, "three nodes in %s; Ctrl-C ends them; in another shell:\n\n  export OUTCRY_ADDR=%s\n"+
		"  export OUTCRY_HTTP_ADDR=%s\n  outcry cluster status\n\n", t.dir, strings.Join(addrs, ","),
		strings.Join(https, ","))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, n := range t.nodes {
		running.Go(func() {
			runtime.LockOSThread() // the kernel ends a node when the thread that started it ends
			if err := t.keep(ctx, n); err != nil {
				cancel(err)
			}
		})
		running.Go(func() { t.watch(ctx, n) })
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func newTrial(o Options) *trial {
	t := &trial{program: o.Program, dir: o.Dir, stdout: o.Out, began: time.Now()}
	var peers []string
	for n := range nodeCount {
		port := o.BasePort + n*nodePorts
		at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", port+i) }
		x := &node{number: n + 1, listen: at(1), http: at(2), peer: at(3),
			log: filepath.Join(o.Dir, fmt.Sprintf("node-%d.log", n+1))}
		x.asks = remote.NewClient(x.http, askTimeout, nil)
		t.nodes = append(t.nodes, x)
		peers = append(peers, fmt.Sprintf("%d=%s", x.number, x.peer))
	}
	t.peers = strings.Join(peers, ",")
	return t
}

// say prints a line with the time since the start.
func (t *trial) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.stdout, "%5.1f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// free returns an error if one of the nodes' addresses is already in use, for example by another trial. The
// error names the address.
func (t *trial) free() error {
	for _, n := range t.nodes {
		for _, address := range []string{n.listen, n.http, n.peer} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return fmt.Errorf("%w: stop what listens there, perhaps another trial, or give another --base-port", err)
			}
			l.Close()
		}
	}
	return nil
}

// lastLine returns the last line of a log file, or a part of it if it is long.
func lastLine(path string) string {
	const most = 2000
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-most), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(f, most)) // after an error, use the part that was read
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// keep runs a node and restarts it when it ends, until ctx ends. The error says why the node cannot run.
func (t *trial) keep(ctx context.Context, n *node) error {
	for {
		ended, err := t.once(ctx, n)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("node %d: %w", n.number, err)
		}
		now := time.Now()
		n.ends = append(n.ends, now)
		for now.Sub(n.ends[0]) > endsTime {
			n.ends = n.ends[1:]
		}
		if len(n.ends) > endsMax {
			return fmt.Errorf("node %d has ended %d times within %s (%s), see %s; its last line: %s", n.number, len(n.ends),
				endsTime, ended, n.log, lastLine(n.log))
		}
		t.noteEnd(n, now)
		t.say("node %d has ended: %s; it is started again", n.number, ended)
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// noteEnd records the time if the node that ended was the leader.
func (t *trial) noteEnd(n *node, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == n.number {
		t.gone = at
	}
}

// once runs a node until it ends, or stops it when ctx ends. ended describes how it ended on its own. It returns an
// error if the node cannot be started or does not stop.
func (t *trial) once(ctx context.Context, n *node) (ended string, err error) {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(t.program, fmt.Sprintf("--node=%d", n.number), "--peers="+t.peers, "--listen="+n.listen,
		"--http="+n.http, "--data="+filepath.Join(t.dir, fmt.Sprintf("node-%d", n.number)))
	cmd.Env, cmd.Stderr = child.Environ(os.Environ()), log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only outcry, which stops the nodes
	child.EndWithThread(cmd.SysProcAttr, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	t.say("node %d is started, with pid %d", n.number, cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(exited)
	}()
	select {
	case <-exited:
		return cmd.ProcessState.String(), nil
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
		return "", nil
	case <-time.After(stopTime):
	}
	_ = cmd.Process.Kill()
	<-exited
	return "", fmt.Errorf("node %d did not stop within %s, and was killed", n.number, stopTime)
}

// watch polls a node and prints changes of its role, until ctx ends.
func (t *trial) watch(ctx context.Context, n *node) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		t.look(ctx, n)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look queries a node's role, and prints it if it has changed.
func (t *trial) look(ctx context.Context, n *node) {
	role, _ := n.asks.Role(ctx) // "" while the node starts or does not answer
	if ctx.Err() != nil || role == n.role {
		return
	}
	n.role = role
	switch role {
	case remote.RoleLeader:
		t.sayLeads(n)
	case remote.RoleStandby, remote.RoleLearner:
		t.say("node %d is ready: %s; XML %s, page http://%s/", n.number, role, n.listen, n.http)
	}
}

// sayLeads prints that a node leads, and how long after the previous leader's end it took over.
func (t *trial) sayLeads(n *node) {
	t.mu.Lock()
	after := ""
	if !t.gone.IsZero() && t.leader != n.number {
		after = fmt.Sprintf(", %.2f s after node %d ended", time.Since(t.gone).Seconds(), t.leader)
	}
	t.leader, t.gone = n.number, time.Time{}
	t.mu.Unlock()
	t.say("node %d leads%s; XML %s, page http://%s/", n.number, after, n.listen, n.http)
}
