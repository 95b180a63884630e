// Command loadtest tries an exchange: it measures how fast one is, and breaks one and
// proves that nothing is lost. Run it within the repository, without arguments for
// its commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// command is one of the things this program does.
type command struct {
	name, about string
	run         func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

var commands = []command{
	{"bench", "measure scenarios, plans of them, what the goals demand, a long run or growing history", runBench},
	{"pages", "write docs/reference/BENCHMARKS.md, the tables of docs/RESULTS.md and plots, of bench's data", runPages},
	{"echo", "serve echoes: what a scenario is compared with", runEcho},
	{"torture", "break an exchange at random moments and prove that nothing is lost", runTorture},
	{"restart", "restart an exchange while clients trade: nothing is lost, and it is away for a moment", runRestart},
	{"mutation", "break promises in copies of the source and prove that the torture run and the tests notice",
		runMutation},
}

// errUsage is wrapped where the arguments are wrong.
var errUsage = errors.New("usage")

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		for _, c := range commands {
			if c.name != args[0] {
				continue
			}
			err := c.run(ctx, args[1:], stdout, stderr)
			switch {
			case err == nil, errors.Is(err, flag.ErrHelp):
				return exitOK
			case errors.Is(err, errUsage):
				fmt.Fprintf(stderr, "loadtest %s: %v\n", c.name, err)
				return exitUsage
			}
			fmt.Fprintf(stderr, "loadtest %s: %v\n", c.name, err)
			return exitError
		}
		fmt.Fprintf(stderr, "loadtest: unknown command %q\n", args[0])
	}
	fmt.Fprintln(stderr, "Usage: go run ./loadtest COMMAND [flags]; COMMAND -help tells its flags")
	for _, c := range commands {
		fmt.Fprintf(stderr, "  %-10s %s\n", c.name, c.about)
	}
	return exitUsage
}

// parse reads flags. An error wraps errUsage, or is flag.ErrHelp.
func parse(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}
