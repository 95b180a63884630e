package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"outcry/loadtest/torture"
)

// Plans of the torture run. The short one takes about a minute.
const (
	shortPlan = "kill=5,kill-behind=1,stop=1,restart=1,both-kill=2,postgres-kill=2,postgres-freeze=1," +
		"postgres-restart=1,postgres-slow=1,postgres-cut=1,clock=1,abuse=1"
	longPlan = "kill=185,kill-behind=15,stop=25,restart=25,both-kill=50,postgres-kill=50,postgres-freeze=15," +
		"postgres-restart=15,postgres-slow=15,postgres-cut=15,clock=15,abuse=2"
)

func runTorture(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := torture.Options{Out: stdout}
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.SetOutput(stderr)
	plan := f.String("plan", "short", "rounds of each `fault`, as kill=8,stop=2; abuse=1 is one of each whose name "+
		"begins so; or \"short\" (about a minute), or \"long\", which is -large")
	f.BoolVar(&o.Large, "large", false, "abuse with the size of a real attack: minutes, and gigabytes of memory and disk")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	f.IntVar(&o.Clients, "clients", 12, "`connections` that trade in each round")
	f.DurationVar(&o.Load, "load", time.Second, "longest time from the start of a round to its fault")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data, logs and programs, which stays; empty for a temporary one, "+
		"which stays after a failure")
	report := f.String("json", "", "`file` that the report is written to")
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest torture [flags]\n\nFaults:")
		all := torture.Faults()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(stderr, "  %-17s %s\n", name, all[name])
		}
		fmt.Fprintln(stderr, "\nFlags:")
		f.PrintDefaults()
	}
	if err := parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	if o.Clients < 1 || o.Clients > 800 {
		return fmt.Errorf("%w: -clients %d: must be from 1 to 800", errUsage, o.Clients)
	}
	var err error
	if o.Plan, err = parsePlan(*plan); err != nil {
		return err
	}
	o.Large = o.Large || *plan == "long"
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	result, err := torture.Run(ctx, o)
	if *report != "" {
		if reportErr := writeTo(*report, result.WriteJSON); reportErr != nil {
			return reportErr
		}
	}
	if err != nil {
		fmt.Fprintln(stdout, result.Line())
		return err
	}
	fmt.Fprintln(stdout, result.Line())
	return nil
}

// parsePlan reads a plan that may also be the name of one.
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
