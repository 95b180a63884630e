package main

import (
	"context"
	"errors"
	"flag"
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

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
	"outcry/internal/process/child"
)

const tryText = `Three nodes on this machine, to see what a cluster does; real ones run on three machines. Kill
the one that leads (kill -9 with the pid that is printed): another one leads, and the killed
one is started again. Their data stays in --dir, and the next run goes on with it.

Node 1 has the ports after --base-port: XML, HTTP, and for the other nodes; node 2 has the next
three, and so on. It runs until Ctrl-C; the nodes end with it.`

// Bounds and times for cluster try.
const (
	tryNodes      = 3
	tryPorts      = 3 // ports of each node
	tryPortMax    = 65535 - tryNodes*tryPorts
	tryPoll       = 50 * time.Millisecond
	tryAskTimeout = 2 * time.Second
	tryStopTime   = 30 * time.Second // time that nodes have to stop before they are killed

	// A node that has ended is restarted after tryAgainPause, but not if it has ended tryEndsMax times within
	// tryEndsTime.
	tryAgainPause = 300 * time.Millisecond
	tryEndsMax    = 5
	tryEndsTime   = time.Minute
)

// tryNode is one of the nodes that cluster try runs.
type tryNode struct {
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
	nodes   []*tryNode
	peers   string
	began   time.Time

	mu     sync.Mutex // guards the fields below
	stdout io.Writer
	gone   time.Time // when the last leader's process ended, if known
	leader int
}

// prepareTry declares the flags of the command cluster try and returns what runs it.
func prepareTry(f *flag.FlagSet, c *cli.Client) func([]string) error {
	dir := f.String("dir", "outcry-cluster", "`directory` of the nodes' data and logs")
	base := f.Int("base-port", 12400, "the nodes use the nine ports after this one")
	program := f.String("outcryd", "", "`program` of the nodes; the outcryd beside outcry if left out")
	return func([]string) error {
		if *base < 1 || *base > tryPortMax {
			return cli.Usage(fmt.Sprintf("--base-port %d: must be from 1 to %d", *base, tryPortMax))
		}
		found, err := child.FindServer(*program)
		if err != nil {
			return err
		}
		whole, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		return newTrial(found, whole, *base, c.Stdout).run(ctx)
	}
}

func newTrial(program, dir string, base int, stdout io.Writer) *trial {
	t := &trial{program: program, dir: dir, stdout: stdout, began: time.Now()}
	var peers []string
	for n := range tryNodes {
		port := base + n*tryPorts
		at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", port+i) }
		node := &tryNode{number: n + 1, listen: at(1), http: at(2), peer: at(3),
			log: filepath.Join(dir, fmt.Sprintf("node-%d.log", n+1))}
		node.asks = remote.NewClient(node.http, tryAskTimeout, nil)
		t.nodes = append(t.nodes, node)
		peers = append(peers, fmt.Sprintf("%d=%s", node.number, node.peer))
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

// run runs the nodes until ctx ends, and then stops them. It returns an error if a node cannot run or does not
// stop.
func (t *trial) run(ctx context.Context) error {
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

// free returns an error if one of the nodes' addresses is already in use, for example by another trial. The
// error names the address.
func (t *trial) free() error {
	for _, n := range t.nodes {
		for _, address := range []string{n.listen, n.http, n.peer} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return fmt.Errorf("%w: end what listens there, perhaps another trial, or give another --base-port", err)
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
	text, _ := io.ReadAll(io.LimitReader(f, most)) // on an error, use what was read
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// keep runs a node and restarts it when it ends, until ctx ends. The error says why the node cannot run.
func (t *trial) keep(ctx context.Context, n *tryNode) error {
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
		for now.Sub(n.ends[0]) > tryEndsTime {
			n.ends = n.ends[1:]
		}
		if len(n.ends) > tryEndsMax {
			return fmt.Errorf("node %d has ended %d times within %s (%s), see %s; its last line: %s", n.number, len(n.ends),
				tryEndsTime, ended, n.log, lastLine(n.log))
		}
		t.noteEnd(n, now)
		t.say("node %d has ended: %s; it is started again", n.number, ended)
		select {
		case <-time.After(tryAgainPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// noteEnd records the time if the node that ended was the leader.
func (t *trial) noteEnd(n *tryNode, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == n.number {
		t.gone = at
	}
}

// once runs a node until it ends, or stops it when ctx ends. ended says how it ended on its own. It returns an
// error if the node cannot be started or does not stop.
func (t *trial) once(ctx context.Context, n *tryNode) (ended string, err error) {
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
	case <-time.After(tryStopTime):
	}
	_ = cmd.Process.Kill()
	<-exited
	return "", fmt.Errorf("node %d did not stop within %s, and was killed", n.number, tryStopTime)
}

// watch polls a node and prints changes of its role, until ctx ends.
func (t *trial) watch(ctx context.Context, n *tryNode) {
	tick := time.NewTicker(tryPoll)
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

// look asks a node for its role, and prints it if it has changed.
func (t *trial) look(ctx context.Context, n *tryNode) {
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

// sayLeads prints that a node leads, and how long after the end of the previous leader it took over.
func (t *trial) sayLeads(n *tryNode) {
	t.mu.Lock()
	after := ""
	if !t.gone.IsZero() && t.leader != n.number {
		after = fmt.Sprintf(", %.2f s after node %d ended", time.Since(t.gone).Seconds(), t.leader)
	}
	t.leader, t.gone = n.number, time.Time{}
	t.mu.Unlock()
	t.say("node %d leads%s; XML %s, page http://%s/", n.number, after, n.listen, n.http)
}
