package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"outcry/loadtest/torture"
)

// Plans of the torture run. The short one takes about a minute.
const (
	shortPlan = "kill=8,kill-behind=2,stop=2,restart=2,both-kill=3,postgres-kill=3,postgres-freeze=1,postgres-restart=2,postgres-slow=1,postgres-cut=2,clock=2"
	longPlan  = "kill=185,kill-behind=15,stop=25,restart=25,both-kill=50,postgres-kill=50,postgres-freeze=15,postgres-restart=15,postgres-slow=15,postgres-cut=15,clock=15"
)

func runTorture(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := torture.Options{Out: stdout}
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.SetOutput(stderr)
	plan := f.String("plan", "short", "rounds of each `fault`, as kill=8,stop=2; or \"short\" (about a minute), or \"long\"")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	f.IntVar(&o.Clients, "clients", 12, "`connections` that trade in each round")
	f.DurationVar(&o.Load, "load", time.Second, "longest time from the start of a round to its fault")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data, logs and programs, which stays; empty for a temporary one, which stays after a failure")
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
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	result, err := torture.Run(ctx, o)
	if *report != "" {
		if reportErr := writeReport(*report, result); reportErr != nil {
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

// parsePlan reads fault=rounds, comma-separated.
func parsePlan(plan string) (map[string]int, error) {
	switch plan {
	case "short":
		plan = shortPlan
	case "long":
		plan = longPlan
	}
	rounds := map[string]int{}
	for part := range strings.SplitSeq(plan, ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		if _, known := torture.Faults()[name]; !known || err != nil || n < 0 {
			return nil, fmt.Errorf("%w: -plan: %q is not fault=rounds (-help lists the faults)", errUsage, part)
		}
		rounds[name] += n
	}
	return rounds, nil
}

// writer is a report.
type writer interface{ WriteJSON(io.Writer) error }

func writeReport(path string, r writer) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := r.WriteJSON(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
