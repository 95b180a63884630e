package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/tsenart/vegeta/v12/lib/plot"

	lib "github.com/tsenart/vegeta/v12/lib"

	"outcry/internal/journal"
	"outcry/internal/lab/bench"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// benches are the measurements of the command bench, in addition to the scenarios. Each one declares its flags, and
// sets the functions that check the flags and measure.
var benches = []what{
	{"quick", "a few short scenarios, in less than two minutes",
		func(b *benching) { b.plan(bench.Quick(), 1, 1, 2, 4) }},
	{"record", "what docs/RESULTS.md shows, mainly the experiments of earlier systems; within 15 minutes",
		func(b *benching) { b.kept(bench.Record()) }},
	{"full", "every scenario of docs/reference/BENCHMARKS.md; about 20 minutes",
		func(b *benching) { b.kept(bench.Full()) }},
	{"goals", "the goals of docs/reference/BENCHMARKS.md, judged", (*benching).goals},
	{"soak", "trade for a long time at half of capacity: memory, files and latency must stay flat", (*benching).soak},
	{"growth", "let history grow, and measure restarts, journal and memory", (*benching).growth},
}

// what is one of the things that bench can measure.
type what struct {
	name, about string
	prepare     func(*benching)
}

// benching is a running bench command.
type benching struct {
	*flag.FlagSet
	out, stderr io.Writer
	check       func() error // checks how the flags are combined; may be nil
	run         func(ctx context.Context, d *bench.Data, p bench.Programs, dir string) error
}

func runBench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	b := &benching{FlagSet: newFlags("bench "+name, stderr), out: stdout, stderr: stderr}
	data := b.String("data", "", "`file` for the results")
	dir := b.String("dir", "", "`directory` for the data of exchanges, which is kept; empty for a temporary one")
	all := benches
	for _, s := range scenario.All() {
		all = append(all, what{s.Name, s.About, func(b *benching) { b.scenario(s) }})
	}
	for _, x := range all {
		if x.name == name {
			x.prepare(b)
		}
	}
	if b.run == nil {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest bench WHAT [flags]; bench WHAT -help lists its flags\n\n"+
			"WHAT is one of these; all after growth are scenarios:")
		for _, x := range all {
			fmt.Fprintf(stderr, "  %-17s %s\n", x.name, x.about)
		}
		if name == "" || name == "-help" || name == "-h" {
			return flag.ErrHelp
		}
		return fmt.Errorf("%w: unknown bench %q", errUsage, name)
	}
	if err := parse(b.FlagSet, args[1:], 0); err != nil {
		return err
	}
	if b.check != nil {
		if err := b.check(); err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
	}
	return b.do(ctx, "go run ./loadtest bench "+strings.Join(args, " "), *data, *dir)
}

// do builds the programs, measures, and saves the results, even after an error.
func (b *benching) do(ctx context.Context, command, data, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "outcry-bench-"); err != nil {
			return err
		}
		defer harness.RemoveAll(dir)
	}
	programs, err := bench.Build(ctx, dir)
	if err != nil {
		return err
	}
	d := bench.NewData(ctx, command)
	err = b.run(ctx, d, programs, dir)
	d.Seconds = time.Since(d.Began).Seconds()
	if data != "" {
		err = errors.Join(err, d.Save(data))
	}
	return err
}

// kept measures jobs five times, and continues from the results already in the data file.
func (b *benching) kept(jobs []bench.Job) {
	plan := b.plan(jobs, 5, 1, 2, 3, 4)
	plan.Shared, plan.Echo = true, 400*time.Millisecond
	b.DurationVar(&plan.Within, "within", 14*time.Minute, "`time` after which no measurement starts; 0 for no limit")
	run := b.run
	b.run = func(ctx context.Context, d *bench.Data, p bench.Programs, dir string) error {
		path := b.Lookup("data").Value.String()
		if path != "" {
			if err := d.Continue(path); err != nil {
				return err
			}
			plan.Save = func() error { return d.Save(path) }
		}
		return run(ctx, d, p, dir)
	}
}

// plan returns a plan that measures jobs repeat times at the given values of GOMAXPROCS, with flags to
// change both.
func (b *benching) plan(jobs []bench.Job, repeat int, procs ...int) *bench.Plan {
	plan := &bench.Plan{Jobs: jobs}
	number(b.FlagSet, &plan.Repetitions, "repeat", repeat, 1, 1000, "how often each is measured")
	b.Uint64Var(&plan.Seed, "seed", 1, "seed of all random choices")
	b.Func("only", "`scenarios` to run, comma-separated; all if it is not given", func(text string) error {
		plan.Jobs = nil
		for name := range strings.SplitSeq(text, ",") {
			had := len(plan.Jobs)
			for _, j := range jobs {
				if j.Scenario.Name == name {
					plan.Jobs = append(plan.Jobs, j)
				}
			}
			if len(plan.Jobs) == had {
				return fmt.Errorf("the plan has no scenario %q", name)
			}
		}
		return nil
	})
	numbers(b.FlagSet, &plan.GOMAXPROCS, "procs", 1024, "values of GOMAXPROCS for the server", procs...)
	b.measure(plan)
	return plan
}

// measure runs a plan and prints its table. The error names failed runs.
func (b *benching) measure(plan *bench.Plan) {
	b.run = func(ctx context.Context, d *bench.Data, p bench.Programs, dir string) error {
		err := plan.Run(ctx, d, p, dir, b.out)
		if len(d.Points) > 0 {
			d.WriteTable(b.out)
		}
		if wrong := d.Failures(); len(wrong) > 0 {
			return errors.Join(err, fmt.Errorf("failed runs: %s", strings.Join(wrong, "; ")))
		}
		if err == nil {
			fmt.Fprintln(b.out, "the exchange and its tables agree with the answers")
		}
		return err
	}
}

