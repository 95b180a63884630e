package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"outcry/internal/lab/readers"
)

// runReaders measures the cost of WebSocket readers.
func runReaders(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := readers.Options{Out: stdout}
	f := newFlags("readers", stderr)
	number(f, &o.Rounds, "rounds", 5, 1, 1000, "how often each is measured")
	f.DurationVar(&o.Duration, "duration", 5*time.Second, "how long each is measured")
	number(f, &o.Rate, "rate", 10_000, 1, 10_000_000, "`frames` a second, of one order or cancel each")
	number(f, &o.Clients, "clients", 64, 1, 1000, "`connections` that trade")
	number(f, &o.Symbols, "symbols", 100, 1, 1000, "`symbols` that are traded")
	number(f, &o.Readers, "readers", 1000, 1, 15_000, "`readers`, each of one symbol")
	number(f, &o.Idle, "idle", 10_000, 1, 15_000, "idle `connections`")
	channels := f.String("channels", "book.SYM.100ms",
		"`channels` that each reader has, with commas between them; SYM is its symbol")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if o.Duration < time.Second {
		return fmt.Errorf("%w: -duration %s: must be at least 1s", errUsage, o.Duration)
	}
	o.Channels = strings.Split(*channels, ",")
	fmt.Fprintf(stdout, "seed %d\n", o.Seed)
	report, err := readers.Run(ctx, o)
	if err != nil {
		return err
	}
	report.Write(stdout)
	return nil
}
