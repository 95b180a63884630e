package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"outcry/internal/backup"
)

const restoreUsage = `outcry restore brings back what outcry backup has written, into an empty directory and
an empty database. It reads the whole file before it changes anything, and compares the
state in the end. If it is cut off, outcryd refuses to start there; run it again.

Usage: outcry restore [flags] FILE

WHAT THE EXCHANGE ANSWERED AFTER THE BACKUP'S RECORD IS LOST, unless its journal survived
and reaches back to the backup: then name it with --journal, and nothing is.

Flags:
`

// runRestore is the command. It returns flag.ErrHelp, errPrinted, a *usageError, or
// what went wrong.
func runRestore(args []string, stdout, stderr io.Writer) error {
	f := subcommand("restore", restoreUsage, stderr)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o := backup.RestoreOptions{Log: log, Progress: func(say string) { fmt.Fprintln(stderr, say) }}
	where := locating(f, "a local cluster below the data directory")
	check := f.Bool("check", false, "only read the file, and say whether it is whole and what is in it")
	f.StringVar(&o.Journal, "journal", "", "`directory` of the original's journal, whose later records are done as well")
	f.Int64Var(&o.SegmentBytes, "segment", 64<<20,
		"size of the new journal's first segment, in `bytes`, as outcryd has it")
	at, err := where.parse(args)
	if err != nil {
		return err
	}
	if f.NArg() != 1 {
		return &usageError{fmt.Sprintf("restore takes one file, not %d", f.NArg())}
	}
	o.File, o.Data, o.DatabaseURL = f.Arg(0), at.data, at.url
	if o.SegmentBytes < 1<<16 || o.SegmentBytes > 1<<36 {
		return &usageError{fmt.Sprintf("--segment %d: must be from %d to %d", o.SegmentBytes, 1<<16, 1<<36)}
	}
	if *check {
		return checkBackup(o.File, stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	restored, err := backup.Restore(ctx, o)
	if err != nil {
		return err
	}
	tellRestored(stdout, o, restored)
	return nil
}

// checkBackup reads a backup and says what is in it.
func checkBackup(path string, stdout io.Writer) error {
	h, t, err := backup.CheckFile(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "backup   %s is whole: version %d of the schema, of Postgres %s, written by %s\n", path, h.Schema,
		h.Postgres, h.Program)
	fmt.Fprintf(stdout, "taken    %s, of the exchange with the journal %s\n", h.Taken.Format(time.RFC3339), h.Journal)
	for _, table := range t.Tables {
		fmt.Fprintf(stdout, "table    %s: %d rows, %d bytes\n", table.Table, table.Rows, table.Bytes)
	}
	for _, name := range t.Files {
		fmt.Fprintf(stdout, "file     %s\n", name)
	}
	fmt.Fprintf(stdout, "state    seq %d, digest %s\n", h.Seq, h.Digest)
	return nil
}

// tellRestored says what is there now, what is not, and what comes next.
func tellRestored(stdout io.Writer, o backup.RestoreOptions, r backup.Restored) {
	h := r.Header
	if r.Finished {
		fmt.Fprintln(stdout, "A former restore had done everything; it is finished now.")
	}
	fmt.Fprintf(stdout, "restored %s, taken %s, into %s\n", o.File, h.Taken.Format(time.RFC3339), o.Data)
	if !r.Compared {
		fmt.Fprintf(stdout,
			"WARNING  the digest in the backup is of an older listing (%s): checksums and counts match, the digest could not "+
				"be compared. Run outcry verify.\n", h.Listing)
	}
	fmt.Fprintf(stdout, "state    seq %d, digest %x\n", r.Last, r.Digest)
	switch {
	case r.TokensOfBackup():
		fmt.Fprintf(stdout,
			"TOKENS   are those of %s: one that was revoked since is good again. Look at outcry token list.\n",
			h.Begun.Format(time.RFC3339))
	case r.Tokens != "":
		fmt.Fprintf(stdout, "tokens   are those of %s\n", r.Tokens)
	case r.Journal != "" && !h.WithoutJournal:
		fmt.Fprintf(stdout,
			"TOKENS   are none: there is no file of them with %s. With --auth nobody gets in before outcry token add.\n",
			r.Journal)
	case h.WithoutJournal:
		fmt.Fprintf(stdout,
			"TOKENS   are none: the backup was taken without them. With --auth nobody gets in before outcry token add.\n")
	}
	if r.Journal != "" {
		fmt.Fprintf(stdout, "journal  its records %d to %d are done on top by the next start. Order ids that are not in\n",
			h.Seq+1, r.Last)
		fmt.Fprintf(stdout, "         it are not given out again: the next order is %d.\n", r.NextOrder)
		return
	}
	since := "since " + r.Since.Format(time.RFC3339)
	if r.Since.IsZero() {
		since = "at any time"
	}
	fmt.Fprintf(stdout,
		"LOST     everything that the exchange answered after record %d. Tell those who trade: their orders,\n", h.Seq)
	fmt.Fprintf(stdout, "         executions and cancels %s may be missing here. Their order ids are not\n", since)
	fmt.Fprintf(stdout, "         given out again: the next order is %d.\n", r.NextOrder)
}
