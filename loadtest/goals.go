package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"outcry/loadtest/harness"
	"outcry/loadtest/performance"
	"outcry/loadtest/scalability"
	"outcry/loadtest/sweep"
)

// runGoals judges the exchange by what it is to reach. A goal that is not met is no
// error: a machine may be busy, and another one slower. A wrong answer is.
func runGoals(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("goals", flag.ContinueOnError)
	f.SetOutput(stderr)
	rounds := f.Int("rounds", 3, "how often everything is measured")
	quick := f.Bool("quick", false, "shorter and smaller: to see that everything works, not for figures")
	docs := f.String("docs", "", "`directory` of PERFORMANCE.md, whose tables are written anew; empty for none")
	if err := parse(f, args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	case *quick && *docs != "":
		return fmt.Errorf("%w: -docs with -quick: those are no figures for a page", errUsage)
	case *rounds < 1 || *rounds > 1000:
		return fmt.Errorf("%w: -rounds %d: must be from 1 to 1000", errUsage, *rounds)
	}
	dir, err := os.MkdirTemp("", "outcry-goals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	programs, err := sweep.Build(ctx, root, dir)
	if err != nil {
		return err
	}
	report, failed := performance.Run(ctx, programs, performance.Options{Command: strings.TrimSpace("go run ./loadtest goals " + strings.Join(args, " ")),
		Dir: dir, Rounds: *rounds, Quick: *quick, Out: stdout})
	if report == nil || len(report.Rounds) == 0 {
		return failed
	}
	report.WriteTable(stdout)
	if *docs == "" || failed != nil {
		return failed
	}
	return writeGoals(*docs, report)
}

// writeGoals writes the results and the tables of the page.
func writeGoals(docs string, r *performance.Report) error {
	if err := os.MkdirAll(filepath.Join(docs, "performance"), 0o755); err != nil {
		return err
	}
	if err := writeReport(filepath.Join(docs, "performance", "goals.json"), r); err != nil {
		return err
	}
	page := filepath.Join(docs, "PERFORMANCE.md")
	b, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := scalability.Refresh(string(b), r.Tables())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(text), 0o644)
}
