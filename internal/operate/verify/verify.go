// Package verify checks a data directory and its database, as outcry verify does: it reads the whole journal,
// executes the whole history again, and compares the result with the tables. It changes nothing.
//
// verify.go has the order of the checks, and checks.go the checks. describe.go has the text of a record, which
// outcry journal prints too.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/postgres/local"
)

// Options configure a run.
type Options struct {
	Dir         string // data directory
	DatabaseURL string // "" means the local cluster below Dir
	// Live allows that the exchange runs. One snapshot of the database and the journal up to it are verified.
	// Without Live the data directory is locked, and a local cluster is started for the time of the run.
	Live     bool
	Out      io.Writer // a line for each check
	Progress Progress
}

// Progress shows what a run does at the moment, and gets the warnings of a local cluster. *progress.Line implements
// it.
type Progress interface {
	io.Writer
	Say(text string)
}

// UncheckedError means that something could not be checked; its text says why.
type UncheckedError struct{ err error }

// Error returns the text of the error that it wraps.
func (e *UncheckedError) Error() string { return e.err.Error() }

// Unwrap returns the error that it wraps.
func (e *UncheckedError) Unwrap() error { return e.err }

// unchecked marks err as the reason why something could not be checked.
func unchecked(err error) error { return &UncheckedError{err} }

// Run runs all checks and prints a line for each. The error names the first failed check, or is a
// *UncheckedError if something could not be checked.
func Run(ctx context.Context, o Options) error {
	if err := settings.RequireDir(o.Dir, "there is no data directory %s", o.Dir); err != nil {
		return unchecked(err)
	}
	url, release, err := o.database(ctx)
	if err != nil {
		return unchecked(err)
	}
	defer release()
	archive, err := postgres.OpenArchive(ctx, url)
	if err != nil {
		return unchecked(err)
	}
	defer archive.Close()
	v := &verifier{dir: filepath.Join(o.Dir, "journal"), archive: archive, stdout: o.Out, say: o.Progress.Say,
		live: o.Live}
	return v.run(ctx)
}

// database returns the URL of the database. Without Live it locks the data directory first, and starts the local
// cluster if no database is named. release undoes both.
func (o *Options) database(ctx context.Context) (url string, release func(), err error) {
	dir := filepath.Join(o.Dir, "postgres")
	if o.Live {
		if url = o.DatabaseURL; url == "" {
			url, err = local.RunningURL(dir)
		}
		if errors.Is(err, local.ErrNotRunning) {
			err = fmt.Errorf("the local Postgres is not running: name the database with --database-url, "+
				"or verify without --live: %w", err)
		}
		return url, func() {}, err
	}
	lock, err := journal.Lock(o.Dir)
	if err != nil {
		return "", nil, fmt.Errorf("stop the exchange, or use --live: %w", err)
	}
	unlock := func() { _ = lock.Unlock() } // an error loses nothing: the lock file is empty
	if err := backup.Unfinished(o.Dir); err != nil {
		unlock()
		return "", nil, err
	}
	if o.DatabaseURL != "" {
		return o.DatabaseURL, unlock, nil
	}
	o.Progress.Say("starting the local Postgres")
	url, stop, err := local.StartExisting(ctx, dir, o.Progress)
	if err != nil {
		unlock()
		return "", nil, err
	}
	return url, func() { stop(); unlock() }, nil
}

// verifier runs the checks; each relies on the results of the earlier ones.
type verifier struct {
	dir     string // directory of the journal
	archive *postgres.Archive
	stdout  io.Writer
	say     func(string) // shows progress; "" clears it
	live    bool         // the exchange is running: the journal grows, and its oldest segments may be deleted

	found  journal.Summary
	tables *exchange.Snapshot
	state  *exchange.State // result of the records applied so far
	last   uint64          // seq of the last record applied to state

	lateRefs []exchange.RefKey // refs of the records that the tables do not have yet
}

// run runs all checks and prints a line for each. The error names the first failed check, or is a
// *UncheckedError if something could not be checked.
func (v *verifier) run(ctx context.Context) error {
	for _, check := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"journal", v.checkJournal},
		{"belongs", v.checkBelongs},
		{"history", v.checkHistory},
		{"money", v.checkMoney},
		{"records", v.checkRecords},
	} {
		figures, err := check.do(ctx)
		v.say("")
		if err != nil {
			fmt.Fprintf(v.stdout, "%-8s not ok\n", check.name)
			return fmt.Errorf("%s: %w", check.name, err)
		}
		fmt.Fprintf(v.stdout, "%-8s %s: ok\n", check.name, figures)
	}
	fmt.Fprintf(v.stdout, "state    seq %d, digest %x\n", v.last, v.state.Digest())
	return nil
}

// saidEvery is the number of records between two progress messages.
const saidEvery = 4096

// sayRecord shows the progress of a pass over the records. last is the last record's seq, or 0 if unknown.
func (v *verifier) sayRecord(what string, seq, last uint64) {
	switch {
	case seq%saidEvery != 0:
	case last == 0:
		v.say(fmt.Sprintf("%s: record %d", what, seq))
	default:
		v.say(fmt.Sprintf("%s: record %d of %d", what, seq, last))
	}
}
