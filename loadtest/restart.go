package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"outcry/loadtest/torture"
)

// downMax is the longest that clients may be without an answer over a restart.
const downMax = time.Second

// errDown says that a restart took too long.
var errDown = errors.New("a restart took too long")

func runRestart(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := torture.Options{Out: stdout}
	f := flag.NewFlagSet("restart", flag.ContinueOnError)
	f.SetOutput(stderr)
	restarts := f.Int("restarts", 10, "how often the server is stopped and started again")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	f.IntVar(&o.Clients, "clients", 12, "`connections` that trade, and connect again")
	f.DurationVar(&o.Load, "load", time.Second, "longest time between a start and the next stop")
	f.IntVar(&o.Resting, "resting", 0, "`orders` that rest in the books from the begin on")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data, logs and programs, which stays; empty for a temporary one, "+
		"which stays after a failure")
	most := f.Duration("max", downMax, "longest `time` without an answer that is passed")
	report := f.String("json", "", "`file` that the report is written to")
	if err := parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	if *restarts < 1 || o.Clients < 1 || o.Clients > 800 || o.Resting < 0 || o.Resting > 10_000_000 {
		return fmt.Errorf("%w: -restarts must be at least 1, -clients from 1 to 800, -resting from 0 to 10,000,000", errUsage)
	}
	o.Plan = map[string]int{"restart": *restarts}
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	result, err := torture.Run(ctx, o)
	if *report != "" {
		if reportErr := writeTo(*report, result.WriteJSON); reportErr != nil {
			return reportErr
		}
	}
	worst := 0.0
	for n, r := range result.Restarts {
		fmt.Fprintf(stdout, "restart %2d: %.3f s without an answer; %.3f s to stop, %.3f s to start\n",
			n+1, r.Down, r.Stop, r.Start)
		worst = max(worst, r.Down)
	}
	fmt.Fprintln(stdout, result.Line())
	if err == nil && worst >= most.Seconds() {
		return fmt.Errorf("%w: %.3f s without an answer, %s are allowed", errDown, worst, *most)
	}
	return err
}
