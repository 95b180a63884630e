package main

import (
	"context"
	"errors"
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

// Plans of the torture run. The short one takes about a minute.
const (
	shortPlan = "kill=5,kill-behind=1,stop=1,restart=1,both-kill=2,postgres-kill=2,postgres-freeze=1," +
		"postgres-restart=1,postgres-slow=1,postgres-cut=1,clock=1,abuse=1"
	longPlan = "kill=185,kill-behind=15,stop=25,restart=25,both-kill=50,postgres-kill=50,postgres-freeze=15," +
		"postgres-restart=15,postgres-slow=15,postgres-cut=15,clock=15,abuse=2"
)

func runTorture(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if slices.Contains(args, "-cluster") || slices.Contains(args, "--cluster") {
		return runClusterTorture(ctx, args, stdout, stderr)
	}
	o := torture.Options{Out: stdout}
	f := newFlags("torture", stderr)
	plan := f.String("plan", "short", "rounds of each `fault`, as kill=8,stop=2; abuse=1 is one of each whose name "+
		"begins so; or \"short\" (about a minute), or \"long\", which is -large")
	f.BoolVar(&o.Large, "large", false, "abuse with the size of a real attack: minutes, and gigabytes of memory and disk")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	number(f, &o.Clients, "clients", 12, 1, 800, "`connections` that trade in each round")
	number(f, &o.Resting, "resting", 0, 0, 10_000_000, "`orders` that rest in the books from the begin on")
	f.DurationVar(&o.Load, "load", time.Second, "longest time from the start of a round to its fault")
	f.DurationVar(&o.DownMax, "down", 0, "longest `time` without an answer over a restart that is passed; 0: any")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data, logs and programs, which is kept; empty for a temporary one, "+
		"which stays after a failure")
	report := f.String("json", "", "`file` for the report")
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest torture [flags]\n\nFaults:")
		all := torture.Faults()
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
	if o.Plan, err = parsePlan(*plan); err != nil {
		return err
	}
	o.Large = o.Large || *plan == "long"
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	result, err := torture.Run(ctx, o)
	fmt.Fprintln(stdout, result.Line())
	if *report != "" {
		err = errors.Join(err, bench.WriteFile(*report, result.WriteJSON))
	}
	return err
}

// parsePlan parses a plan, which may also be given by name.
func parsePlan(plan string) (map[string]int, error) {
	switch plan {
	case "short":
		plan = shortPlan
	case "long":
		plan = longPlan
	}
	rounds, err := torture.ParsePlan(plan)
	if err != nil {
		return nil, fmt.Errorf("%w: -plan: %w (-help lists the faults)", errUsage, err)
	}
	return rounds, nil
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
