package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/backup"
	"outcry/internal/process/memlimit"
	"outcry/internal/process/phrase"
	"outcry/internal/process/progress"
)

const restoreText = `Restores a backup into an empty directory and an empty database. It reads the
whole file before it changes anything, and compares the state at the end. If it is interrupted,
outcryd refuses to start there; run it again.

EVERYTHING AFTER THE BACKUP'S RECORD IS LOST, unless the journal of the exchange survived and
reaches back to the backup: name it with --journal, and nothing is lost.`

// Bounds of the size of a journal segment, the same as in outcryd.
const segmentMin, segmentMax = 1 << 16, 1 << 36

// prepareRestore declares the flags of the command restore and returns the function that runs it.
func prepareRestore(f *flag.FlagSet, c *cli.Client) func([]string) error {
	var o backup.RestoreOptions
	where := cli.Locating(f, "a local cluster below the data directory")
	check := f.Bool("check", false, "only read the file, and report whether it is complete and what is in it")
	f.StringVar(&o.Journal, "journal", "", "`directory` of the original journal, whose later records are kept too")
	memlimit.BytesVar(f, &o.SegmentBytes, "segment", 64<<20,
		"size of the new journal's first segment, in `bytes`; use the value of outcryd's --segment")
	return func(words []string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		o.File, o.Data, o.DatabaseURL = words[0], at.Data, at.URL
		if o.SegmentBytes < segmentMin || o.SegmentBytes > segmentMax {
			return cli.Usage(fmt.Sprintf("--segment %d: must be from %d to %d", o.SegmentBytes, segmentMin, segmentMax))
		}
		if *check {
			return checkBackup(o.File, c.Stdout, c.Stderr)
		}
		return runRestore(o, c.Stdout, c.Stderr)
	}
}

// runRestore restores a backup and prints what was restored.
func runRestore(o backup.RestoreOptions, stdout, stderr io.Writer) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	line := progress.Start(stderr)
	defer line.Stop()
	o.Log = slog.New(slog.NewTextHandler(line, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Progress = line.Say
	restored, err := backup.Restore(ctx, o)
	if err != nil {
		return err
	}
	line.Stop()
	tellRestored(stdout, o, restored)
	return nil
}

// checkBackup reads a whole backup, verifies it, and prints its contents.
func checkBackup(path string, stdout, stderr io.Writer) error {
	line := progress.Start(stderr)
	defer line.Stop()
	line.Say("reading " + path)
	h, t, err := backup.CheckFile(path)
	line.Stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "backup   %s is complete: version %d of the schema, of Postgres %s, written by %s\n", path,
		h.Schema,
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

// tellRestored prints what was restored, what is missing, and what to do next.
func tellRestored(stdout io.Writer, o backup.RestoreOptions, r backup.Restored) {
	h := r.Header
	if r.Finished {
		fmt.Fprintln(stdout, "An earlier restore was complete except for its last step; it is finished now.")
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
			"TOKENS   are those of %s: tokens revoked since are valid again. Check outcry token list.\n",
			h.Begun.Format(time.RFC3339))
	case r.Tokens != "":
		fmt.Fprintf(stdout, "tokens   are those of %s\n", r.Tokens)
	case r.Journal != "" && !h.WithoutJournal:
		fmt.Fprintf(stdout,
			"TOKENS   none: there is no token file with %s. With --auth no client can connect before outcry token add.\n",
			r.Journal)
	case h.WithoutJournal:
		fmt.Fprintf(stdout,
			"TOKENS   none: the backup was taken without them. With --auth no client can connect before outcry token add.\n")
	}
	if r.Journal != "" {
		fmt.Fprintf(stdout, "journal  %s after the backup, which the next start replays. Order ids that are not in\n",
			phrase.Number(int(r.Last-h.Seq), "record"))
		fmt.Fprintf(stdout, "         it are not used again: the next order is %d.\n", r.NextOrder)
		return
	}
	since := "since " + r.Since.Format(time.RFC3339)
	if r.Since.IsZero() {
		since = "at any time"
	}
	fmt.Fprintf(stdout,
		"LOST     everything that the exchange answered after record %d. Tell the traders: their orders,\n", h.Seq)
	fmt.Fprintf(stdout, "         executions and cancels %s may be missing here. Their order ids are not\n", since)
	fmt.Fprintf(stdout, "         used again: the next order is %d.\n", r.NextOrder)
}
