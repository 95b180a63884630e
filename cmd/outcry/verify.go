package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/postgres/local"
	"outcry/internal/process/progress"
)

const verifyText = `No exchange may be running on them, except with --live. Nothing is changed. The whole history is
executed again, and compared with the tables.

With --live the exchange may go on trading, also as any node of a cluster. What is verified is
one snapshot of the database, as of the record that "state" names, and the journal up to there.

The exit status is 0 if everything is right, 1 if something is wrong, and 2 if it could not be
checked.`

// clusterStopTimeout bounds how long the local cluster may take to stop.
const clusterStopTimeout = 20 * time.Second

// prepareVerify declares the flags of the command verify and returns what runs it.
func prepareVerify(f *flag.FlagSet, c *cli.Client) func([]string) error {
	where := cli.Locating(f, "the local cluster below the data directory")
	live := f.Bool("live", false, "verify one snapshot of an exchange that runs")
	return func(words []string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		if len(words) > 0 {
			at.Data = words[0]
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		line := progress.Start(c.Stderr)
		defer line.Stop()
		if *live {
			return verifyLive(ctx, at.Data, at.URL, c.Stdout, line)
		}
		return verifyDir(ctx, at.Data, at.URL, c.Stdout, line)
	}
}

// teller shows progress; it is a progress.Line, except in tests.
type teller interface {
	io.Writer
	Say(text string)
}

// verifyDir locks the data directory, connects to the database, and verifies both.
func verifyDir(ctx context.Context, dir, url string, stdout io.Writer, line teller) (err error) {
	if err := settings.RequireDir(dir, "there is no data directory %s", dir); err != nil {
		return cli.Unchecked(err)
	}
	lock, err := journal.Lock(dir)
	if err != nil {
		return cli.Unchecked(fmt.Errorf("an exchange must not be running, or use --live: %w", err))
	}
	defer lock.Unlock()
	if err := backup.Unfinished(dir); err != nil {
		return cli.Unchecked(err)
	}
	if url == "" {
		line.Say("starting the local Postgres")
		local, err := startCluster(ctx, filepath.Join(dir, "postgres"), line)
		if err != nil {
			return cli.Unchecked(err)
		}
		defer stopCluster(local, line)
		url = local.URL()
	}
	archive, err := postgres.OpenArchive(ctx, url)
	if err != nil {
		return cli.Unchecked(err)
	}
	defer archive.Close()
	v := &verifier{dir: filepath.Join(dir, "journal"), archive: archive, stdout: stdout, say: line.Say}
	return v.run(ctx)
}

// verifyLive verifies the journal and one snapshot of the database while the exchange runs.
func verifyLive(ctx context.Context, dir, url string, stdout io.Writer, line teller) error {
	if err := settings.RequireDir(dir, "there is no data directory %s", dir); err != nil {
		return cli.Unchecked(err)
	}
	if url == "" {
		var err error
		url, err = local.RunningURL(filepath.Join(dir, "postgres"))
		if errors.Is(err, local.ErrNotRunning) {
			err = fmt.Errorf("the local Postgres does not run: name the database with --database-url, "+
				"or verify without --live: %w", err)
		}
		if err != nil {
			return cli.Unchecked(err)
		}
	}
	archive, err := postgres.OpenArchive(ctx, url)
	if err != nil {
		return cli.Unchecked(err)
	}
	defer archive.Close()
	v := &verifier{dir: filepath.Join(dir, "journal"), archive: archive, stdout: stdout, say: line.Say, live: true}
	return v.run(ctx)
}

// startCluster starts the local cluster in dir. It returns an error if there is none.
func startCluster(ctx context.Context, dir string, stderr io.Writer) (*local.Cluster, error) {
	if err := settings.RequireDir(filepath.Join(dir, "data"),
		"there is no local cluster in %s; name the database with --database-url", dir); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return local.Start(ctx, local.Options{Dir: dir, Log: log})
}

// stopCluster stops the local cluster. A failure is only printed, as it does not affect the result.
func stopCluster(c *local.Cluster, stderr io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		fmt.Fprintf(stderr, "outcry: %v\n", err)
	}
}

// verifier runs the checks; each relies on what the earlier ones have proved.
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

// run runs all checks and prints a line for each. The error names the first failed check, or is one of
// cli.Unchecked if something could not be checked.
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