// goals measures the exchange against its goals. A missed goal is not an error, since a machine may be
// busy or slow. A wrong answer is.
func (b *benching) goals() {
	plan := &bench.Plan{Seed: 1}
	number(b.FlagSet, &plan.Repetitions, "rounds", 3, 1, 1000, "how often everything is measured")
	quick := b.Bool("quick", false, "shorter and smaller, to see that everything works, not to get figures")
	b.check = func() error { plan.Jobs = bench.Goals(*quick); return nil }
	b.measure(plan)
}

// soak sets up a long run.
func (b *benching) soak() {
	o := bench.SoakOptions{Progress: progress(b.stderr), Out: b.out}
	b.DurationVar(&o.Duration, "duration", time.Hour, "how long to trade")
	number(b.FlagSet, &o.Rate, "rate", 0, 0, 10_000_000, "frames a second; 0: half of what a short run reaches")
	b.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	b.check = func() error {
		if o.Duration < 6*time.Second {
			return fmt.Errorf("-duration %s: must be at least 6s", o.Duration)
		}
		return nil
	}
	b.run = func(ctx context.Context, d *bench.Data, p bench.Programs, dir string) error {
		s, err := bench.RunSoak(ctx, p, dir, o)
		if err != nil {
			return err
		}
		d.Soak = s
		s.Write(b.out)
		if len(s.Findings) > 0 {
			return errors.New(s.Findings[0])
		}
		fmt.Fprintf(b.out, "PASS: %d frames in %s, flat, and the exchange agrees; seed %d\n", s.Requests, o.Duration, o.Seed)
		return nil
	}
}

// growth sets up a measurement of a growing history.
func (b *benching) growth() {
	o := bench.GrowthOptions{Out: b.out}
	numbers(b.FlagSet, &o.Marks, "orders", math.MaxInt, "`numbers` of orders at which to measure, rising",
		1_000_000, 2_000_000, 5_000_000)
	b.check = func() error {
		for i, mark := range o.Marks[1:] {
			if mark <= o.Marks[i] {
				return fmt.Errorf("-orders: \"%d\" is not higher than the one before", mark)
			}
		}
		return nil
	}
	number(b.FlagSet, &o.Clients, "clients", 32, 1, 1000, "`connections` that trade")
	b.run = func(ctx context.Context, d *bench.Data, p bench.Programs, dir string) (err error) {
		d.Marks, err = bench.RunGrowth(ctx, p, dir, o)
		return err
	}
}

// scenario sets up the measurement of one scenario.
func (b *benching) scenario(s scenario.Scenario) {
	plan := &bench.Plan{Jobs: []bench.Job{{Scenario: s, Params: s.Defaults, Progress: progress(b.stderr)}}, Repetitions: 1}
	job := &plan.Jobs[0]
	s.Flags(b.FlagSet, &job.Params)
	number(b.FlagSet, &job.GOMAXPROCS, "procs", 0, 0, 1024, "GOMAXPROCS of the server; 0: as it chooses")
	b.StringVar(&job.CPUs, "cpus", "", "`processors` for the server alone, in the form of taskset; empty for all")
	b.BoolVar(&job.SyncedEcho, "synced", false, "also compare with an echo server that has a journal")
	b.Uint64Var(&plan.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	page := b.String("html", "", "`file` for vegeta's plot of every frame; needs -rate")
	hits := plot.New(plot.Title("outcry "+s.Name), plot.Downsample(4000), plot.Label(plot.ErrorLabeler))
	b.check = func() error {
		given := map[string]bool{}
		b.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if given["duration"] && !given["requests"] {
			job.Params.Requests = 0 // a duration replaces the scenario's number of requests
		}
		if *page != "" && job.Params.Rate == 0 {
			return errors.New("-html needs -rate: vegeta only plots frames that are sent at a rate")
		}
		if *page != "" {
			job.Hit = func(hit *lib.Result) { _ = hits.Add(hit) } // fails only if hits are out of order
		}
		return s.Check(job.Params)
	}
	b.measure(plan)
	measure := b.run
	b.run = func(ctx context.Context, d *bench.Data, p bench.Programs, dir string) error {
		err := measure(ctx, d, p, dir)
		if *page == "" {
			return err
		}
		hits.Close()
		plotted := bench.WriteFile(*page, func(w io.Writer) error { _, err := hits.WriteTo(w); return err })
		return errors.Join(err, plotted)
	}
}

// progress returns a function that shows the progress of a run in one line, which it overwrites. If w is
// not a terminal the function does nothing.
func progress(w io.Writer) func(load.Progress) {
	if f, ok := w.(*os.File); !ok {
		return nil
	} else if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(p load.Progress) { fmt.Fprintf(w, "\r%s ", p) }
}

// runEcho serves echoes until its standard input ends. The command bench starts it.
func runEcho(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("echo", stderr)
	reply := f.Int("reply", 80, "`bytes` of each reply")
	addr := f.String("listen", "127.0.0.1:0", "`address`")
	dir := f.String("journal", "", "`directory` of a journal: a frame is answered once it is durable; empty for none")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	var log load.Log
	if *dir != "" {
		if err := os.MkdirAll(*dir, 0o700); err != nil {
			return err
		}
		j, err := journal.Open(*dir, journal.Options{Version: 1})
		if err != nil {
			return err
		}
		defer j.Close()
		log = j
	}
	return load.ServeEcho(ctx, *addr, *reply, log, os.Stdin, stdout)
}
