// Command outcry is the exchange's client for people: it sends a file, opens
// accounts, trades from the shell, runs a market of bots, prints a journal, checks
// a data directory, and operates a running exchange.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"outcry/internal/version"
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

const usage = `outcry talks to the exchange.

Usage: outcry [flags] COMMAND ARGUMENTS

  account ID BALANCE              open an account
  symbol SYM                      make a symbol
  place SYM ID SHARES             place shares with an account
  buy ID SYM SHARES LIMIT         place an order to buy
  sell ID SYM SHARES LIMIT        place an order to sell
  query ID ORDER                  show an order
  cancel ID ORDER                 cancel what is open of an order
  send FILE                       send a file's XML as one frame and print the reply; - for standard input
  journal DIR                     print the journal of a data directory
  demo                            run a market of bots to look at; outcry demo --help
  verify [DIR]                    check a data directory and its database; outcry verify --help
  backup FILE                     take a backup of a running exchange; outcry backup --help
  restore FILE                    restore one elsewhere; outcry restore --help
  doctor                          look at the machine, the disk and the database; outcry doctor --help
  token add|list|revoke           say who may do what; outcry token --help
  version                         print the version and the commit

To operate a running exchange, over its HTTP side; outcry status --help and so on:

  status                          tell how it is doing
  halt SYM [REASON]               refuse orders for a symbol from now on
  resume SYM                      take them again
  cancel-all ACCOUNT [SYM]        cancel all that an account has open

A sell of an order is sent as a negative amount. The exit status is 1 where the
exchange answered with an error, and 3 where there was no answer.

What has a name, a ref, is done once, however often it is sent: outcry makes one for
each account, place, buy and sell, and sends it again while the connection breaks. In
a script, give your own (outcry buy --ref R …), and repeat the line while the exit
status is 3. outcry query --ref R ID and outcry cancel --ref R ID name an order by it.
After a 3, a 1 does not say that it was not done, since a revoked token, say, is
refused without a look at the ref: ask with outcry query --ref R ID.

Flags:
`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with its surroundings as arguments. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("outcry", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	c := &client{stdin: stdin, stdout: stdout, stderr: stderr}
	c.access.stderr = stderr
	c.access.flags(f)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if f.NArg() == 0 {
		f.Usage()
		return exitUsage
	}
	var err error
	switch f.Arg(0) {
	case "verify":
		err = verify(f.Args()[1:], stdout, stderr)
	case "backup":
		err = runBackup(f.Args()[1:], stdout, stderr)
	case "doctor":
		err = runDoctor(f.Args()[1:], &c.access, stdout, stderr)
	case "restore":
		err = runRestore(f.Args()[1:], stdout, stderr)
	case "demo":
		err = runDemo(f.Args()[1:], &c.access, stdout, stderr)
	case "halt", "resume", "cancel-all", "status":
		err = runOperation(f.Arg(0), f.Args()[1:], &c.access, stdout, stderr)
	case "token":
		err = runToken(f.Args()[1:], stdout, stderr)
	case "version":
		fmt.Fprintln(stdout, "outcry", version.String())
	default:
		err = c.run(f.Arg(0), f.Args()[1:])
	}
	var wrong *usageError
	var not *uncheckedError
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errPrinted):
		return exitUsage
	case errors.As(err, &not):
		fmt.Fprintf(stderr, "outcry: cannot be checked: %v\n", err)
		return exitUsage
	case errors.As(err, new(*noAnswerError)):
		fmt.Fprintf(stderr, "outcry: %v\n", err)
		return exitNoAnswer
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "outcry: %v\n", err)
		return exitUsage
	case errors.Is(err, errBad):
		return exitError // it has been printed
	case errors.Is(err, errAnswered):
		return exitError // the answer itself has been printed
	case err != nil:
		fmt.Fprintf(stderr, "outcry: %v\n", err)
		return exitError
	}
	return exitOK
}

func envOr(name, standard string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return standard
}

// usageError says that the command line is not one.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// errPrinted means that the command line is not one, and that this has been said.
var errPrinted = errors.New("the command line has been refused")

// errAnswered means that the exchange answered with an error.
var errAnswered = errors.New("the exchange answered with an error")
