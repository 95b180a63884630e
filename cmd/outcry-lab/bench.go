package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	measure "outcry/internal/lab/load"
)

const benchText = `Opens accounts of its own and trades between them: a buy and a sell of one share in turn. They
and their symbols stay.

Of an exchange with refs, as Outcry is, it asks for every order afterwards by its ref: none may be
lost, and none done twice. Orders that broken connections leave without a reply are sent again
under their ref, at another address of --addr if that takes orders now. The longest gap is the
longest time without a reply to anybody. At a low --rate it is at least the time between two orders.

Any other server of the protocol gets orders without refs, each in a frame of its own, in the
server's habits: it may close after a reply, send none or a wrong length, want CR LF or the
attribute account. These are found by probing, unless --profile says them. Afterwards up to
10,000 orders are asked for. With --experiment it is sent what an earlier system of the protocol was
measured with; the first line of the result says what a request is then. With --beside the same load
goes in turns to that server, to an Outcry that is started for it, and to a server that only echoes.

The exit status is 1 if an order is lost, doubled, refused or left without a reply.`

// Bounds of a run's options.
const (
	benchDurationMax    = time.Hour
	benchConnectionsMax = 1000
	benchDepthMax       = 1000
	benchRateMax        = 1_000_000
	benchSymbolsMax     = 1000
	benchRoundsMax      = 100
)

// benching holds the flags of the command bench run.
type benching struct {
	measure.Trading
	noRefs, beside, asJSON bool
	depthGiven             bool
	profile                string // path of the server's profile
	rounds                 int
	program                string // path of the outcryd to measure beside the server

	experiment       string // name of the experiment; "" to place orders
	connectionsGiven bool
	requests         int // requests of each connection in an experiment; 0 for the published number
}

// prepareBench declares the flags of the command bench run and returns what runs it.
func prepareBench(f *flag.FlagSet, c *cli.Client) func([]string) error {
	o := benching{}
	f.IntVar(&o.Connections, "connections", 4, "connections at once")
	f.IntVar(&o.Depth, "depth", 8, "orders under way on each connection; without refs it is 1 unless it is given")
	f.IntVar(&o.Rate, "rate", 0, "`orders` a second of all connections together; 0 is as many as possible")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long orders are sent")
	f.IntVar(&o.Orders, "orders", 1_000_000, "orders that are sent at the most")
	f.IntVar(&o.Symbols, "symbols", 4, "symbols that are traded")
	f.StringVar(&o.Accounts, "accounts", "009",
		"`digits` that the ids of its accounts with refs begin with; runs at the same time need different ones")
	f.BoolVar(&o.noRefs, "no-refs", false, "send orders without refs, as to a server that has none")
	f.StringVar(&o.profile, "profile", "", "`file` with a profile of outcry-lab grade, whose habits are not probed")
	f.BoolVar(&o.beside, "beside", false, "measure an Outcry and an echo server beside it, without refs")
	f.IntVar(&o.rounds, "rounds", 3, "how often each server has its turn with --beside")
	f.StringVar(&o.program, "outcryd", "", "`program` of the Outcry beside; the outcryd beside outcry if left out")
	f.StringVar(&o.experiment, "experiment", "", "`name` of an experiment of an earlier system, instead of orders: "+
		strings.Join(experimentNames(), ", "))
	f.IntVar(&o.requests, "requests", 0, "requests of each connection in an experiment; 0 for as many as there were")
	f.BoolVar(&o.asJSON, "json", false, "print the result as JSON")
	return func([]string) error {
		o.depthGiven, o.connectionsGiven = cli.IsGiven(f, "depth"), cli.IsGiven(f, "connections")
		if err := o.check(); err != nil {
			return err
		}
		return runBench(c, &o)
	}
}

