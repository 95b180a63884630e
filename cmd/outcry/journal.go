package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// prepareJournal is the command.
func prepareJournal(_ *flag.FlagSet, c *client) func([]string) error {
	return func(words []string) error { return printJournal(words[0], c.stdout) }
}

// printJournal prints every record of the journal in dir, or in the data
// directory dir. It changes nothing, and may be used while the exchange runs.
func printJournal(dir string, w io.Writer) error {
	below := filepath.Join(dir, "journal")
	inside, err := isDir(below)
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
		_, err := fmt.Fprintf(w, "%d %s %s%s\n", seq, time.Unix(0, e.Time).UTC().Format(time.RFC3339), describe(&e),
			ofRef(&e))
		return err
	})
}

// ofRef says which ref a record has, if it has one.
func ofRef(e *exchange.Event) string {
	if e.Ref == "" {
		return ""
	}
	return "; ref " + string(e.Ref)
}

// isDir reports whether path is a directory. The error says why that cannot be known,
// which does not mean that there is none: it may be closed to this user.
func isDir(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// requireDir returns nil if path is a directory, the error that missing formats if there
// is none, and the reason if that cannot be known.
func requireDir(path, missing string, args ...any) error {
	is, err := isDir(path)
	if err == nil && !is {
		err = fmt.Errorf(missing, args...)
	}
	return err
}
