package main

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

	"outcry/cmd/internal/cli"
)

// Times of an ownExchange.
const (
	ownStartTime = 2 * time.Minute
	ownStopTime  = 30 * time.Second // before it is killed
)

// ownExchange is an Outcry that this program has started for itself, with a local Postgres, in a
// directory that goes with it.
type ownExchange struct {
	addr string
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startOwn starts outcryd, the named one or that beside this program, and returns when it takes orders.
// The error says that there is none, or what it said before it ended.
func startOwn(ctx context.Context, named string) (*ownExchange, error) {
	program, err := cli.FindServer(named)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "outcry-beside-")
	if err != nil {
		return nil, err
	}
	x := &ownExchange{dir: dir, done: make(chan struct{})}
	x.cmd = exec.Command(program, "--data="+filepath.Join(dir, "data"), "--listen=127.0.0.1:0", "--http=")
	x.cmd.Env = cli.OwnEnviron(os.Environ())
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for outcry, which stops it
	cli.EndWithThread(x.cmd.SysProcAttr)
	log, said := io.Pipe()
	x.cmd.Stderr, x.cmd.WaitDelay = said, ownStopTime // what it leaves behind may hold its log open
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with the thread that started it
		defer close(x.done)
		err := x.cmd.Start()
		started <- err
		if err == nil {
			_ = x.cmd.Wait() // what it said last says why
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

// ready reads the log up to the line that says where it listens.
func (x *ownExchange) ready(ctx context.Context, log io.Reader) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownStartTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = x.cmd.Process.Signal(syscall.SIGTERM) })()
	defer func() { go func() { _, _ = io.Copy(io.Discard, log) }() }() // until it has ended
	var line struct{ Msg, XML, Error string }
	lines := json.NewDecoder(log)
	for last := ""; ; last = line.Msg + ": " + line.Error {
		line.Msg, line.Error = "", ""
		if err := lines.Decode(&line); err != nil {
			return "", errors.Join(fmt.Errorf("%s ended before it was ready, and said last: %s", x.cmd.Path, last), ctx.Err())
		}
		if line.Msg == "ready" {
			return line.XML, nil
		}
	}
}

// end stops it, and removes its directory.
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
