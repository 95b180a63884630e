package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"outcry/internal/lab/bench"
	"outcry/internal/lab/failover"
	"outcry/internal/lab/harness"
)

// Plans of the torture run of a cluster. The short one takes about two minutes.
const (
	shortClusterPlan = "kill-leader=2,freeze-leader=1,freeze-both=1,freeze-trading=1,stale=1,alone=1,one-way=1," +
		"flapping=1,hang-leader=1,full-leader=1,lose-disk=1,postgres-away=1,upgrade=1,kill-all=1"
	longClusterPlan = "kill-leader=200,kill-standby=20,freeze-leader=100,freeze-both=10,freeze-trading=5,stale=20," +
		"alone=20,sees-one=20,one-way=20,flapping=10,hang-leader=10,hang-standby=5,full-leader=10,full-standby=5," +
		"lose-disk=5,lose-kill=10,flip-byte=5,remove-add=5,postgres-away=10,upgrade=10,kill-all=10,stop-all=10"
)

// runClusterTorture tortures a cluster of three nodes in separate network namespaces.
func runClusterTorture(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if done, err := harness.Isolate(ctx); done || err != nil {
		return err
	}
	o := failover.Options{Out: stdout}
	f := newFlags("torture -cluster", stderr)
	f.Bool("cluster", true, "three nodes instead of one")
	plan := f.String(
		"plan",
		"short",
		"rounds of each `fault`, as kill-leader=8,alone=2; or \"short\" (about two minutes), or \"long\"",
	)
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	number(f, &o.Clients, "clients", 8, 1, 800, "`connections` that trade in each round")
	f.DurationVar(&o.Load, "load", time.Second, "longest time from the start of a round to its fault")
	f.DurationVar(&o.DownMax, "down", 0, "longest `time` without an answer over a fault that is passed; 0: any")
	f.StringVar(
		&o.Dir,
		"dir",
		"",
		"`directory` for data, logs and programs, which is kept; empty for a temporary one, "+
			"which stays after a failure",
	)
	f.BoolVar(&o.Books, "books", false, "keep local books and private feeds all the time, and hold them against the "+
		"tables after each fault")
	report := f.String("json", "", "`file` for the report")
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest torture -cluster [flags], as root\n\nFaults:")
		all := failover.Faults()
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
	named := map[string]string{"short": shortClusterPlan, "long": longClusterPlan}[*plan]
	if o.Plan, err = failover.ParsePlan(cmp.Or(named, *plan)); err != nil {
		return fmt.Errorf("%w: -plan: %w (-help lists the faults)", errUsage, err)
	}
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	result, err := failover.Run(ctx, o)
	fmt.Fprint(stdout, result.GapsTable())
	fmt.Fprintln(stdout, result.Line())
	if *report != "" {
		err = errors.Join(err, bench.WriteFile(*report, result.WriteJSON))
	}
	return err
}
