package doctest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// again is the pause between two attempts of repeat.
const again = 100 * time.Millisecond

// Shell is a bash that runs one command after the other and keeps variables and the working directory. It is
// for one goroutine.
type Shell struct {
	patience time.Duration
	cmd      *exec.Cmd
	in       io.WriteCloser
	stdout   io.Closer
	out      *bufio.Reader
	commands int // number of commands so far
	stalled  atomic.Bool
}

// NewShell starts a shell: cmd must run a bash that reads commands from its standard input. A command may
// take as long as patience. The shell ends with Close, or with cmd's context.
func NewShell(cmd *exec.Cmd, patience time.Duration) (*Shell, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("walk: start a shell: %w", err)
	}
	return &Shell{patience: patience, cmd: cmd, in: in, stdout: out, out: bufio.NewReader(out)}, nil
}

// Close ends the shell. Its background commands continue.
func (s *Shell) Close() {
	s.in.Close()
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
}

// Run runs a command and returns its standard output and standard error together, and its exit status. After an
// error the shell is unusable: it has ended, or the command took too long.
func (s *Shell) Run(command string) (printed string, status int, err error) {
	s.commands++
	end := fmt.Sprintf("-- end of command %d: ", s.commands)
	timer := time.AfterFunc(s.patience, func() {
		s.stalled.Store(true)
		s.stdout.Close() // a process started by the command may hold the other end open
	})
	defer timer.Stop()
	// A command that reads its input must not read the next commands.
	if _, err := fmt.Fprintf(s.in, "eval %s </dev/null; printf '\\n%s%%d\\n' $?\n", quote(command), end); err != nil {
		return "", 0, s.gone(err)
	}
	var lines strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return lines.String(), 0, s.gone(err)
		}
		if number, ok := strings.CutPrefix(line, end); ok {
			status, err = strconv.Atoi(strings.TrimSpace(number))
			return strings.TrimSuffix(lines.String(), "\n"), status, err
		}
		lines.WriteString(line)
	}
}

func (s *Shell) gone(err error) error {
	if s.stalled.Load() {
		return fmt.Errorf("walk: it takes longer than %s", s.patience)
	}
	return fmt.Errorf("walk: the shell is gone: %w", err)
}

// quote makes a single shell word of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Walk runs parts in order. For a Meanwhile it calls the function of that name. The error names the line of
// the first command whose result differs from the page.
func (s *Shell) Walk(ctx context.Context, page *Page, parts []Part, meanwhile map[string]func() error) error {
	for _, part := range parts {
		if part.Mode == Meanwhile {
			do, ok := meanwhile[part.About]
			if !ok {
				return fmt.Errorf("%s:%d: no function for %q", page.name, part.Line, part.About)
			}
			if err := do(); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", page.name, part.Line, part.About, err)
			}
		}
		for i, step := range part.Steps {
			if err := s.step(ctx, step, part.Mode, i == len(part.Steps)-1); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", page.name, step.Line, step.Command, err)
			}
		}
	}
	return nil
}

// step runs one command in its part's mode.
func (s *Shell) step(ctx context.Context, step Step, mode Mode, last bool) error {
	switch mode {
	case Stays, Interrupt:
		return s.background(ctx, step, mode == Interrupt)
	case Repeat:
		return s.repeat(ctx, func() error { return s.once(step, false) })
	}
	return s.once(step, mode == Fails && last)
}

// once runs a command and compares its output.
func (s *Shell) once(step Step, fails bool) error {
	printed, status, err := s.Run(step.Command)
	if err != nil {
		return fmt.Errorf("%w; it has printed\n%s", err, printed)
	}
	if (status != 0) != fails {
		return fmt.Errorf("it ends with status %d, and prints\n%s", status, printed)
	}
	return Match(step.Shows, printed)
}

// repeat calls do until it succeeds, or until patience is over. It returns the error of the last call.
func (s *Shell) repeat(ctx context.Context, do func() error) error {
	for begun := time.Now(); ; {
		err := do()
		if err == nil || time.Since(begun) > s.patience || s.stalled.Load() {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// background starts a command and waits until it has printed the shown output.
func (s *Shell) background(ctx context.Context, step Step, interrupt bool) error {
	// The command runs in its own job, to which Ctrl-C is sent. Without job control, bash makes the command ignore
	// SIGINT.
	printed, _, err := s.Run("walk_log=$(mktemp); set -m; { " + step.Command +
		"\n} >$walk_log 2>&1 </dev/null & walk_job=$!; set +m")
	if err != nil {
		return fmt.Errorf("%w: %s", err, printed)
	}
	err = s.repeat(ctx, func() error {
		printed, _, err := s.Run("cat $walk_log; kill -0 $walk_job")
		if err != nil {
			return err
		}
		return Match(append(append([]string{anything}, step.Shows...), anything), printed)
	})
	if interrupt && err == nil {
		_, _, err = s.Run("kill -INT -- -$walk_job; wait $walk_job")
	}
	return err
}
