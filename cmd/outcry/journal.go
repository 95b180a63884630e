package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/settings"
	"outcry/internal/operate/verify"
)

// prepareJournal returns the function that runs the command journal.
func prepareJournal(_ *flag.FlagSet, c *cli.Client) func([]string) error {
	return func(words []string) error { return printJournal(words[0], c.Stdout) }
}

// printJournal prints every record of the journal in dir, which is a journal or a data directory. It changes
// nothing, and works while the exchange runs.
func printJournal(dir string, w io.Writer) error {
	below := filepath.Join(dir, "journal")
	inside, err := settings.IsDir(below)
	if err != nil {
		return err
	}
	if inside {
		dir = below
	}
	there, err := journal.Exists(dir)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no journal in %s", dir)
	}
	var e exchange.Event
	return journal.Scan(dir, exchange.EventVersion, func(seq uint64, record []byte) error {
		if err := exchange.DecodeEvent(record, &e); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		_, err := fmt.Fprintf(w, "%d %s %s\n", seq, time.Unix(0, e.Time).UTC().Format(time.RFC3339),
			verify.Describe(&e))
		return err
	})
}
