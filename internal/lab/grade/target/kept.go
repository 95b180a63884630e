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

// kept is a keeper, as its parent sees it.
type kept struct {
	process  *exec.Cmd
	mark     string
	lifeline io.WriteCloser
	notes    *tail         // what the keeper says
	exited   chan struct{} // closed when it has ended
	most     time.Duration // that it may take to end
}

// keepers has the processes of the keepers of this program.
var keepers struct {
	sync.Mutex
	pids map[int]bool // guarded by the mutex, which is held while one is started
}

// startKeeper starts a keeper. What the server prints goes to log.
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
	k.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, and no signals of one
	k.process.WaitDelay = drainMax
	if k.lifeline, err = k.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	if err := k.start(); err != nil {
		return nil, fmt.Errorf("grade: start %s: %w", keeperName, err)
	}
	go func() {
		_ = k.process.Wait() // its status says how it ended
		keepers.Lock()
		delete(keepers.pids, k.process.Process.Pid)
		keepers.Unlock()
		close(k.exited)
	}()
	return k, nil
}

// start starts the keeper. Should somebody kill it, what it keeps becomes ours.
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

// how says how a server ended whose keeper has.
func (k *kept) how() string { return strings.TrimSpace(k.notes.String()) }

// end has the keeper kill the server and run its last command, and returns when nothing of the
// server runs. If the keeper did not end in order, end kills what bears the mark, and what became ours.
// goesOn is whether the server's folder is kept.
func (k *kept) end(goesOn bool) error {
	if goesOn {
		_, _ = k.lifeline.Write([]byte{'\n'}) // the keeper may be gone already
	}
	_ = k.lifeline.Close() // likewise
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

// await returns when the keeper has ended. A server that is who we are can stop it: it is woken up, and
// killed when it is late nevertheless.
func (k *kept) await() {
	late := time.After(k.most)
	for {
		_ = k.process.Process.Signal(syscall.SIGCONT) // it may be gone already
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
