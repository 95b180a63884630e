package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"github.com/tsenart/vegeta/v12/lib/plot"

	"outcry/internal/journal"
	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
	"outcry/loadtest/sweep"
)

func runScenario(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	usage := func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest run SCENARIO [flags]; run SCENARIO -help tells its flags\n\nScenarios:")
		for _, s := range scenario.All() {
			fmt.Fprintf(stderr, "  %-17s %s\n", s.Name, s.About)
		}
	}
	if len(args) == 0 || args[0] == "-help" || args[0] == "-h" {
		usage()
		return flag.ErrHelp
	}
	s, ok := scenario.Find(args[0])
	if !ok {
		usage()
		return fmt.Errorf("%w: there is no scenario %q", errUsage, args[0])
	}
	f := flag.NewFlagSet("run "+s.Name, flag.ContinueOnError)
	f.SetOutput(stderr)
	job := sweep.Job{Scenario: s, Params: s.Defaults}
	params(f, &job.Params, s.Uses)
	conditions(f, &job.Params)
	f.IntVar(&job.GOMAXPROCS, "procs", 0, "GOMAXPROCS of the server; 0: as it chooses")
	f.StringVar(&job.CPUs, "cpus", "", "`processors` that the server alone may use, as taskset has them; empty for all")
	f.BoolVar(&job.SyncedEcho, "synced", false, "compare with an echo server that has a journal as well")
	f.Uint64Var(&job.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	report := f.String("json", "", "`file` that the result is written to")
	page := f.String("html", "", "`file` that vegeta's plot of every frame is written to, with a -rate")
	if err := parse(f, args[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	f.Visit(func(set *flag.Flag) {
		// A duration is instead of the scenario's number of requests.
		if set.Name == "duration" && !isSet(f, "requests") {
			job.Params.Requests = 0
		}
	})
	if err := job.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if *page != "" && job.Params.Rate == 0 {
		return fmt.Errorf("%w: -html needs a -rate: vegeta plots frames that are sent at one", errUsage)
	}
	hits := plot.New(plot.Title("outcry "+s.Name), plot.Downsample(4000), plot.Label(plot.ErrorLabeler))
	watch := sweep.Watch{Progress: progress(stderr)}
	if *page != "" {
		watch.Hit = func(hit *vegeta.Result) { _ = hits.Add(hit) } // hits come in order, which is all that it can complain of
	}
	point, err := measureOne(ctx, job, watch)
	if err != nil {
		return err
	}
	point.Write(stdout)
	if *page != "" {
		hits.Close()
		if err := writeReport(*page, pageOf{hits}); err != nil {
			return err
		}
	}
	if *report != "" {
		if err := writeReport(*report, &single{"go run ./loadtest run " + strings.Join(args, " "), harness.Revision(ctx, "."), harness.Machine(), point}); err != nil {
			return err
		}
	}
	return point.Failure()
}

// single is a point with what it takes to make it again.
type single struct {
	Command  string `json:"command"`
	Revision string `json:"revision"`
	Machine  string `json:"machine"`
	*sweep.Point
}

// WriteJSON writes all of it. The error is w's.
func (s *single) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// isSet reports whether a flag was given.
func isSet(f *flag.FlagSet, name string) (set bool) {
	f.Visit(func(g *flag.Flag) { set = set || g.Name == name })
	return set
}

// measureOne builds the programs and makes one measurement.
func measureOne(ctx context.Context, job sweep.Job, watch sweep.Watch) (*sweep.Point, error) {
	dir, err := os.MkdirTemp("", "outcry-load-")
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
	return sweep.Measure(ctx, programs, dir, job, watch)
}

// pageOf writes a plot where JSON is expected.
type pageOf struct{ *plot.Plot }

func (p pageOf) WriteJSON(w io.Writer) error {
	_, err := p.WriteTo(w)
	return err
}

// params declares the flags of the parameters that a scenario uses.
func params(f *flag.FlagSet, p *scenario.Params, uses []string) {
	for _, name := range uses {
		switch name {
		case "clients":
			f.IntVar(&p.Clients, name, p.Clients, "`connections` at once")
		case "depth":
			f.IntVar(&p.Depth, name, p.Depth, "frames under way on each connection")
		case "requests":
			f.IntVar(&p.Requests, name, p.Requests, "frames of each client; 0 with a duration")
		case "duration":
			f.DurationVar(&p.Duration, name, p.Duration, "how long to send, instead of a number of requests")
		case "rate":
			f.IntVar(&p.Rate, name, p.Rate, "frames a second of all clients together; 0: as many as possible")
		case "symbols":
			f.IntVar(&p.Symbols, name, p.Symbols, "symbols that are traded")
		case "accounts":
			f.IntVar(&p.Accounts, name, p.Accounts, "accounts that are opened beforehand")
		case "orders":
			f.IntVar(&p.Orders, name, p.Orders, "orders that rest beforehand")
		case "per_frame":
			f.IntVar(&p.PerFrame, name, p.PerFrame, "commands of each frame")
		}
	}
}

// conditions adds the flags that every scenario has.
func conditions(f *flag.FlagSet, p *scenario.Params) {
	f.IntVar(&p.History, "history", 0, "`orders` that are executed beforehand")
	f.IntVar(&p.Idle, "idle", 0, "further `connections`, which send nothing")
	f.IntVar(&p.Readers, "readers", 0, "`readers` of the market data stream")
	f.BoolVar(&p.Refs, "refs", false, "each order of a market has a ref of its own")
	f.BoolVar(&p.Paused, "paused", false, "Postgres stands still meanwhile")
}

// progress shows how a run goes, a line that is written over. Where w is no terminal
// it shows nothing.
func progress(w io.Writer) func(load.Progress) {
	if f, ok := w.(*os.File); !ok {
		return nil
	} else if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(p load.Progress) {
		fmt.Fprintf(w, "\r%6.0f s  %9d answered  %8.0f/s  p50 %8s  p99 %8s  %d unexpected  %4.0f s left ", p.Elapsed.Seconds(), p.Requests, p.Rate,
			p.P50.Round(10*time.Microsecond), p.P99.Round(10*time.Microsecond), p.Errors, p.Left.Seconds())
	}
}

// runEcho serves echoes until its standard input ends: sweep runs it.
func runEcho(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	f.SetOutput(stderr)
	reply := f.Int("reply", 80, "`bytes` of each reply")
	addr := f.String("listen", "127.0.0.1:0", "`address`")
	dir := f.String("journal", "", "`directory` of a journal: a frame is answered once it is durable; empty for none")
	if err := parse(f, args); err != nil {
		return err
	}
	var log *journal.Journal
	if *dir != "" {
		if err := os.MkdirAll(*dir, 0o700); err != nil {
			return err
		}
		var err error
		if log, err = journal.Open(*dir, journal.Options{}); err != nil {
			return err
		}
		defer log.Close()
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
