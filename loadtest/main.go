// Command loadtest tests an exchange: it measures performance, and injects faults to prove that nothing
// is lost. Run it within the repository; without arguments it lists its commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// command is one of the program's commands.
type command struct {
	name, about string
	run         func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

var commands = []command{
	{"bench", "measure scenarios, plans of scenarios, the goals, a long run or growing history", runBench},
	{"anchors", "measure Redis, Postgres, etcd, NATS and an echo server beside this exchange", runAnchors},
	{"guard", "measure what an order costs in the working tree and at an earlier revision, in turns", runGuard},
	{"echo", "run an echo server, which scenarios are compared with", runEcho},
	{"faulty", "serve a small exchange with faults, to test what outcry-lab grade finds", runFaulty},
	{"torture", "break an exchange at random moments and prove that nothing is lost", runTorture},
	{"readers", "measure what readers over WebSocket and idle connections cost the server", runReaders},
	{"books", "keep local books and private feeds during trading and kills, and prove that they match the exchange's",
		runBooks},
	{"mutation", "break promises in copies of the source and prove that the torture run and the tests detect it",
		runMutation},
}

// errUsage is wrapped by errors about wrong arguments.
var errUsage = errors.New("usage")

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // a second signal kills the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		for _, c := range commands {
			if c.name != args[0] {
				continue
			}
			err := c.run(ctx, args[1:], stdout, stderr)
			if err == nil || errors.Is(err, flag.ErrHelp) {
				return exitOK
			}
			fmt.Fprintf(stderr, "loadtest %s: %v\n", c.name, err)
			if errors.Is(err, errUsage) {
				return exitUsage
			}
			return exitError
		}
		fmt.Fprintf(stderr, "loadtest: unknown command %q\n", args[0])
	}
	fmt.Fprintln(stderr, "Usage: go run ./loadtest COMMAND [flags]; COMMAND -help lists its flags")
	for _, c := range commands {
		fmt.Fprintf(stderr, "  %-10s %s\n", c.name, c.about)
	}
	return exitUsage
}

// newFlags returns an empty flag set for a command.
func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(stderr)
	return f
}

// number declares a numeric flag with a value from least to most.
func number(f *flag.FlagSet, to *int, name string, value, least, most int, about string) {
	*to = value
	f.Func(name, fmt.Sprintf("%s (default %d)", about, value), func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Errorf("-%s %s: must be a number from %d to %d", name, text, least, most)
		}
		*to = n
		return nil
	})
}

// numbers declares a flag with comma-separated numbers from 1 to most.
func numbers(f *flag.FlagSet, to *[]int, name string, most int, about string, values ...int) {
	*to = values
	f.Func(name, fmt.Sprintf("%s, comma-separated (default %v)", about, values), func(text string) error {
		*to = nil
		for text := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > most {
				return fmt.Errorf("%q is not a number from 1 to %d", text, most)
			}
			*to = append(*to, n)
		}
		return nil
	})
}

// parse parses flags, followed by up to operands arguments. The error wraps errUsage, or is flag.ErrHelp.
func parse(f *flag.FlagSet, args []string, operands int) error {
	err := f.Parse(args)
	if err == nil && f.NArg() > operands {
		err = fmt.Errorf("unexpected argument %q", f.Arg(operands))
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}
