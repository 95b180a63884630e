package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"outcry/internal/lab/bench"
	"outcry/internal/lab/books"
)

// runBooks checks that local books and private feeds agree with the exchange.
func runBooks(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := books.RunOptions{Out: stdout}
	f := newFlags("books", stderr)
	f.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long to trade")
	number(f, &o.Kills, "kills", 10, 0, 1000, "`times` that the exchange is killed under load")
	number(f, &o.Clients, "clients", 32, 1, 1000, "`connections` that trade")
	number(f, &o.Rate, "rate", 500, 0, 1_000_000, "`frames` a second of all of them together; 0: as many as possible")
	number(f, &o.Symbols, "symbols", 10, 1, 100, "`symbols` that are traded")
	number(f, &o.Watched, "watched", 4, 1, 100, "`accounts` whose private events are followed")
	f.DurationVar(&o.Break, "break", 3*time.Second, "mean `time` after which a reader reconnects; 0 for never")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data, logs and programs, which is kept; empty for a temporary one, "+
		"which stays after a failure")
	report := f.String("json", "", "`file` for the report")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if least := time.Duration(o.Kills+1) * time.Second; o.Duration < least {
		return fmt.Errorf("%w: -duration %s: must be at least %s with %d kills", errUsage, o.Duration, least, o.Kills)
	}
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	result, err := books.Run(ctx, o)
	fmt.Fprintln(stdout, result.Line())
	if *report != "" {
		err = errors.Join(err, bench.WriteFile(*report, result.WriteJSON))
	}
	return err
}
