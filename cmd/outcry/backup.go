package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"outcry/internal/backup"
	"outcry/internal/journal"
	"outcry/internal/postgres/cluster"
	"outcry/internal/version"
)

const backupUsage = `outcry backup writes the state of an exchange and all of its history into one file, of
one exact journal record. The exchange may run and trade meanwhile. What was answered
when the backup begins is in it.

Usage: outcry backup [flags] FILE

FILE must not be there yet; it gets its name once it is whole and on the disk, and only
its owner may read it. - writes to standard output.

In the file: every table of the database, and the file of the tokens. Not in it: the
configuration, TLS keys, metrics, logs, and what clients keep.

Flags:
`

// subcommand declares the flags of a command that has some of its own.
func subcommand(name, usage string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("outcry "+name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	return f
}

// runBackup is the command. It returns flag.ErrHelp, errPrinted, a *usageError, or what
// went wrong.
func runBackup(args []string, stdout, stderr io.Writer) error {
	f := subcommand("backup", backupUsage, stderr)
	o := backup.TakeOptions{Program: version.String(), Progress: func(say string) { fmt.Fprintln(stderr, say) }}
	where := locating(f, "the local cluster below the data directory")
	f.DurationVar(&o.Wait, "wait", time.Minute,
		"how long Postgres may take to have all that was answered when the backup began")
	f.BoolVar(&o.WithoutJournal, "without-journal", false,
		"take what the database has, on a machine without the data directory: what was answered last may be missing")
	f.Int64Var(&o.BytesMax, "max-bytes", 0,
		"`bytes` that the backup may have; a larger one fails, and leaves no file; 0 for any number")
	at, err := where.parse(args)
	if err != nil {
		return err
	}
	if o.BytesMax < 0 {
		return &usageError{fmt.Sprintf("--max-bytes %d: must not be negative", o.BytesMax)}
	}
	if f.NArg() != 1 {
		return &usageError{fmt.Sprintf("backup takes one file, not %d", f.NArg())}
	}
	if o.WithoutJournal && at.url == "" {
		return &usageError{"--without-journal needs --database-url"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.Data, o.DatabaseURL = at.data, at.url
	if at.url == "" {
		release, err := localDatabase(ctx, &o, stderr)
		if err != nil {
			return err
		}
		defer release()
	}
	return takeBackup(ctx, f.Arg(0), o, stdout, stderr)
}

// takeBackup takes it and says what it is.
func takeBackup(ctx context.Context, path string, o backup.TakeOptions, stdout, stderr io.Writer) (err error) {
	var taken backup.Taken
	begun := time.Now()
	if path == "-" {
		taken, err = backup.Take(ctx, stdout, o)
		stdout = stderr
	} else {
		taken, err = backup.TakeFile(ctx, path, o)
	}
	if err != nil {
		return err
	}
	var rows int64
	for _, t := range taken.Trailer.Tables {
		rows += t.Rows
	}
	fmt.Fprintf(stdout, "backup   %s: %d bytes, %d rows of %d tables, in %s\n", path, taken.Bytes, rows,
		len(taken.Trailer.Tables), time.Since(begun).Round(time.Millisecond))
	fmt.Fprintf(stdout, "state    seq %d, digest %s\n", taken.Header.Seq, taken.Header.Digest)
	return nil
}

// localDatabase finds the local cluster that the exchange runs, or starts the one of an
// exchange that does not run. release stops what it has started.
func localDatabase(ctx context.Context, o *backup.TakeOptions, stderr io.Writer) (release func(), err error) {
	dir := filepath.Join(o.Data, "postgres")
	if err := requireDir(o.Data, "there is no data directory %s", o.Data); err != nil {
		return nil, err
	}
	o.DatabaseURL, err = cluster.RunningURL(dir)
	if !errors.Is(err, cluster.ErrNotRunning) {
		return func() {}, err
	}
	lock, err := journal.Lock(o.Data)
	if err != nil && !errors.Is(err, journal.ErrInUse) {
		return nil, fmt.Errorf("the exchange does not run, and its local Postgres can be started by who may write to "+
			"the data directory: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the exchange runs and its local Postgres does not, or it has none: "+
			"name its database with --database-url: %w", err)
	}
	local, err := startCluster(ctx, dir, stderr)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	// Nobody brings the tables up to the journal: they are, or a start has to do it.
	o.DatabaseURL, o.Wait = local.URL(), time.Nanosecond
	return func() {
		stopCluster(local, stderr)
		_ = lock.Unlock() // the file is empty
	}, nil
}
