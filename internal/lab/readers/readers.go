// Package readers measures how much readers of market data over WebSocket, and idle connections, cost the
// server: processor time an order at a fixed rate, alternating with no readers on one exchange. It also
// checks that a reader that stops reading is disconnected with a reason, while the server's memory stays
// bounded.
package readers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/bench"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
	"outcry/internal/lab/vegeta"
)

// Options configure a run.
type Options struct {
	Rounds   int           // rounds of each kind
	Duration time.Duration // duration of each round
	Rate     int           // frames a second
	Clients  int           // number of clients that trade
	Symbols  int           // number of symbols traded
	Readers  int           // number of readers, each of one symbol
	Channels []string      // channels of each reader; SYM is replaced by the reader's symbol
	Idle     int           // number of idle connections
	Seed     uint64
	Out      io.Writer
}

// Upper bounds for the cost of readers and idle connections, relative to the cost of an order without them.
const (
	ReadersMost = 0.10
	IdleMost    = 0.05
)

const (
	filesReserve   = 1000
	catchUpTimeout = 2 * time.Minute
	// slowMemoryMost is how much the server's memory may grow because of a reader that stops reading: its
	// queue, and normal variation.
	slowMemoryMost = 64 << 20
)

// kind is the kind of additional connections during a round.
type kind int

const (
	none kind = iota
	reading
	idle
	kinds
)

var names = [kinds]string{"none", "readers", "idle"}

// Report is the result of a run.
type Report struct {
	Options
	// Micros is the server's processor time an order in each round, in microseconds.
	Micros   [kinds][]float64
	Messages uint64 // received by all readers
	IdleKiB  int64  // largest memory growth for each idle connection
	Slow     string // the reason that the slow reader received
}

// Cost returns how much more an order costs with a kind of connections than without, relative to the cost
// without. It compares medians.
func (r *Report) Cost(k kind) float64 { return median(r.Micros[k])/median(r.Micros[none]) - 1 }

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Write writes the report, with a line for each kind.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "%d orders a second, %d symbols, %d rounds of %s; the server's processor time an order\n",
		r.Rate, r.Symbols, r.Rounds, r.Duration)
	fmt.Fprintf(w, "%-40s %7.2f µs %s\n", "none", median(r.Micros[none]), spread(r.Micros[none]))
	for _, one := range []struct {
		k    kind
		what string
		most float64
	}{{reading, fmt.Sprintf("%d readers of %s", r.Readers, strings.Join(r.Channels, ", ")), ReadersMost},
		{idle, fmt.Sprintf("%d idle connections", r.Idle), IdleMost}} {
		cost, verdict := r.Cost(one.k), "within"
		if cost > one.most {
			verdict = "MORE THAN"
		}
		fmt.Fprintf(w, "%-40s %7.2f µs %s  %+.1f %%: %s %.0f %%\n", one.what, median(r.Micros[one.k]),
			spread(r.Micros[one.k]), 100*cost, verdict, 100*one.most)
	}
	fmt.Fprintf(w, "an idle connection took up to %d KiB; readers received %d messages\n", r.IdleKiB, r.Messages)
	fmt.Fprintf(w, "the stalled reader was disconnected: %s\n", r.Slow)
}

// spread formats the minimum and maximum of a list.
func spread(of []float64) string { return fmt.Sprintf("(%.2f–%.2f)", slices.Min(of), slices.Max(of)) }

// run is a run in progress.
type run struct {
	*harness.Exchange
	Report
	trading  *scenario.Run
	scenario scenario.Scenario
}

// Run measures all kinds. It returns an error if an operation failed or a connection ended unexpectedly.
func Run(ctx context.Context, o Options) (*Report, error) {
	dir, err := os.MkdirTemp("", "outcry-readers-")
	if err != nil {
		return nil, fmt.Errorf("readers: %w", err)
	}
	defer harness.RemoveAll(dir)
	programs, err := bench.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	most := max(o.Readers, o.Idle) + o.Clients + filesReserve
	e, err := harness.StartExchange(ctx, dir, harness.ServerOptions{Program: programs.Server,
		Flags: []string{fmt.Sprintf("--max-connections=%d", most)}})
	if err != nil {
		return nil, err
	}
	defer e.End()
	r := &run{Exchange: e, Report: Report{Options: o}}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		for n := range kinds {
			if err := r.measure(ctx, (n+kind(round))%kinds); err != nil {
				return nil, err
			}
		}
	}
	if err := r.standStill(ctx); err != nil {
		return nil, err
	}
	return &r.Report, nil
}

// prepare makes the market, and trades once as a warm-up.
func (r *run) prepare(ctx context.Context) error {
	var found bool
	if r.scenario, found = scenario.Find("steady"); !found {
		return errors.New("readers: unknown scenario steady")
	}
	params := r.scenario.Defaults
	params.Clients, params.Accounts, params.Symbols = r.Clients, r.Clients, r.Symbols
	params.Rate, params.Duration = r.Rate, r.Duration
	r.trading = &scenario.Run{Addrs: []string{r.XML}, Seed: r.Seed, Params: params, Open: vegeta.Open(nil)}
	if err := r.scenario.Prepare(ctx, r.trading); err != nil {
		return err
	}
	_, err := r.trade(ctx)
	return err
}

