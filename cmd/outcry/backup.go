package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres/local"
	"outcry/internal/process/memlimit"
	"outcry/internal/process/progress"
	"outcry/internal/process/version"
)

const backupText = `Writes the whole state of the exchange, with its full history, into one file: the state after one
journal record, including everything that was answered before the backup began. The exchange
can continue to trade.

FILE must not exist yet. It gets its name once it is complete and on disk, and only its
owner can read it. It contains every table of the database and the file of tokens. It does
not contain the configuration, TLS keys, metrics, logs, or data of clients. The keys of
token add --hmac are included only on request.`

// prepareBackup declares the flags of the command backup and returns the function that runs it.
func prepareBackup(f *flag.FlagSet, c *cli.Client) func([]string) error {
	o := backup.TakeOptions{Program: version.String()}
	where := cli.Locating(f, "the local cluster below the data directory")
	f.DurationVar(&o.Wait, "wait", time.Minute,
		"how long to wait until Postgres has everything that was answered before the backup began")
	f.BoolVar(&o.WithoutJournal, "without-journal", false,
		"back up what the database has, on a machine without the data directory: the newest records may be missing")
	f.BoolVar(&o.WithSecrets, "with-secrets", false,
		"include the keys of token add --hmac, with their secrets: anyone who reads the backup can trade with them")
	memlimit.BytesVar(f, &o.BytesMax, "max-bytes", 0,
		"maximum size of the backup, in `bytes`; if it would be larger, the backup fails and leaves no file; 0 for no limit")
	return func(words []string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		if o.BytesMax < 0 {
			return cli.Usage(fmt.Sprintf("--max-bytes %d: must not be negative", o.BytesMax))
		}
		if o.WithoutJournal && at.URL == "" {
			return cli.Usage("--without-journal needs --database-url")
		}
		o.Data, o.DatabaseURL = at.Data, at.URL
		return runBackup(words[0], o, c.Stdout, c.Stderr)
	}
}

// runBackup writes a backup of the database that o names, or of the local database, to the file path.
func runBackup(path string, o backup.TakeOptions, stdout, stderr io.Writer) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	line := progress.Start(stderr)
	defer line.Stop()
	o.Progress = line.Say
	if o.DatabaseURL == "" {
		release, err := localDatabase(ctx, &o, line)
		if err != nil {
			return err
		}
		defer release()
	}
	return takeBackup(ctx, path, o, stdout, line)
}

// takeBackup writes the backup and prints its size and state.
func takeBackup(
	ctx context.Context, path string, o backup.TakeOptions, stdout io.Writer, line *progress.Line,
) (err error) {
	var taken backup.Taken
	begun := time.Now()
	if path == "-" {
		taken, err = backup.Take(ctx, stdout, o)
		stdout = line
	} else {
		taken, err = backup.TakeFile(ctx, path, o)
	}
	if err != nil {
		return err
	}
	line.Say("")
	var rows int64
	for _, t := range taken.Trailer.Tables {
		rows += t.Rows
	}
	fmt.Fprintf(stdout, "backup   %s: %d bytes, %d rows of %d tables, in %s\n", path, taken.Bytes, rows,
		len(taken.Trailer.Tables), time.Since(begun).Round(time.Millisecond))
	fmt.Fprintf(stdout, "state    seq %d, digest %s\n", taken.Header.Seq, taken.Header.Digest)
	return nil
}

// localDatabase sets o.DatabaseURL to the local cluster. It uses the cluster of a running exchange, and starts the
// cluster if the exchange is stopped. release stops the cluster if it was started here.
func localDatabase(ctx context.Context, o *backup.TakeOptions, stderr io.Writer) (release func(), err error) {
	dir := filepath.Join(o.Data, "postgres")
	if err := settings.RequireDir(o.Data, "there is no data directory %s", o.Data); err != nil {
		return nil, err
	}
	o.DatabaseURL, err = local.RunningURL(dir)
	if !errors.Is(err, local.ErrNotRunning) {
		return func() {}, err
	}
	lock, err := journal.Lock(o.Data)
	if err != nil && !errors.Is(err, journal.ErrInUse) {
		return nil, fmt.Errorf("the exchange is not running, and its local Postgres can be started only by a user who can "+
			"write to the data directory: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the exchange is running, but its local Postgres is not: try again if it has just started; "+
			"name its database with --database-url if it has another one: %w", err)
	}
	o.Progress("starting the local Postgres")
	url, stop, err := local.StartExisting(ctx, dir, stderr)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	// No exchange is running that could write more of the journal to the tables, so waiting is pointless: either
	// the tables are complete, or the next start of the exchange completes them.
	o.DatabaseURL, o.Wait = url, time.Nanosecond
	return func() {
		stop()
		_ = lock.Unlock() // an error loses nothing: the lock file is empty
	}, nil
}
