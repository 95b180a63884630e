package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tsenart/vegeta/v12/lib/plot"

	lib "github.com/tsenart/vegeta/v12/lib"

	"outcry/internal/journal"
	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/loadtest/bench"
	"outcry/loadtest/harness"
)

// benches are what bench measures besides single scenarios.
var benches = []struct {
	name, about string
	run         func(*benching, context.Context) error
}{
	{"quick", "a few scenarios, shortly: it ends within two minutes", (*benching).plan},
	{"full", "every scenario that docs/SCALABILITY.md has, at several numbers of processors; about 20 minutes",
		(*benching).plan},
	{"goals", "what docs/PERFORMANCE.md demands, judged", (*benching).goals},
	{"soak", "trade for long at half of capacity: memory, files and latency must stay flat", (*benching).soak},
	{"growth", "let history grow and look at restarts, journal and memory", (*benching).growth},
}

// benching is a bench under way.
type benching struct {
	*flag.FlagSet
	name, command  string
	args           []string
	data, dir      *string
	stdout, stderr io.Writer
}

func runBench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	usage := func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest bench WHAT [flags]; bench WHAT -help tells its flags\n\n"+
			"WHAT is one of these:")
		for _, x := range benches {
			fmt.Fprintf(stderr, "  %-17s %s\n", x.name, x.about)
		}
		fmt.Fprintln(stderr, "or a scenario:")
		for _, s := range scenario.All() {
			fmt.Fprintf(stderr, "  %-17s %s\n", s.Name, s.About)
		}
	}
	if len(args) == 0 || args[0] == "-help" || args[0] == "-h" {
		usage()
		return flag.ErrHelp
	}
	b := &benching{name: args[0], args: args[1:], stdout: stdout, stderr: stderr,
		FlagSet: flag.NewFlagSet("bench "+args[0], flag.ContinueOnError),
		command: "go run ./loadtest bench " + strings.Join(args, " ")}
	b.SetOutput(stderr)
	b.data = b.String("data", "", "`file` that everything is written to")
	b.dir = b.String("dir", "", "`directory` for the data of exchanges, which stays; empty for a temporary one")
	for _, x := range benches {
		if x.name == b.name {
			return x.run(b, ctx)
		}
	}
	if s, ok := scenario.Find(b.name); ok {
		return b.scenario(ctx, s)
	}
	usage()
	return fmt.Errorf("%w: there is no bench %q", errUsage, b.name)
}

// parse reads the flags, and returns an error that wraps errUsage if there is more, or if
// check, which may be nil, finds something wrong.
func (b *benching) parse(check func() error) error {
	if err := parse(b.FlagSet, b.args); err != nil {
		return err
	}
	if b.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, b.Arg(0))
	}
	if check != nil {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
	}
	return nil
}

// within returns an error if a flag's value is not within its bounds.
func within(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("-%s %d: must be from %d to %d", name, value, least, most)
	}
	return nil
}