// trade trades for one duration and returns the server's processor time an order in microseconds,
// including the server's later work for Postgres.
func (r *run) trade(ctx context.Context) (micros float64, err error) {
	before, err := r.Usage()
	if err != nil {
		return 0, err
	}
	r.trading.Seed++
	result, err := r.scenario.Measure(ctx, r.trading)
	if err != nil {
		return 0, err
	}
	if result.Errors > 0 {
		return 0, fmt.Errorf("readers: %d unexpected replies, for example: %s", result.Errors, result.Examples[0])
	}
	if err := r.CatchUp(ctx, catchUpTimeout); err != nil {
		return 0, err
	}
	after, err := r.Usage()
	if err != nil {
		return 0, err
	}
	return (after.CPU - before.CPU).Seconds() * 1e6 / float64(max(result.Requests, 1)), nil
}

// measure trades with the connections of a kind.
func (r *run) measure(ctx context.Context, k kind) error {
	n, first := 0, func(int) string { return "" }
	switch k {
	case reading:
		n, first = r.Readers, r.subscribes
	case idle:
		n = r.Idle
	}
	before, err := r.Usage()
	if err != nil {
		return err
	}
	sockets, err := load.OpenSockets(ctx, r.HTTP, n, first)
	if err != nil {
		return err
	}
	defer sockets.Leave()
	opened, err := r.Usage()
	if err != nil {
		return err
	}
	if k == idle {
		r.IdleKiB = max(r.IdleKiB, (opened.Resident-before.Resident)/int64(n)>>10)
	}
	micros, err := r.trade(ctx)
	if err != nil {
		return err
	}
	messages, ended := sockets.Received()
	if ended > 0 {
		return fmt.Errorf("readers: the server has ended %d of %d connections", ended, n)
	}
	if k == reading {
		if messages < uint64(n) {
			return fmt.Errorf("readers: %d readers received %d messages", n, messages)
		}
		r.Messages += messages
	}
	r.Micros[k] = append(r.Micros[k], micros)
	fmt.Fprintf(r.Out, "%-8s %7.2f µs an order\n", names[k], micros)
	sockets.Leave()
	return r.awaitNone(ctx)
}

// awaitNone waits until the server has ended all WebSocket connections, so that their end is not counted
// in the next round.
func (r *run) awaitNone(ctx context.Context) error {
	for {
		open, err := r.Metric(ctx, "outcry_websocket_connections")
		if err != nil || open == 0 {
			return err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subscribes returns the subscription request of a reader.
func (r *run) subscribes(reader int) string {
	var channels []string
	for _, c := range r.Channels {
		channels = append(channels, `"`+strings.ReplaceAll(c, "SYM", fmt.Sprintf("SYM%d", reader%r.Symbols))+`"`)
	}
	return `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channels":[` + strings.Join(channels, ",") + `]}}`
}

// codeTooSlow is the close code for a reader that is too slow.
const codeTooSlow = 4008

// standStill checks that a reader of channels that may not skip messages is disconnected if it stops
// reading while the market trades.
func (r *run) standStill(ctx context.Context) error {
	before, err := r.Usage()
	if err != nil {
		return err
	}
	var channels []string
	for n := range min(r.Symbols, 50) {
		channels = append(channels, fmt.Sprintf(`"orders.SYM%d","trades.SYM%d"`, n, n))
	}
	slow, err := load.DialSocket(ctx, r.HTTP, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channels":[`+
		strings.Join(channels, ",")+`]}}`)
	if err != nil {
		return err
	}
	defer slow.Close()
	cut := make(chan error, 1)
	go func() { cut <- r.awaitCut(ctx, slow) }()
	for {
		if _, err := r.trade(ctx); err != nil {
			return err
		}
		select {
		case err := <-cut:
			return errors.Join(err, r.grownSince(before))
		default:
		}
	}
}

// grownSince returns an error if the server's memory has grown by more than slowMemoryMost.
func (r *run) grownSince(before harness.Usage) error {
	after, err := r.Usage()
	if err != nil {
		return err
	}
	if grown := after.Resident - before.Resident; grown > slowMemoryMost {
		return fmt.Errorf("readers: a reader that stopped reading has cost %d bytes", grown)
	}
	return nil
}

// lookEvery is how often the server's metrics are polled. A disconnected reader has ten seconds to read
// the reason.
const lookEvery = 100 * time.Millisecond

// awaitCut waits until a reader was disconnected, and only then reads the reason.
func (r *run) awaitCut(ctx context.Context, slow *load.Socket) error {
	for {
		cut, err := r.Metric(ctx, "outcry_websocket_cut_total")
		if err != nil {
			return err
		}
		if cut > 0 {
			break
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	code, reason, err := slow.Closing()
	if err != nil {
		return fmt.Errorf("readers: the reader that stopped reading got no reason for its disconnect: %w", err)
	}
	if code != codeTooSlow || !strings.HasPrefix(reason, "too slow: ") {
		return fmt.Errorf("readers: the stalled reader was disconnected with %d %q", code, reason)
	}
	r.Slow = reason
	return nil
}
