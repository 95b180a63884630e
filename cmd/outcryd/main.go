// Command outcryd runs the exchange: XML over TCP on one side, Postgres on the other, a journal
// between them. Run it without arguments, or see --help.
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

	"outcry/internal/door"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/health"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/process/logging"
	"outcry/internal/process/version"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	// The first signal starts an orderly stop. It also restores the default action of the signals, so that
	// a second one ends the process at once.
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with the arguments and outputs as parameters. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := settings.Parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "outcryd: %v\n", err)
		if errors.As(err, new(*settings.LineError)) {
			fmt.Fprintln(stderr, "Usage: outcryd [flags]; outcryd --help lists them")
		}
		return exitUsage
	case c.ShowVersion:
		fmt.Fprintln(stdout, "outcryd", version.String())
		fmt.Fprintf(stdout, "reads journals up to version %d and databases up to version %d\n",
			exchange.EventVersion, postgres.SchemaVersion())
		return exitOK
	case c.CheckConfig:
		checks := settings.Checks{Data: checkData, DatabaseURL: postgres.CheckURL}
		if !c.Print(ctx, checks, stdout, stderr) {
			return exitUsage
		}
		return exitOK
	case c.AskHealth:
		return printHealth(ctx, c, stdout, stderr)
	}
	log := logging.New(stderr, c.LogLevel, door.LimitKey)
	defer log.TellAll()
	for _, warning := range c.Warnings {
		log.Warn("a setting is probably a mistake", "warning", warning)
	}
	if serve(ctx, c, log) != nil {
		return exitError
	}
	return exitOK
}

// checkData returns an error if no server may start with the content of the data directory.
func checkData(c *settings.Config) error {
	if err := backup.Unfinished(c.Data); err != nil {
		return err
	}
	return journal.CheckVersion(c.JournalDir(), exchange.EventVersion)
}

// printHealth prints the health of a running server and returns the exit status.
func printHealth(ctx context.Context, c *settings.Config, stdout, stderr io.Writer) int {
	answer, err := health.Ask(ctx, c)
	if err != nil {
		fmt.Fprintf(stderr, "outcryd: %v\n", err)
		return exitError
	}
	fmt.Fprintln(stdout, answer)
	return exitOK
}
