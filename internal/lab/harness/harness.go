// Package harness runs an exchange under test: outcryd, built from this repository, as a separate
// process; a Postgres that can be killed, stopped and restarted; and a proxy between the two that can
// slow down or cut connections. Everything it starts ends with the process that started it, even if that
// process is killed.
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

	"outcry/internal/process/child"
)

// Root returns the root directory of the repository that contains the working directory.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("harness: find the repository (run this within it): %w", withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// Build builds a command of the repository, such as ./cmd/outcryd, into dir with edits applied, and
// returns the program's path.
func Build(ctx context.Context, root, command, dir string, edits ...Edit) (string, error) {
	program := filepath.Join(dir, filepath.Base(command))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("harness: build %s: %w", command, err)
	}
	args := []string{"build", "-ldflags=-w", "-o", program} // no debug information: linking takes half the time
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

// withStderr adds a command's standard error to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}

// ServerOptions configure a server.
type ServerOptions struct {
	Program     string // path of outcryd
	Data        string // its data directory
	DatabaseURL string
	Flags       []string
	Inside      []string  // prefix of the command, as returned by Machines.Inside
	CPUs        string    // processors for the server alone, in the form of taskset(1); "" means all
	Files       int       // limit of file descriptors; 0 means that of this process
	Token       string    // sent by Metric; "" without --auth
	Env         []string  // added to this process's environment
	Log         io.Writer // also receives the server's log; may be nil
}

// Server is an outcryd process. Its methods may be called from any goroutine.
type Server struct {
	XML, HTTP string // set when the server is ready

	token  string
	cmd    *exec.Cmd
	log    *logTail
	ready  chan struct{} // closed at the log's "ready" line
	exited chan struct{} // closed when the process has ended
	state  *os.ProcessState
}

// starters runs functions on a thread that lives as long as this process. Processes must be started on
// it, since the kernel sends the parent-death signal when the thread that forked ends.
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

// Start starts a process that ends with this one, even if this one is killed. A terminal's Ctrl-C is not
// sent to it. The error is cmd's.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	return start(cmd)
}

// startApart does the same as Start with a separate network namespace.
func startApart(cmd *exec.Cmd) error {
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	ownNetwork(cmd.SysProcAttr)
	return start(cmd)
}

// start starts a process with its attributes set.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Setpgid = true
	child.EndWithThread(cmd.SysProcAttr, syscall.SIGKILL)
	started := make(chan error)
	starters() <- func() { started <- cmd.Start() }
	return <-started
}

// Launch starts outcryd on unused ports and does not wait until it is ready.
func Launch(o ServerOptions) (*Server, error) {
	s := &Server{token: o.Token, ready: make(chan struct{}), exited: make(chan struct{})}
	s.log = &logTail{copy: o.Log, onReady: func(xml, http string) {
		s.XML, s.HTTP = xml, http
		close(s.ready)
	}}
	command := []string{o.Program}
	if o.CPUs != "" {
		command = []string{"taskset", "--cpu-list", o.CPUs, o.Program} // taskset execs the program
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
		_ = s.cmd.Wait() // ProcessState has the result
		s.state = s.cmd.ProcessState
		close(s.exited)
	}()
	return s, nil
}

// WaitReady returns when the server accepts orders. It returns an error with the end of the log if the
// server ended before, or ctx's error.
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

// Gone reports whether the process has ended.
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

// LastAttr returns the value of an attribute in the newest of the kept log lines that have it, and whether there is
// such a line.
func (s *Server) LastAttr(name string) (string, bool) { return s.log.attr(name) }

// Pid returns the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill kills the process, as in a crash, and waits until it has ended.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
}

// Stop stops the process in order. The error is an exit status other than 0, or ctx's.
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

// answerMax is how many bytes of an answer Ask reads.
const answerMax = 1 << 20

// Ask sends a request to the server's HTTP port, with token unless it is "", and returns the status and
// up to answerMax bytes of the body. It returns an error if there was no answer.
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

// askTimeout is the timeout of a request to the HTTP port.
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