// do builds the programs, measures, and saves what came of it, also beside an error.
func (b *benching) do(ctx context.Context, measure func(d *bench.Data, p bench.Programs, dir string) error) error {
	dir := *b.dir
	if dir == "" {
		temporary, err := os.MkdirTemp("", "outcry-bench-")
		if err != nil {
			return err
		}
		defer harness.RemoveAll(temporary)
		dir = temporary
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	programs, err := bench.Build(ctx, dir)
	if err != nil {
		return err
	}
	d := bench.NewData(ctx, b.command)
	err = measure(d, programs, dir)
	d.Seconds = time.Since(d.Began).Seconds()
	if *b.data != "" {
		err = errors.Join(err, d.Save(*b.data))
	}
	return err
}

// measure runs a plan and prints its table. The error names failed runs.
func (b *benching) measure(ctx context.Context, plan bench.Plan) error {
	return b.do(ctx, func(d *bench.Data, p bench.Programs, dir string) error {
		d.Repetitions = plan.Repetitions
		err := plan.Run(ctx, d, p, dir, bench.Watch{}, b.stdout)
		if len(d.Points) > 0 {
			d.WriteTable(b.stdout)
		}
		if wrong := d.Failures(); len(wrong) > 0 {
			err = errors.Join(err, fmt.Errorf("failed runs: %s", strings.Join(wrong, "; ")))
		}
		return err
	})
}

// plan measures the quick or the full plan.
func (b *benching) plan(ctx context.Context) error {
	only := b.String("only", "", "`scenarios` to run, comma-separated; empty for all")
	procs := b.String("procs", "1,2,4", "values of GOMAXPROCS for the server, comma-separated")
	plan, repeat := bench.Plan{Jobs: bench.Full()}, 3
	if b.name == "quick" {
		plan.Jobs, repeat = bench.Quick(), 1
	}
	b.IntVar(&plan.Repetitions, "repeat", repeat, "how often each is measured")
	b.Uint64Var(&plan.Seed, "seed", 1, "seed of everything that is drawn")
	err := b.parse(func() error {
		for text := range strings.SplitSeq(*procs, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 1024 {
				return fmt.Errorf("-procs: %q is not a number from 1 to 1024", text)
			}
			plan.GOMAXPROCS = append(plan.GOMAXPROCS, n)
		}
		for name := range strings.SplitSeq(*only, ",") {
			if name != "" && !slices.ContainsFunc(plan.Jobs, func(j bench.Job) bool { return j.Scenario.Name == name }) {
				return fmt.Errorf("-only: there is no scenario %q in this plan", name)
			}
		}
		return within("repeat", plan.Repetitions, 1, 1000)
	})
	if err != nil {
		return err
	}
	plan.Jobs = slices.DeleteFunc(plan.Jobs, func(j bench.Job) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), j.Scenario.Name)
	})
	return b.measure(ctx, plan)
}

// goals judges the exchange by what it is to reach. A goal that is not met is no
// error: a machine may be busy, and another one slower. A wrong answer is.
func (b *benching) goals(ctx context.Context) error {
	rounds := b.Int("rounds", 3, "how often everything is measured")
	quick := b.Bool("quick", false, "shorter and smaller: to see that everything works, not for figures")
	if err := b.parse(func() error { return within("rounds", *rounds, 1, 1000) }); err != nil {
		return err
	}
	return b.measure(ctx, bench.Plan{Jobs: bench.Goals(*quick), Repetitions: *rounds, Seed: 1})
}

// soak trades for long.
func (b *benching) soak(ctx context.Context) error {
	o := bench.SoakOptions{Progress: progress(b.stderr), Out: b.stdout}
	b.DurationVar(&o.Duration, "duration", time.Hour, "how long to trade")
	b.IntVar(&o.Rate, "rate", 0, "frames a second; 0: half of what a short run reaches")
	b.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	err := b.parse(func() error {
		if o.Duration < 6*time.Second {
			return fmt.Errorf("-duration %s: must be at least 6s", o.Duration)
		}
		return within("rate", o.Rate, 0, 10_000_000)
	})
	if err != nil {
		return err
	}
	return b.do(ctx, func(d *bench.Data, p bench.Programs, dir string) error {
		s, err := bench.RunSoak(ctx, p, dir, o)
		if err != nil {
			return err
		}
		d.Soak = s
		s.Write(b.stdout)
		if len(s.Findings) > 0 {
			return errors.New(s.Findings[0])
		}
		fmt.Fprintf(b.stdout, "PASS: %d frames in %s, flat, and the exchange agrees; seed %d\n",
			s.Requests, o.Duration, o.Seed)
		return nil
	})
}

// growth lets history grow.
func (b *benching) growth(ctx context.Context) error {
	o := bench.GrowthOptions{Out: b.stdout}
	marks := b.String("orders", "1000000,2000000,5000000", "`numbers` of orders at which to look, comma-separated, rising")
	b.IntVar(&o.Clients, "clients", 32, "`connections` that trade")
	err := b.parse(func() error {
		for text := range strings.SplitSeq(*marks, ",") {
			mark, err := strconv.ParseInt(text, 10, 64)
			if err != nil || mark < 1 || len(o.Marks) > 0 && mark <= o.Marks[len(o.Marks)-1] {
				return fmt.Errorf("-orders: %q is not a number that rises", text)
			}
			o.Marks = append(o.Marks, mark)
		}
		return within("clients", o.Clients, 1, 1000)
	})
	if err != nil {
		return err
	}
	return b.do(ctx, func(d *bench.Data, p bench.Programs, dir string) (err error) {
		d.Marks, err = bench.RunGrowth(ctx, p, dir, o)
		return err
	})
}

