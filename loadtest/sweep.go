package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
	"outcry/loadtest/sweep"
)

// quickJobs end within two minutes; fullJobs are the report's.
func quickJobs() []sweep.Job {
	return jobs(map[string][]func(*scenario.Params){
		"cores":   {func(p *scenario.Params) { p.Requests = 1500 }},
		"mix5":    {func(p *scenario.Params) { p.Requests = 150 }},
		"query81": {func(p *scenario.Params) { p.Requests = 100 }},
		"market":  {forSeconds(1), func(p *scenario.Params) { p.Duration, p.Depth = time.Second, 16 }},
	}, "cores", "mix5", "query81", "market")
}

func fullJobs() []sweep.Job {
	clients := func(n, requests int) func(*scenario.Params) {
		return func(p *scenario.Params) { p.Clients, p.Requests = n, requests }
	}
	pipelined := func(p *scenario.Params) { p.Duration, p.Depth = 3*time.Second, 16 }
	atRate := func(p *scenario.Params) { p.Duration, p.Clients, p.Rate = 3*time.Second, 256, 10_000 }
	return jobs(map[string][]func(*scenario.Params){
		"cores":            {func(*scenario.Params) {}},
		"burst":            {clients(1000, 1), clients(5000, 1), clients(10_000, 1)},
		"mix5":             {clients(2, 1000), clients(4, 5000), clients(20, 1000), clients(50, 400), clients(200, 100)},
		"populate":         {func(*scenario.Params) {}},
		"populate-connect": {func(*scenario.Params) {}},
		"query10":          {clients(1, 4000), clients(16, 250)},
		"query81":          {func(*scenario.Params) {}},
		"accounts":         {clients(1000, 1), clients(5000, 1), clients(10_000, 1)},
		"market":           {forSeconds(3), pipelined, atRate},
		"hot":              {forSeconds(3), pipelined},
		"wide":             {forSeconds(3)},
		"deep":             {forSeconds(3)},
	}, "cores", "burst", "mix5", "populate", "populate-connect", "query10", "query81", "accounts", "market", "hot", "wide", "deep")
}

func forSeconds(n int) func(*scenario.Params) {
	return func(p *scenario.Params) { p.Duration = time.Duration(n) * time.Second }
}

// jobs makes one job of each variant of each scenario, in the order of names.
func jobs(variants map[string][]func(*scenario.Params), names ...string) (all []sweep.Job) {
	for _, name := range names {
		s, ok := scenario.Find(name)
		if !ok {
			panic("loadtest: there is no scenario " + name)
		}
		for _, change := range variants[name] {
			p := s.Defaults
			change(&p)
			all = append(all, sweep.Job{Scenario: s, Params: p})
		}
	}
	return all
}

func runSweep(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("sweep", flag.ContinueOnError)
	f.SetOutput(stderr)
	quick := f.Bool("quick", false, "a few scenarios, shortly: it ends within two minutes")
	only := f.String("only", "", "`scenarios` to run, comma-separated; empty for all")
	procs := f.String("procs", "1,2,4", "values of GOMAXPROCS for the server, comma-separated")
	plan := sweep.Plan{}
	f.IntVar(&plan.Repetitions, "repeat", 0, "how often each is measured; 0: 3 times, with -quick once")
	f.Uint64Var(&plan.Seed, "seed", 1, "seed of everything that is drawn")
	out := f.String("out", "", "`directory` that points.json and points.csv are written to; empty for none")
	if err := parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	if plan.Repetitions < 0 || plan.Repetitions > 1000 {
		return fmt.Errorf("%w: -repeat %d: must be from 0 to 1000", errUsage, plan.Repetitions)
	}
	if plan.Repetitions == 0 && *quick {
		plan.Repetitions = 1
	} else if plan.Repetitions == 0 {
		plan.Repetitions = 3
	}
	plan.Jobs = fullJobs()
	if *quick {
		plan.Jobs = quickJobs()
	}
	for text := range strings.SplitSeq(*procs, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1024 {
			return fmt.Errorf("%w: -procs: %q is not a number from 1 to 1024", errUsage, text)
		}
		plan.GOMAXPROCS = append(plan.GOMAXPROCS, n)
	}
	if err := keepOnly(&plan, *only); err != nil {
		return err
	}
	return sweepAll(ctx, plan, "go run ./loadtest sweep "+strings.Join(args, " "), *out, stdout)
}

// keepOnly drops the jobs of other scenarios.
func keepOnly(plan *sweep.Plan, names string) error {
	if names == "" {
		return nil
	}
	var kept []sweep.Job
	for name := range strings.SplitSeq(names, ",") {
		before := len(kept)
		for _, j := range plan.Jobs {
			if j.Scenario.Name == name {
				kept = append(kept, j)
			}
		}
		if len(kept) == before {
			return fmt.Errorf("%w: -only: there is no scenario %q in this sweep", errUsage, name)
		}
	}
	plan.Jobs = kept
	return nil
}

// measure builds the programs, makes the measurements of a plan and prints them. The
// report has those that were made also beside an error, unless it is nil.
func measure(ctx context.Context, plan sweep.Plan, command string, stdout io.Writer) (*sweep.Report, error) {
	dir, err := os.MkdirTemp("", "outcry-sweep-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	programs, err := sweep.Build(ctx, root, dir)
	if err != nil {
		return nil, err
	}
	report, err := plan.Run(ctx, programs, dir, command, stdout)
	if report != nil {
		fmt.Fprintln(stdout)
		report.WriteTable(stdout)
	}
	return report, err
}

// verdict is an error where a run failed.
func verdict(r *sweep.Report) error {
	if wrong := r.Failures(); len(wrong) > 0 {
		return fmt.Errorf("failed runs: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func sweepAll(ctx context.Context, plan sweep.Plan, command, out string, stdout io.Writer) error {
	report, failed := measure(ctx, plan, command, stdout)
	if report == nil {
		return failed
	}
	if out != "" {
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		if err := writeReport(filepath.Join(out, "points.json"), report); err != nil {
			return err
		}
		if err := writeReport(filepath.Join(out, "points.csv"), csvOf{report}); err != nil {
			return err
		}
	}
	return errors.Join(failed, verdict(report))
}

// csvOf writes a report as CSV where JSON is expected.
type csvOf struct{ *sweep.Report }

func (c csvOf) WriteJSON(w io.Writer) error { return c.WriteCSV(w) }