// prepareBenchEcho declares the flags of the command bench echo and returns what runs it.
func prepareBenchEcho(f *flag.FlagSet, c *cli.Client) func([]string) error {
	reply := f.Int("reply", 80, "`bytes` of each reply")
	addr := f.String("listen", "127.0.0.1:0", "`address` that it listens on")
	return func([]string) error {
		if *reply < 0 || *reply > measure.EchoBytesMax {
			return cli.Usage(fmt.Sprintf("--reply %d: must be from 0 to %d", *reply, measure.EchoBytesMax))
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		return measure.ServeEcho(ctx, *addr, *reply, nil, c.Stdin, c.Stdout)
	}
}

// check returns a *cli.UsageError that names the first invalid value.
func (o *benching) check() error {
	for _, n := range []struct {
		name              string
		value, least, top int
	}{
		{"connections", o.Connections, 1, benchConnectionsMax}, {"depth", o.Depth, 1, benchDepthMax},
		{"rate", o.Rate, 0, benchRateMax}, {"orders", o.Orders, 1, measure.OrdersMax},
		{"symbols", o.Symbols, 1, benchSymbolsMax}, {"rounds", o.rounds, 1, benchRoundsMax},
	} {
		if n.value < n.least || n.value > n.top {
			return cli.Usage(fmt.Sprintf("--%s %d: must be from %d to %d", n.name, n.value, n.least, n.top))
		}
	}
	if o.experiment != "" {
		if err := o.checkExperiment(); err != nil {
			return err
		}
	}
	if o.Duration <= 0 || o.Duration > benchDurationMax {
		return cli.Usage(fmt.Sprintf("--duration %s: must be more than 0, and at most %s", o.Duration, benchDurationMax))
	}
	if !cli.IsDigits(o.Accounts) || len(o.Accounts) > 50 {
		return cli.Usage(fmt.Sprintf("--accounts %.60q: must be 1 to 50 digits", o.Accounts))
	}
	return nil
}

// benchResult is the JSON output of a run with refs. Times are in milliseconds.
type benchResult struct {
	measure.Summary
	Refused    uint64  `json:"rejected"`
	Unanswered uint64  `json:"unanswered"`
	GapMS      float64 `json:"longest_gap_ms"`
	GapAtMS    float64 `json:"longest_gap_at_ms"` // since the start of the run
	Failovers  uint64  `json:"failovers"`
	Reconnects uint64  `json:"reconnects"`
	SentAgain  uint64  `json:"sent_again"`
	Asked      uint64  `json:"asked"`
	Done       uint64  `json:"unanswered_done"`
	Lost       uint64  `json:"lost"`
	Doubled    uint64  `json:"doubled"`
	Others     uint64  `json:"numbers_of_others"`
}

// runBench runs the command bench run.
func runBench(c *cli.Client, o *benching) error {
	if err := c.Access.CheckTimeout(); err != nil {
		return err
	}
	how, err := c.Access.Options()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	how.Log = slog.New(slog.DiscardHandler) // the result counts broken connections
	p := &plainBench{benching: o, addrs: strings.Split(c.Access.Addr, ","), how: how, first: firstAccount(time.Now())}
	if o.experiment != "" {
		p.first = firstOfExperiment(time.Now())
	}
	plain, err := p.find(ctx)
	if err != nil {
		return err
	}
	if plain {
		return p.run(ctx, c)
	}
	return benchRefs(c, ctx, o.Trading, how, o.asJSON)
}

// benchRefs measures an exchange with orders that have refs.
func benchRefs(c *cli.Client, ctx context.Context, o measure.Trading, how api.Options, asJSON bool) error {
	o.Addr, o.Client, o.Run = c.Access.Addr, how, strings.ToLower(rand.Text()[:10])
	o.Client.Depth = o.Depth
	r, err := measure.Trade(ctx, o)
	if r == nil {
		return err
	}
	if asJSON {
		printJSON(c.Stdout, benchResult{r.Summary(), r.Refused, r.Unanswered, measure.Millis(r.Longest.Length),
			measure.Millis(r.Longest.From), r.Failovers, r.Reconnects, r.SentAgain, r.Asked, r.Done, r.Lost,
			r.Doubled, r.Others})
	} else {
		printBench(c.Stdout, r)
	}
	switch {
	case err != nil:
		return err
	case r.Lost+r.Doubled+r.Unanswered > 0:
		return cli.ErrBad
	}
	return nil
}

func printJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}

// printBench prints the result as text.
func printBench(stdout io.Writer, r *measure.Traded) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	ms := func(d time.Duration) string { return fmt.Sprintf("%.3g ms", measure.Millis(d)) }
	fmt.Fprintf(w, "orders\t%d answered in %.1f s, %.0f a second; %d rejected, %d without a reply\n", r.Requests,
		r.Elapsed.Seconds(), r.Rate(), r.Refused, r.Unanswered)
	if r.Unanswered > 0 {
		fmt.Fprintf(w, "\tfor example: %s\n", r.Why)
	}
	if r.Refused > 0 && len(r.Examples) > 0 {
		fmt.Fprintf(w, "\tfor example: %s\n", r.Examples[0])
	}
	fmt.Fprintf(w, "latency\tp50 %s, p99 %s, p99.9 %s, longest %s\n", ms(r.Quantile(0.5)), ms(r.Quantile(0.99)),
		ms(r.Quantile(0.999)), ms(r.Quantile(1)))
	fmt.Fprintf(w, "longest gap\t%s without a reply, %.1f s after the begin\n", ms(r.Longest.Length),
		r.Longest.From.Seconds())
	fmt.Fprintf(w, "failovers\t%d; %d connections made again, %d orders sent again\n", r.Failovers, r.Reconnects,
		r.SentAgain)
	fmt.Fprintf(w, "asked\t%d orders: %d lost, %d doubled; of those without a reply %d were done\n", r.Asked, r.Lost,
		r.Doubled, r.Done)
	if r.Example != "" {
		fmt.Fprintf(w, "\tfor example: %s\n", r.Example)
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "\t%d numbers between these orders are of others: somebody else traded, or orders were done twice\n",
			r.Others)
	}
}
