package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"outcry/internal/backup"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/postgres/cluster"
)

const verifyUsage = `outcry verify checks a data directory and its database while no exchange runs on
them, and changes nothing in either. It does the whole history again.

Usage: outcry verify [flags] [DIR]

DIR is the data directory, that of --data where none is given. The exit status is 0
where everything is right, 1 where something is wrong, and 2 where it could not be
checked.

Flags:
`

// clusterStopTimeout bounds how long the local cluster may take to stop.
const clusterStopTimeout = 20 * time.Second

// uncheckedError says why something could not be checked.
type uncheckedError struct{ err error }

func (e *uncheckedError) Error() string { return e.err.Error() }
func (e *uncheckedError) Unwrap() error { return e.err }

func unchecked(err error) error { return &uncheckedError{err} }

// verify is the command. It returns flag.ErrHelp, errPrinted, a *usageError, an
// *uncheckedError, or the first thing that is wrong.
func verify(args []string, stdout, stderr io.Writer) (err error) {
	f := subcommand("verify", verifyUsage, stderr)
	at, err := locating(f, "the local cluster below the data directory").parse(args)
	if err != nil {
		return err
	}
	switch f.NArg() {
	case 0:
	case 1:
		at.data = f.Arg(0)
	default:
		return &usageError{fmt.Sprintf("verify takes one directory, not %d", f.NArg())}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return verifyDir(ctx, at.data, at.url, stdout, stderr)
}

// verifyDir locks the data directory, connects to the database, and verifies.
func verifyDir(ctx context.Context, dir, url string, stdout, stderr io.Writer) (err error) {
	if err := requireDir(dir, "there is no data directory %s", dir); err != nil {
		return unchecked(err)
	}
	lock, err := journal.Lock(dir)
	if err != nil {
		return unchecked(fmt.Errorf("an exchange must not be running: %w", err))
	}
	defer lock.Unlock()
	if err := backup.Unfinished(dir); err != nil {
		return unchecked(err)
	}
	if url == "" {
		local, err := startCluster(ctx, filepath.Join(dir, "postgres"), stderr)
		if err != nil {
			return unchecked(err)
		}
		defer stopCluster(local, stderr)
		url = local.URL()
	}
	archive, err := postgres.OpenArchive(ctx, url)
	if err != nil {
		return unchecked(err)
	}
	defer archive.Close()
	v := &verifier{dir: filepath.Join(dir, "journal"), archive: archive, stdout: stdout}
	return v.run(ctx)
}

// startCluster starts the local cluster, if there is one.
func startCluster(ctx context.Context, dir string, stderr io.Writer) (*cluster.Cluster, error) {
	if err := requireDir(filepath.Join(dir, "data"),
		"there is no local cluster in %s; name the database with --database-url", dir); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return cluster.Start(ctx, cluster.Options{Dir: dir, Log: log})
}

// stopCluster stops it; a failure changes nothing about what was found.
func stopCluster(c *cluster.Cluster, stderr io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		fmt.Fprintf(stderr, "outcry: %v\n", err)
	}
}

// verifier does the checks, each on what the former ones have proved.
type verifier struct {
	dir     string // of the journal
	archive *postgres.Archive
	stdout  io.Writer

	found  journal.Summary
	tables *exchange.Snapshot
	state  *exchange.State // what history comes to so far
	last   uint64          // the record that state is after

	lateRefs []exchange.RefKey // of the records after those of the tables
}

// run does all checks and prints a line for each. The error names the first thing
// that is wrong, or is an *uncheckedError.
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
		if err != nil {
			fmt.Fprintf(v.stdout, "%-8s not ok\n", check.name)
			return fmt.Errorf("%s: %w", check.name, err)
		}
		fmt.Fprintf(v.stdout, "%-8s %s: ok\n", check.name, figures)
	}
	fmt.Fprintf(v.stdout, "state    seq %d, digest %x\n", v.last, v.state.Digest())
	return nil
}
