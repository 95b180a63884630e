package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"outcry/loadtest/scalability"
	"outcry/loadtest/sweep"
)

func runReport(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	f.SetOutput(stderr)
	docs := f.String("docs", "docs", "`directory` of SCALABILITY.md")
	again := f.Bool("again", false, "measure nothing: write the tables and plots of the results that are there")
	plan := sweep.Plan{GOMAXPROCS: []int{1, 2, 4}, Jobs: fullJobs()}
	f.IntVar(&plan.Repetitions, "repeat", 3, "how often each is measured")
	f.Uint64Var(&plan.Seed, "seed", 1, "seed of everything that is drawn")
	if err := parse(f, args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	case plan.Repetitions < 1 || plan.Repetitions > 1000:
		return fmt.Errorf("%w: -repeat %d: must be from 1 to 1000", errUsage, plan.Repetitions)
	}
	if *again {
		report, err := scalability.Load(*docs)
		if err != nil {
			return err
		}
		return scalability.Write(*docs, report)
	}
	report, failed := measure(ctx, plan, strings.TrimSpace("go run ./loadtest report "+strings.Join(args, " ")), stdout)
	if report == nil || len(report.Points) == 0 {
		return failed
	}
	return errors.Join(failed, scalability.Write(*docs, report), verdict(report))
}
