package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Names of processes by which this program knows, when it begins, that it is not the program.
const (
	keeperName  = "outcry-keeper"
	starterName = "outcry-starter"
)

// Exit statuses of a keeper.
const (
	keeperDone  = 0 // nothing of the server runs
	keeperWrong = 1 // it says what is wrong
	keeperEnded = 2 // the server ended by itself, with all its processes; it says how
)

// markName is the variable in the environment of a server by which its processes can be found.
const markName = "GRADED_SERVER" // Outcry's own server warns of what begins with OUTCRY_

// Bounds of a keeper.
const (
	notesMax = 4 << 10          // of what a keeper says
	lastTime = 60 * time.Second // for the last command
	drainMax = 2 * time.Second  // for what is left in the pipe of a log
)

// spec is what a keeper keeps, in its arguments. The environment is that of the server.
type spec struct {
	Command  string
	Dir      string
	UID, GID int // -1 is who we are
	Limits   Limits
	Scratch  string   // is removed in the end, unless the kit has said that it goes on
	Last     []string // is run in the end, by who we are
}

// init makes this process a keeper or starter if it was begun as one. It is here and not in main as
// the programs that start servers are many: each test is one.
func init() {
	if len(os.Args) != 2 || os.Args[0] != keeperName && os.Args[0] != starterName {
		return
	}
	var s spec
	err := json.Unmarshal([]byte(os.Args[1]), &s)
	status := keeperWrong
	switch {
	case err != nil:
	case os.Args[0] == keeperName:
		status, err = keep(s)
	default:
		err = begin(s) // returns only with an error
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// keep is a keeper: it starts the server, and kills it when the lifeline, its input, ends.
func keep(s spec) (status int, err error) {
	if err := adoptOrphans(); err != nil {
		return keeperWrong, err
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	// What Ctrl-C and a closed terminal send is for the kit, and nobody reads from this channel. To
	// ignore them would have the server ignore them too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	over := make(chan bool, 1)
	go func() {
		n, _ := io.Copy(io.Discard, os.Stdin) // however it ends
		over <- n > 0
	}()
	server := family{}
	if s.Command != "" {
		if server.first, err = startStarter(s); err != nil {
			return keeperWrong, err
		}
	}
	for {
		select {
		case <-children:
			if server.first != 0 && server.reap() {
				return keeperEnded, errors.New(server.ended())
			}
		case goesOn := <-over:
			if server.first != 0 {
				err = server.killAll()
			}
			if s.Scratch != "" && !goesOn {
				err = errors.Join(err, os.RemoveAll(s.Scratch))
			}
			if err := errors.Join(err, runLast(s.Last)); err != nil {
				return keeperWrong, err
			}
			return keeperDone, nil
		}
	}
}

// startStarter starts this program as the starter, in a session of its own, and returns its process.
func startStarter(s spec) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("grade: %w", err)
	}
	defer null.Close()
	program, err := self()
	if err != nil {
		return 0, err
	}
	const output = 1 // of this process, which is the log of the server
	pid, err = syscall.ForkExec(program, []string{starterName, os.Args[1]}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{null.Fd(), output, output}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return 0, fmt.Errorf("grade: start %s: %w", starterName, err)
	}
	return pid, nil
}

// runLast runs the last command, if there is one.
func runLast(command []string) error {
	if len(command) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	last := exec.CommandContext(ctx, command[0], command[1:]...)
	printed := &tail{max: notesMax} // not our output: when the kit was killed, nobody reads that
	last.Stdout, last.Stderr = printed, printed
	if err := last.Run(); err != nil {
		return fmt.Errorf("grade: %s: %w: %s", strings.Join(command, " "), err, printed)
	}
	return nil
}

// family is the processes of a server, as its keeper sees them.
type family struct {
	first  int                // the process that the keeper started; it leads a group
	status syscall.WaitStatus // of first, once it has ended
}

// reap takes the exit statuses of the keeper's children that have ended, and reports whether there
// are no children. Then there are no descendants either, if orphans are adopted.
func (f *family) reap() (none bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == f.first:
			f.status = status
		}
	}
}

// ended says how the first process ended.
func (f *family) ended() string {
	if f.status.Signaled() {
		return fmt.Sprintf("signal %v", f.status.Signal())
	}
	return fmt.Sprintf("exit status %d", f.status.ExitStatus())
}

// killAll kills all descendants of this process, and returns when there is none. The error says that
// some are left after killTime.
func (f *family) killAll() error {
	killed := map[int]bool{}
	for end := time.Now().Add(killTime); ; {
		alive, found, err := killDescendants(f.first, killed)
		if !alive && f.reap() {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("grade: %d processes of the server do not end", len(killed)), err)
		}
		if !found { // else at once: what forks is a step ahead
			time.Sleep(time.Millisecond)
		}
	}
}
