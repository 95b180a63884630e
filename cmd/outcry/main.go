// Command outcry is the exchange's client for people: it sends a file, opens
// accounts, trades from the shell, runs a market of bots, prints a journal, checks
// a data directory, and operates a running exchange.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1 // the exchange answered with an error, or a further try would end alike; something is wrong
	exitUsage = 2 // the command line is not one, or what it names could not be checked

	// exitNoAnswer says that a command that trades, or a file, had no answer: it was not
	// sent, or may have been done. The same line with the same ref may be repeated.
	exitNoAnswer = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with its surroundings as arguments. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	all := commands()
	c := &client{stdin: stdin, stdout: stdout, stderr: stderr}
	c.access.stderr = stderr
	if len(args) == 0 {
		printOverview(stderr, all)
		return exitUsage
	}
	l, err := read(all, c, args)
	switch {
	case err != nil:
	case l.help:
		err = printHelp(stdout, all, l.words)
	default:
		err = l.run()
	}
	return conclude(l.command, err, stderr)
}

// conclude says what went wrong, unless that has been said, and returns the exit status.
func conclude(c *command, err error, stderr io.Writer) int {
	var wrong *usageError
	var not *uncheckedError
	if errors.Is(err, context.Canceled) {
		err = errInterrupted{err}
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errBad), errors.Is(err, errAnswered):
		return exitError // it has been printed
	case errors.As(err, &not):
		fmt.Fprintf(stderr, "outcry: cannot be checked: %v\n", err)
		return exitUsage
	case errors.As(err, new(*noAnswerError)):
		fmt.Fprintf(stderr, "outcry: %v\n", err)
		return exitNoAnswer
	case errors.As(err, &wrong):
		printMistake(stderr, c, err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "outcry: %v\n", err)
	return exitError
}

// errInterrupted is why a command ended that was interrupted, in words.
type errInterrupted struct{ err error }

func (errInterrupted) Error() string   { return "interrupted" }
func (e errInterrupted) Unwrap() error { return e.err }

// interruptible returns a context that Ctrl-C and SIGTERM end. After them the signals have
// their usual effect again.
func interruptible() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// usageError says that the command line is not one.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// errAnswered means that the exchange answered with an error.
var errAnswered = errors.New("the exchange answered with an error")
