// Package harness runs an exchange to test against: outcryd built from this
// repository, as a process of its own; a Postgres that can be killed, stopped
// and restarted below it; and between the two a proxy that can be slow or cut
// connections. Everything it starts ends with the process that started it, also
// when that is killed.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Root returns the directory of the repository that the running command belongs
// to, which is the one of the working directory.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("harness: find the repository (run this within it): %w", withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// Changed ends a revision from which files differ.
const Changed = " with changes"

// Revision returns the commit that is checked out, and whether files outside docs differ
// from it; "unknown" where git does not tell.
func Revision(ctx context.Context, root string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown"
	}
	if changes, err := git("status", "--porcelain", "--", ":/", ":(top,exclude)docs"); err != nil || changes != "" {
		return commit + Changed
	}
	return commit
}

// Build builds a command of the repository, such as ./cmd/outcryd, into dir with
// edits applied, and returns the program's path.
func Build(ctx context.Context, root, command, dir string, edits ...Edit) (string, error) {
	program := filepath.Join(dir, filepath.Base(command))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("harness: build %s: %w", command, err)
	}
	args := []string{"build", "-ldflags=-w", "-o", program} // no debugger looks at it, and it is linked in half the time
	if len(edits) > 0 {
		overlay, err := Overlay(root, dir, edits)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, command)...)
	cmd.Dir = root
	if _, err := cmd.Output(); err != nil {
		return "", fmt.Errorf("harness: build %s: %w", command, withStderr(err))
	}
	return program, nil
}

// withStderr adds what a command said to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}

// ServerOptions say what to start.
type ServerOptions struct {
	Program     string // path of outcryd
	Data        string // its data directory
	DatabaseURL string
	Flags       []string
	Inside      []string  // words before the command, as Machines.Inside returns them
	CPUs        string    // processors that it alone may use, as taskset(1) has them; "" for all
	Files       int       // descriptors that it may have open; 0 for as many as this process
	Token       string    // that Metric shows; "" without --auth
	Env         []string  // in addition to this process's
	Log         io.Writer // receives the server's log as well; may be nil
}

// Server is outcryd as a process. Its methods may be called from any goroutine.
type Server struct {
	XML, HTTP string // addresses, once it is ready

	token  string
	cmd    *exec.Cmd
	log    *logTail
	ready  chan struct{} // closed with the log's "ready" line
	exited chan struct{} // closed when the process is gone
	state  *os.ProcessState
}

// starters starts processes on a thread that lives as long as this process:
// the kernel sends the parent-death signal when the thread that forked ends.
var starters = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts a process that ends with this one, also when this one is killed. A
// terminal's Ctrl-C is not sent to it. The error is cmd's.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	return start(cmd)
}

// startApart is Start with a network of its own.
func startApart(cmd *exec.Cmd) error {
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	ownNetwork(cmd.SysProcAttr)
	return start(cmd)
}

// start starts a process with the attributes that it has.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Setpgid = true
	endWithThread(cmd.SysProcAttr)
	started := make(chan error)
	starters() <- func() { started <- cmd.Start() }
	return <-started
}

// Launch starts outcryd on ports of its own and does not wait for it.
func Launch(o ServerOptions) (*Server, error) {
	s := &Server{token: o.Token, ready: make(chan struct{}), exited: make(chan struct{})}
	s.log = &logTail{copy: o.Log, onReady: func(xml, http string) {
		s.XML, s.HTTP = xml, http
		close(s.ready)
	}}
	command := []string{o.Program}
	if o.CPUs != "" {
		command = []string{"taskset", "--cpu-list", o.CPUs, o.Program} // it becomes the program
	}
	if o.Files > 0 {
		command = append([]string{"prlimit", fmt.Sprintf("--nofile=%d:%d", o.Files, o.Files)}, command...) // likewise
	}
	command = append(append([]string(nil), o.Inside...), command...)
	s.cmd = exec.Command(command[0], append(command[1:], append([]string{"--listen=127.0.0.1:0", "--http=127.0.0.1:0",
		"--data=" + o.Data, "--database-url=" + o.DatabaseURL}, o.Flags...)...)...)
	s.cmd.Env = append(os.Environ(), o.Env...)
	s.cmd.Stderr = s.log
	if err := Start(s.cmd); err != nil {
		return nil, fmt.Errorf("harness: start %s: %w", o.Program, err)
	}
	go func() {
		_ = s.cmd.Wait() // the state tells
		s.state = s.cmd.ProcessState
		close(s.exited)
	}()
	return s, nil
}

// WaitReady returns once the server takes orders. The error says that it ended
// before, with the end of its log, or that ctx ended.
func (s *Server) WaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.exited:
		why, _ := s.LastAttr("error")
		return fmt.Errorf("harness: the server ended with %s before it was ready: %s; its log ends with:\n%s",
			s.state, why, s.LogTail())
	case <-ctx.Done():
		return fmt.Errorf("harness: the server is not ready: %w; its log ends with:\n%s", ctx.Err(), s.LogTail())
	}
}

// Gone reports whether the process is gone.
func (s *Server) Gone() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// LogTail returns the last lines of the server's log.
func (s *Server) LogTail() string { return s.log.String() }

// LastAttr returns the value of an attribute in the newest of the log's last
// lines that has it, and whether there is one.
func (s *Server) LastAttr(name string) (string, bool) { return s.log.attr(name) }

// Pid returns the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill ends the process like a crash and waits until it is gone.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may be gone already
	<-s.exited
}

// Stop ends the process in order. The error is an exit status other than 0 or
// ctx's end.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("harness: stop the server: %w", err)
	}
	select {
	case <-s.exited:
	case <-ctx.Done():
		return fmt.Errorf("harness: the server does not stop: %w; its log ends with:\n%s", ctx.Err(), s.LogTail())
	}
	if !s.state.Success() {
		return fmt.Errorf("harness: the server stopped with %s; its log ends with:\n%s", s.state, s.LogTail())
	}
	return nil
}

// answerMax is the most of an answer that Ask reads.
const answerMax = 1 << 20

// Ask sends a request to the server's HTTP side, with a token unless that is "", and returns the
// status and up to answerMax bytes of the answer. The error says that there was none.
func (s *Server) Ask(ctx context.Context, method, path, token, body string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("harness: %s %s: %w", method, path, err)
		}
	}()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(io.LimitReader(reply.Body, answerMax))
	return reply.StatusCode, string(b), err
}

// askTimeout bounds a request to the HTTP side.
const askTimeout = time.Minute

// Metric returns the value of a metric without labels.
func (s *Server) Metric(ctx context.Context, name string) (float64, error) {
	_, metrics, err := s.Ask(ctx, http.MethodGet, "/metrics", s.token, "")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("harness: the server has no metric %s", name)
}
