package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// kept is a keeper as seen by the process that started it.
type kept struct {
	process  *exec.Cmd
	mark     string
	lifeline io.WriteCloser
	notes    *tail         // the keeper's standard error
	exited   chan struct{} // closed when the keeper has ended
	most     time.Duration // limit for the keeper to end
}

// keepers has the process ids of all keepers that this process started.
var keepers struct {
	sync.Mutex
	pids map[int]bool // guarded by the mutex, which is also held while a keeper is started
}

// startKeeper starts a keeper, which starts the server. The server's output goes to log.
func startKeeper(s spec, environment []string, mark string, log *tail) (*kept, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	program, err := self()
	if err != nil {
		return nil, err
	}
	k := &kept{process: exec.Command(program), mark: mark, notes: &tail{max: notesMax}, exited: make(chan struct{}),
		most: killTime + drainMax}
	if len(s.Last) > 0 {
		k.most += lastTime
	}
	k.process.Args = []string{keeperName, string(text)}
	k.process.Env, k.process.Dir = environment, "/"
	k.process.Stdout, k.process.Stderr = log, k.notes
	k.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal and its signals
	k.process.WaitDelay = drainMax
	if k.lifeline, err = k.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	if err := k.start(); err != nil {
		return nil, fmt.Errorf("grade: start %s: %w", keeperName, err)
	}
	go func() {
		_ = k.process.Wait() // end reads the status
		keepers.Lock()
		delete(keepers.pids, k.process.Process.Pid)
		keepers.Unlock()
		close(k.exited)
	}()
	return k, nil
}

// start starts the keeper. If the keeper is killed, this process adopts its children.
func (k *kept) start() error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	keepers.Lock()
	defer keepers.Unlock()
	if err := k.process.Start(); err != nil {
		return err
	}
	if keepers.pids == nil {
		keepers.pids = map[int]bool{}
	}
	keepers.pids[k.process.Process.Pid] = true
	return nil
}

// how returns how the server ended, after its keeper has ended.
func (k *kept) how() string { return strings.TrimSpace(k.notes.String()) }

// end makes the keeper kill the server and run its last command, and returns when no process of the server is left.
// If the keeper did not end regularly, end kills the processes that have the mark and those that this process
// adopted. If keepScratch is true, the temporary folder is kept.
func (k *kept) end(keepScratch bool) error {
	if keepScratch {
		_, _ = k.lifeline.Write([]byte{'\n'}) // it fails if the keeper has ended
	}
	_ = k.lifeline.Close() // it fails if the keeper has ended
	k.await()
	switch k.process.ProcessState.ExitCode() {
	case keeperDone, keeperEnded:
		return nil
	case keeperWrong:
		return errors.Join(errors.New(k.how()), killLost(k.mark))
	}
	_ = syscall.Kill(-k.process.Process.Pid, syscall.SIGKILL)
	return killLost(k.mark)
}

// await returns when the keeper has ended. A server that runs as the kit's own user can stop the keeper, so
// await sends SIGCONT to it, and kills it if it has not ended in time.
func (k *kept) await() {
	late := time.After(k.most)
	for {
		_ = k.process.Process.Signal(syscall.SIGCONT) // it fails if the keeper has ended
		select {
		case <-k.exited:
			return
		case <-late:
			_ = k.process.Process.Kill()
			<-k.exited
			return
		case <-time.After(pollTime):
		}
	}
}
