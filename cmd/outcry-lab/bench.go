package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/load"
	"outcry/internal/lab/measure"
)

const benchText = `Opens accounts of its own and trades between them: buys and sells of one share alternate. The
accounts and their symbols remain afterwards.

If the exchange supports refs, as Outcry does, every order is queried by its ref afterwards: none may
be lost or executed twice. Orders left without a reply by a broken connection are sent again with
their ref, to another address of --addr if it accepts orders. The longest gap is the longest time
in which no client got a reply. At a low --rate it is at least the time between two orders.

Any other server of the protocol gets orders without refs, one in each frame. The client adapts to
the server's habits: it may close after a reply, send no length or a wrong one, or require CR LF or
the attribute account. They are found by probing, unless --profile lists them. Afterwards up to 10,000
orders are queried. With --experiment the load is that of a measurement of an earlier system of the
protocol; the first line of the result says what a request is then. With --beside the same load is
sent in turn to that server, to an Outcry that is started for it, and to an echo server.

The exit status is 1 if an order is lost, executed twice, refused or left without a reply.`

// prepareBench declares the flags of the command bench run and returns the function that runs it.
func prepareBench(f *flag.FlagSet, c *cli.Client) func([]string) error {
	o := measure.Options{Out: c.Stdout, Stderr: c.Stderr}
	f.IntVar(&o.Connections, "connections", 4, "connections at once")
	f.IntVar(&o.Depth, "depth", 8, "unanswered orders on each connection; 1 by default without refs")
	f.IntVar(&o.Rate, "rate", 0, "`orders` a second of all connections together; 0 is as many as possible")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long orders are sent")
	f.IntVar(&o.Orders, "orders", 1_000_000, "maximum number of orders to send")
	f.IntVar(&o.Symbols, "symbols", 4, "symbols that are traded")
	f.StringVar(&o.Accounts, "accounts", "009",
		"`digits` that the ids of its accounts with refs begin with; runs at the same time need different ones")
	f.BoolVar(&o.NoRefs, "no-refs", false, "send orders without refs, for a server that does not know them")
	profile := f.String("profile", "", "`file` with a profile of outcry-lab grade, whose habits are not probed")
	f.BoolVar(&o.Beside, "beside", false, "also measure an Outcry and an echo server, without refs")
	f.IntVar(&o.Rounds, "rounds", 3, "how many times each server is measured with --beside")
	f.StringVar(&o.Program, "outcryd", "", "`program` of the Outcry that --beside measures; the outcryd next to this "+
		"program if left out")
	f.StringVar(&o.Experiment, "experiment", "", "`name` of an experiment of an earlier system, instead of orders: "+
		strings.Join(measure.Experiments(), ", "))
	f.IntVar(&o.Requests, "requests", 0, "requests of each connection in an experiment; 0 for the original number")
	f.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	return func([]string) error {
		o.DepthGiven, o.ConnectionsGiven = cli.IsGiven(f, "depth"), cli.IsGiven(f, "connections")
		if err := o.Check(); err != nil {
			return cli.Usage(err.Error())
		}
		return runBench(c, o, *profile)
	}
}

// prepareBenchEcho declares the flags of the command bench echo and returns the function that runs it.
func prepareBenchEcho(f *flag.FlagSet, c *cli.Client) func([]string) error {
	reply := f.Int("reply", 80, "`bytes` of each reply")
	addr := f.String("listen", "127.0.0.1:0", "`address` that it listens on")
	return func([]string) error {
		if *reply < 0 || *reply > load.EchoBytesMax {
			return cli.Usage(fmt.Sprintf("--reply %d: must be from 0 to %d", *reply, load.EchoBytesMax))
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		return load.ServeEcho(ctx, *addr, *reply, nil, c.Stdin, c.Stdout)
	}
}

// runBench runs the command bench run.
func runBench(c *cli.Client, o measure.Options, profile string) (err error) {
	if err := c.Access.CheckTimeout(); err != nil {
		return err
	}
	if o.Client, err = c.Access.Options(); err != nil {
		return err
	}
	o.Addrs = strings.Split(c.Access.Addr, ",")
	if profile != "" {
		known, err := measure.ReadHabits(profile)
		if err != nil {
			return cli.Usage("--profile " + profile + ": " + err.Error())
		}
		o.Known = &known
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	if err = measure.Run(ctx, o); errors.Is(err, measure.ErrWrong) {
		return cli.ErrBad
	}
	return err
}
