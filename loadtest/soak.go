package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"outcry/loadtest/soak"
)

func runSoak(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(stderr)
	o := soak.Options{Progress: progress(stderr), Out: stdout}
	f.DurationVar(&o.Duration, "duration", time.Hour, "how long to trade")
	f.IntVar(&o.Rate, "rate", 0, "frames a second; 0: half of what a short run reaches")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of everything that is drawn")
	f.StringVar(&o.Dir, "dir", "", "`directory` for the data; empty for a temporary one")
	report := f.String("json", "", "`file` that the report is written to")
	if err := parse(f, args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	case o.Duration < 6*time.Second:
		return fmt.Errorf("%w: -duration %s: must be at least 6s", errUsage, o.Duration)
	case o.Rate < 0 || o.Rate > 10_000_000:
		return fmt.Errorf("%w: -rate %d: must be from 0 to 10000000", errUsage, o.Rate)
	}
	r, err := soak.Run(ctx, o)
	if err != nil {
		return err
	}
	writeSoak(stdout, r)
	if *report != "" {
		if err := writeReport(*report, r); err != nil {
			return err
		}
	}
	if len(r.Findings) > 0 {
		return fmt.Errorf("%s", r.Findings[0])
	}
	fmt.Fprintf(stdout, "PASS: %d frames in %s, flat, and the exchange agrees; seed %d\n", r.Requests, o.Duration, o.Seed)
	return nil
}

// writeSoak writes about a dozen of the samples.
func writeSoak(w io.Writer, r *soak.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintln(t, "\nsecond\tanswered\tp50 ms\tp99 ms\tlongest ms\tserver MB\tfiles\tgoroutines\topen orders\tlag\t")
	step := max(len(r.Samples)/12, 1)
	for i := 0; i < len(r.Samples); i += step {
		s := r.Samples[i]
		fmt.Fprintf(t, "%.0f\t%d\t%.2f\t%.2f\t%.1f\t%.0f\t%d\t%.0f\t%.0f\t%.0f\t\n", s.Second, s.Requests, s.P50, s.P99, s.Max,
			float64(s.Resident)/(1<<20), s.Files, s.Goroutines, s.OpenOrders, s.Lag)
	}
}
