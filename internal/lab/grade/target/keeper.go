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

// Process names (argument 0) that make this program run as a keeper or starter.
const (
	keeperName  = "outcry-keeper"
	starterName = "outcry-starter"
)

// Exit statuses of a keeper.
const (
	keeperDone  = 0 // no process of the server is left
	keeperWrong = 1 // the keeper failed; standard error says why
	keeperEnded = 2 // the server and all its processes ended by themselves; standard error says how
)

// markName is the environment variable by which the processes of a server can be found.
const markName = "GRADED_SERVER" // Outcry's own server warns about variables that begin with OUTCRY_

// Bounds of a keeper.
const (
	notesMax = 4 << 10          // bytes kept of a keeper's standard error
	lastTime = 60 * time.Second // time limit of the last command
	drainMax = 2 * time.Second  // time limit for reading the rest of the output from a pipe
)

// spec is a keeper's task, passed as its argument in JSON. The keeper's environment becomes the server's.
type spec struct {
	Command  string
	Dir      string
	UID, GID int // -1 means the kit's own user or group
	Limits   Limits
	Scratch  string   // folder removed at the end, unless the kit says that the server will be restarted
	Last     []string // command run at the end, as the kit's own user
}

// init turns this process into a keeper or starter if it was started as one. It is not in main because
// several programs start servers: each test binary does.
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

// keep is the main function of a keeper: it starts the server, and kills it when the lifeline, its input, ends.
func keep(s spec) (status int, err error) {
	if err := adoptOrphans(); err != nil {
		return keeperWrong, err
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	// The signals of Ctrl-C and of a closed terminal are for the kit, so the keeper discards them. It does
	// not ignore them, since the server would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	over := make(chan bool, 1)
	go func() {
		n, _ := io.Copy(io.Discard, os.Stdin) // an error ends the lifeline too
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
		case keepScratch := <-over:
			if server.first != 0 {
				err = server.killAll()
			}
			if s.Scratch != "" && !keepScratch {
				err = errors.Join(err, os.RemoveAll(s.Scratch))
			}
			if err := errors.Join(err, runLast(s.Last)); err != nil {
				return keeperWrong, err
			}
			return keeperDone, nil
		}
	}
}

// startStarter starts this program as a starter, in a new session, and returns its process id.
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
	const output = 1 // the keeper's standard output, which is the server's log
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
	printed := &tail{max: notesMax} // not the keeper's own output, which nothing reads if the kit was killed
	last.Stdout, last.Stderr = printed, printed
	if err := last.Run(); err != nil {
		return fmt.Errorf("grade: %s: %w: %s", strings.Join(command, " "), err, printed)
	}
	return nil
}

// family has what the keeper knows about a server's processes.
type family struct {
	first  int                // id of the process that the keeper started; it leads a group
	status syscall.WaitStatus // exit status of first, once it has ended
}

// reap reaps the keeper's children that have ended, and reports whether no children are left. If the keeper adopts
// orphans, no other descendants are left then.
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

// ended returns how the first process ended.
func (f *family) ended() string {
	if f.status.Signaled() {
		return fmt.Sprintf("signal %v", f.status.Signal())
	}
	return fmt.Sprintf("exit status %d", f.status.ExitStatus())
}

// killAll kills all descendants of this process, and returns when none is left. It returns an error if some are
// left after killTime.
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
		if !found { // if there are new processes, retry immediately: a process that forks could stay a step ahead
			time.Sleep(time.Millisecond)
		}
	}
}