// scenario measures one.
func (b *benching) scenario(ctx context.Context, s scenario.Scenario) error {
	job := bench.Job{Scenario: s, Params: s.Defaults, Repetition: 1}
	s.Flags(b.FlagSet, &job.Params)
	b.IntVar(&job.GOMAXPROCS, "procs", 0, "GOMAXPROCS of the server; 0: as it chooses")
	b.StringVar(&job.CPUs, "cpus", "", "`processors` that the server alone may use, as taskset has them; empty for all")
	b.BoolVar(&job.SyncedEcho, "synced", false, "compare with an echo server that has a journal as well")
	b.Uint64Var(&job.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	page := b.String("html", "", "`file` that vegeta's plot of every frame is written to, with a -rate")
	err := b.parse(func() error {
		given := map[string]bool{}
		b.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if given["duration"] && !given["requests"] {
			job.Params.Requests = 0 // a duration is instead of the scenario's number of requests
		}
		if *page != "" && job.Params.Rate == 0 {
			return errors.New("-html needs a -rate: vegeta plots frames that are sent at one")
		}
		return errors.Join(s.Check(job.Params), within("procs", job.GOMAXPROCS, 0, 1024))
	})
	if err != nil {
		return err
	}
	hits := plot.New(plot.Title("outcry "+s.Name), plot.Downsample(4000), plot.Label(plot.ErrorLabeler))
	watch := bench.Watch{Progress: progress(b.stderr)}
	if *page != "" {
		watch.Hit = func(hit *lib.Result) { _ = hits.Add(hit) } // hits come in order, which is all that it can complain of
	}
	return b.do(ctx, func(d *bench.Data, p bench.Programs, dir string) error {
		point, err := bench.Measure(ctx, p, dir, job, watch)
		if err != nil {
			return err
		}
		d.Points, d.Repetitions = []*bench.Point{point}, 1
		point.Write(b.stdout)
		if *page != "" {
			hits.Close()
			err = writeTo(*page, func(w io.Writer) error { _, err := hits.WriteTo(w); return err })
		}
		return errors.Join(err, point.Failure())
	})
}

// writeTo writes a file.
func writeTo(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// progress shows how a run goes, a line that is written over. If w is no terminal
// it shows nothing.
func progress(w io.Writer) func(load.Progress) {
	if f, ok := w.(*os.File); !ok {
		return nil
	} else if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(p load.Progress) {
		fmt.Fprintf(w, "\r%6.0f s  %9d answered  %8.0f/s  p50 %8s  p99 %8s  %d unexpected  %4.0f s left ",
			p.Elapsed.Seconds(),
			p.Requests, p.Rate, p.P50.Round(10*time.Microsecond), p.P99.Round(10*time.Microsecond), p.Errors, p.Left.Seconds())
	}
}

// runPages writes pages and plots of data.
func runPages(_ context.Context, args []string, _, stderr io.Writer) error {
	f := flag.NewFlagSet("pages", flag.ContinueOnError)
	f.SetOutput(stderr)
	docs := f.String("docs", "docs", "`directory` of SCALABILITY.md and PERFORMANCE.md, and of the data: "+
		bench.FullFile+", "+bench.SoakFile+" and "+bench.GoalsFile)
	if err := parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	return bench.Pages(*docs)
}

// runEcho serves echoes until its standard input ends: bench runs it.
func runEcho(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	f.SetOutput(stderr)
	reply := f.Int("reply", 80, "`bytes` of each reply")
	addr := f.String("listen", "127.0.0.1:0", "`address`")
	dir := f.String("journal", "", "`directory` of a journal: a frame is answered once it is durable; empty for none")
	if err := parse(f, args); err != nil {
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
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	return load.Echo(l, *reply, log)
}
