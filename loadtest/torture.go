package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/bench"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/mutation"
	"outcry/internal/lab/torture"
)

func runTorture(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	kind, title := torture.Server, "Usage: go run ./loadtest torture [flags]"
	cluster := slices.Contains(args, "-cluster") || slices.Contains(args, "--cluster")
	if cluster {
		kind, title = torture.Cluster, "Usage: go run ./loadtest torture -cluster [flags], as root"
		if done, err := harness.Isolate(ctx); done || err != nil {
			return err
		}
	}
	o := torture.Options{Out: stdout}
	f := newFlags("torture", stderr)
	f.Bool("cluster", cluster, "three nodes instead of one")
	var plan *string
	if cluster {
		plan = clusterFlags(f, &o)
	} else {
		plan = serverFlags(f, &o)
	}
	f.DurationVar(&o.Load, "load", time.Second, "longest time from the start of a round to its fault")
	finish := commonFlags(f, &o, stdout)
	f.Usage = func() {
		fmt.Fprintf(stderr, "%s\n\nFaults:\n", title)
		all := kind.Faults()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(stderr, "  %-17s %s\n", name, all[name])
		}
		fmt.Fprintln(stderr, "\nFlags:")
		f.PrintDefaults()
	}
	err := parse(f, args, 0)
	if err != nil {
		return err
	}
	if o.Plan, err = kind.ParsePlan(*plan); err != nil {
		return fmt.Errorf("%w: -plan: %w (-help lists the faults)", errUsage, err)
	}
	o.Large = o.Large || *plan == "long" && !cluster
	return finish(ctx, kind)
}

// serverFlags declares the flags of the torture of one server.
func serverFlags(f *flag.FlagSet, o *torture.Options) (plan *string) {
	plan = f.String("plan", "short", "rounds of each `fault`, as kill=8,stop=2; abuse=1 is one of each whose name "+
		"begins with it; or \"short\" (about a minute), or \"long\", which is -large")
	f.BoolVar(&o.Large, "large", false, "abuse with the size of a real attack: minutes, and gigabytes of memory and disk")
	number(f, &o.Clients, "clients", 12, 1, 800, "`connections` that trade in each round")
	number(f, &o.Resting, "resting", 0, 0, 10_000_000, "`orders` that rest in the books from the start")
	f.DurationVar(&o.DownMax, "down", 0, "longest `time` without an answer that a restart may cause; 0: no limit")
	return plan
}

// clusterFlags declares the flags of the torture of a cluster.
func clusterFlags(f *flag.FlagSet, o *torture.Options) (plan *string) {
	plan = f.String("plan", "short",
		"rounds of each `fault`, as kill-leader=8,alone=2; or \"short\" (about two minutes), or \"long\"")
	number(f, &o.Clients, "clients", 8, 1, 800, "`connections` that trade in each round")
	f.DurationVar(&o.DownMax, "down", 0, "longest `time` without an answer that a fault may cause; 0: no limit")
	f.BoolVar(&o.Books, "books", false, "keep local books and private feeds all the time, and compare them with the "+
		"tables after each fault")
	return plan
}

// commonFlags declares the flags of every torture. finish runs the torture, prints the result, and writes the
// report.
func commonFlags(f *flag.FlagSet, o *torture.Options, stdout io.Writer) (
	finish func(context.Context, *torture.Kind) error) {
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data, logs and programs, which is kept; empty for a temporary one, "+
		"which stays after a failure")
	report := f.String("json", "", "`file` for the report")
	return func(ctx context.Context, kind *torture.Kind) error {
		fmt.Fprintf(stdout, "seed %d\n", o.Seed)
		result, err := torture.Run(ctx, kind, *o)
		fmt.Fprint(stdout, result.GapsTable())
		fmt.Fprintln(stdout, result.Line())
		if *report != "" {
			err = errors.Join(err, bench.WriteFile(*report, result.WriteJSON))
		}
		return err
	}
}

// runBooks checks that local books and private feeds agree with the exchange.
func runBooks(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := torture.Options{Out: stdout}
	f := newFlags("books", stderr)
	f.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long to trade")
	number(f, &o.Kills, "kills", 10, 0, 1000, "`times` that the exchange is killed under load")
	number(f, &o.Clients, "clients", 32, 1, 1000, "`connections` that trade")
	number(f, &o.Rate, "rate", 500, 0, 1_000_000, "`frames` a second of all of them together; 0: as many as possible")
	number(f, &o.SymbolsTraded, "symbols", 10, 1, 100, "`symbols` that are traded")
	number(f, &o.Watched, "watched", 4, 1, 100, "`accounts` whose private events are followed")
	f.DurationVar(&o.Break, "break", 3*time.Second, "mean `time` after which a reader reconnects; 0 for never")
	finish := commonFlags(f, &o, stdout)
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if least := time.Duration(o.Kills+1) * time.Second; o.Duration < least {
		return fmt.Errorf("%w: -duration %s: must be at least %s with %d kills", errUsage, o.Duration, least, o.Kills)
	}
	return finish(ctx, torture.Readers)
}

func runMutation(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("mutation", stderr)
	seed := f.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the torture runs")
	verbose := f.Bool("v", false, "show the rounds of the torture runs")
	all, err := mutation.All()
	if err != nil {
		return err
	}
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest mutation [flags] [mutation …]\n\nMutations, all unless named:")
		for _, m := range all {
			fmt.Fprintf(stderr, "  %-22s %s\n", m.Name, m.Promise)
		}
		fmt.Fprintln(stderr, "\nFlags:")
		f.PrintDefaults()
	}
	if err := parse(f, args, math.MaxInt); err != nil {
		return err
	}
	for _, name := range f.Args() {
		if !slices.ContainsFunc(all, func(m mutation.Mutation) bool { return m.Name == name }) {
			return fmt.Errorf("%w: unknown mutation %q (-help lists them)", errUsage, name)
		}
	}
	if slices.ContainsFunc(all, func(m mutation.Mutation) bool {
		return m.Cluster() && (f.NArg() == 0 || slices.Contains(f.Args(), m.Name))
	}) {
		if done, err := harness.Isolate(ctx); done || err != nil {
			return err
		}
	}
	rounds := io.Discard
	if *verbose {
		rounds = stdout
	}
	fmt.Fprintf(stdout, "seed %d\n", *seed)
	tried, missed := 0, error(nil)
	for _, m := range all {
		if ctx.Err() != nil || f.NArg() > 0 && !slices.Contains(f.Args(), m.Name) {
			continue
		}
		tried++
		caught, err := m.Try(ctx, *seed, rounds)
		if err != nil {
			missed = errors.Join(missed, err)
			caught = err.Error()
		}
		fmt.Fprintf(stdout, "%-22s %s\n", m.Name, strings.ReplaceAll(caught, "\n", " "))
	}
	if err := errors.Join(missed, ctx.Err()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "PASS: %d mutations, each caught\n", tried)
	return nil
}
