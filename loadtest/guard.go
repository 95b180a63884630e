package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"outcry/internal/lab/guard"
)

// runGuard compares the cost of an order with that of an earlier revision.
func runGuard(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := guard.Options{Out: stderr, Command: "go run ./loadtest guard " + strings.Join(args, " ")}
	f := newFlags("guard", stderr)
	f.StringVar(&o.Base, "base", guard.Recorded, "`revision` to compare the working tree with")
	number(f, &o.Rounds, "n", 5, 1, 100, "`rounds`: how often each load is measured on each program")
	f.DurationVar(&o.Duration, "d", 4*time.Second, "how `long` each measurement is")
	data := f.String("data", "", "`file` for the results, as JSON")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if o.Duration < 100*time.Millisecond || o.Duration > 10*time.Minute {
		return fmt.Errorf("%w: -d %s: must be from 100ms to 10m", errUsage, o.Duration)
	}
	r, err := guard.Run(ctx, o)
	if errors.Is(err, guard.ErrNoHistory) {
		fmt.Fprintf(stdout, "SKIPPED, nothing was measured: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	r.Write(stdout)
	return writeData(*data, r)
}
