// Package cli holds what the command-line programs share: a table of commands, from which help, completion and the
// reference are made, the parser of command lines, the connection to the exchange, and the exit statuses.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	ExitOK    = 0
	ExitError = 1 // the exchange replied with an error, or a retry is pointless, or a check failed
	ExitUsage = 2 // the command line is invalid, or something could not be checked

	// ExitNoAnswer means that a command that trades, or a file, got no reply: it may not have been sent, or it may have
	// been executed. It is safe to repeat the same line with the same ref.
	ExitNoAnswer = 3
)

// Program is a command-line program: a name and a table of commands.
type Program struct {
	name     string // as typed on the command line
	overview string // first lines of its help, before the usage
	status   string // text in its help about exit statuses
	commands []Command
	// elsewhere maps the first word of a command that has moved to the name of the program that has it now.
	elsewhere map[string]string
}

// NewProgram returns a program with the given commands and the commands help, completion and version.
func NewProgram(name, overview, status string, commands []Command, elsewhere map[string]string) *Program {
	p := &Program{name: name, overview: overview, status: status, elsewhere: elsewhere}
	p.commands = append(commands, helpCommands(name)...)
	for i := range p.commands {
		p.commands[i].program = name
	}
	return p
}

// Commands returns the table, in the order of help. The caller must not change it.
func (p *Program) Commands() []Command { return p.commands }

// Run runs a command line and returns the exit status. args are the arguments without the program's name.
func (p *Program) Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &Client{program: p, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	c.Access.Stderr = stderr
	if len(args) == 0 {
		p.printOverview(stderr)
		return ExitUsage
	}
	l, err := p.Read(c, args)
	switch {
	case err != nil:
	case l.Help:
		err = p.printHelp(stdout, l.words)
	default:
		err = l.run()
	}
	return p.Conclude(l.Command, err, stderr)
}

// Conclude prints the error, unless it was already printed, and returns the exit status.
func (p *Program) Conclude(c *Command, err error, stderr io.Writer) int {
	var wrong *UsageError
	var not *UncheckedError
	if errors.Is(err, context.Canceled) {
		err = errInterrupted{err}
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrBad), errors.Is(err, ErrAnswered):
		return ExitError // the reply was already printed
	case errors.As(err, &not):
		fmt.Fprintf(stderr, "%s: cannot be checked: %v\n", p.name, err)
		return ExitUsage
	case errors.As(err, new(*NoAnswerError)):
		fmt.Fprintf(stderr, "%s: %v\n", p.name, err)
		return ExitNoAnswer
	case errors.As(err, &wrong):
		p.printMistake(stderr, c, err)
		return ExitUsage
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.name, err)
	return ExitError
}

// errInterrupted replaces the text of an error after an interrupt.
type errInterrupted struct{ err error }

func (errInterrupted) Error() string   { return "interrupted" }
func (e errInterrupted) Unwrap() error { return e.err }

// Interruptible returns a context that ends on Ctrl-C and SIGTERM. After the first signal, a second one has
// its default effect.
func Interruptible() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Usage returns a *UsageError with a text that says what is wrong with the command line.
func Usage(text string) error { return &UsageError{text} }

// UsageError means that the command line is wrong. Usage returns one.
type UsageError struct{ text string }

// Error returns what is wrong with the command line.
func (e *UsageError) Error() string { return e.text }

// ErrAnswered means that the exchange answered with an error.
var ErrAnswered = errors.New("the exchange answered with an error")

// NoAnswerError means that a command that trades, or a file, got no reply.
type NoAnswerError struct{ err error }

// Error returns the text of the error that it wraps.
func (e *NoAnswerError) Error() string { return e.err.Error() }

// Unwrap returns the error that it wraps.
func (e *NoAnswerError) Unwrap() error { return e.err }

// NoAnswer marks an error after which it is unknown whether a command was executed.
func NoAnswer(err error) error { return &NoAnswerError{err} }

// UncheckedError means that something could not be checked; its text says why.
type UncheckedError struct{ err error }

// Error returns the text of the error that it wraps.
func (e *UncheckedError) Error() string { return e.err.Error() }

// Unwrap returns the error that it wraps.
func (e *UncheckedError) Unwrap() error { return e.err }

// Unchecked marks err as the reason why something could not be checked.
func Unchecked(err error) error { return &UncheckedError{err} }

// ErrBad means that a check failed and that this was already reported.
var ErrBad = errors.New("a check failed")

// shown returns an argument for use in an error text. Anything but a short word of letters is left out, since
// it may be a secret given in the wrong place.
func shown(argument string) string {
	const longest = 20
	word := strings.TrimLeft(argument, "-")
	letters := strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
	if word == "" || len(argument) > longest || !letters {
		return "one that is not shown because it may be a secret"
	}
	return fmt.Sprintf("%q", argument)
}

// IsGiven reports whether a flag was on the command line.
func IsGiven(f *flag.FlagSet, name string) (given bool) {
	f.Visit(func(fl *flag.Flag) { given = given || fl.Name == name })
	return given
}

// IsDigits reports whether a text consists of one or more digits, as an account's id does.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Client is the environment of a command: its program, how it connects to an exchange, and its input and
// output.
type Client struct {
	program *Program
	Access  Access
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}
