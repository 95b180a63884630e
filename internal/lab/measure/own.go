package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"outcry/internal/process/child"
)

// Time limits of an ownExchange.
const (
	ownStartTime = 2 * time.Minute
	ownStopTime  = 30 * time.Second // how long end waits before it kills the process
)

// ownExchange is an Outcry that this program has started, with a local Postgres, in a temporary directory that
// end removes.
type ownExchange struct {
	addr string
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// startOwn starts outcryd, either the named one or the one that child.FindServer finds, and returns when it accepts
// orders. The error says that no outcryd was found, or quotes the last log lines of one that ended.
func startOwn(ctx context.Context, named string) (*ownExchange, error) {
	program, err := child.FindServer(named)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "outcry-beside-")
	if err != nil {
		return nil, err
	}
	x := &ownExchange{dir: dir, done: make(chan struct{})}
	x.cmd = exec.Command(program, "--data="+filepath.Join(dir, "data"), "--listen=127.0.0.1:0", "--http=")
	x.cmd.Env = child.Environ(os.Environ())
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only this program, which stops it
	child.EndWithThread(x.cmd.SysProcAttr, syscall.SIGTERM)
	log, said := io.Pipe()
	x.cmd.Stderr, x.cmd.WaitDelay = said, ownStopTime // its children may hold the log open
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ends it when the thread that started it ends
		defer close(x.done)
		err := x.cmd.Start()
		started <- err
		if err == nil {
			_ = x.cmd.Wait() // an error does not matter: the log says why it ended
		}
		said.Close()
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if x.addr, err = x.ready(ctx, log); err != nil {
		x.end()
		return nil, err
	}
	return x, nil
}

// ready reads the log up to the line with the address, and returns the address.
func (x *ownExchange) ready(ctx context.Context, log io.Reader) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownStartTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = x.cmd.Process.Signal(syscall.SIGTERM) })()
	defer func() { go func() { _, _ = io.Copy(io.Discard, log) }() }() // keep the log readable until the process ends
	var line struct{ Msg, XML, Error string }
	lines := json.NewDecoder(log)
	for last := ""; ; last = line.Msg + ": " + line.Error {
		line.Msg, line.Error = "", ""
		if err := lines.Decode(&line); err != nil {
			return "", errors.Join(fmt.Errorf("%s ended before it was ready; its last output: %s", x.cmd.Path, last), ctx.Err())
		}
		if line.Msg == "ready" {
			return line.XML, nil
		}
	}
}

// end stops the process, and removes its directory.
func (x *ownExchange) end() {
	_ = x.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-x.done:
	case <-time.After(ownStopTime):
		_ = x.cmd.Process.Kill()
		<-x.done
	}
	_ = os.RemoveAll(x.dir)
}
