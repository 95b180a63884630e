package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/demo"
)

const demoText = `The bots are market makers, takers and noise traders, each with an account of its own. The
demo creates the accounts and symbols that it needs, and uses those that exist.

It runs until --duration has passed, or Ctrl-C, and then cancels what its bots have open. On a
new exchange without other traders, the same seed gives the same orders and executions.`

// prepareDemo declares the flags of the command demo and returns the function that runs it.
func prepareDemo(f *flag.FlagSet, c *cli.Client) func([]string) error {
	o := demo.Options{Report: c.Stdout}
	symbols := f.String("symbols", "SPY,QQQ,IWM,DIA,GLD",
		"`symbols` to trade, separated by commas; the first is traded most")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the bots' decisions")
	f.IntVar(&o.Rate, "rate", 100, "`orders` per second of all bots together")
	f.IntVar(&o.Makers, "makers", 2, "market makers for each symbol")
	f.IntVar(&o.Takers, "takers", 2, "takers for each symbol")
	f.IntVar(&o.Noise, "noise", 2, "noise traders for each symbol")
	f.StringVar(&o.AccountPrefix, "accounts", "000",
		"`digits` that the ids of the bots' accounts begin with; demos that run at the same time need different ones")
	f.BoolVar(&o.LeaveOrders, "leave-orders", false, "leave open orders open at the end")
	f.DurationVar(&o.ReportEvery, "report", 5*time.Second, "time between two lines of the report")
	duration := f.Duration("duration", 0, "how long it runs; 0 is until Ctrl-C")
	return func([]string) error {
		if *duration < 0 {
			return cli.Usage(fmt.Sprintf("--duration %v: must not be negative", *duration))
		}
		o.Symbols = strings.Split(*symbols, ",")
		return runDemo(o, *duration, &c.Access, c.Stdout)
	}
}

// runDemo runs the demo for the duration. If the duration is 0, it runs until an interrupt.
func runDemo(o demo.Options, duration time.Duration, a *cli.Access, stdout io.Writer) error {
	how, err := a.Options()
	if err != nil {
		return err
	}
	o.Addr, o.Timeout, o.Client = a.Addr, a.Timeout, how
	if err := o.Check(); err != nil {
		return cli.Usage(err.Error())
	}
	ctx, stop := cli.Interruptible() // a second Ctrl-C kills the program
	defer stop()
	if duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, duration)
		defer cancel()
	}
	s, err := demo.Run(ctx, o)
	if err != nil && s == (demo.Summary{}) {
		return err // the demo could not start
	}
	fmt.Fprintf(stdout, "ended: %d orders, %d refused, %d trades, %d orders left open\n", s.Orders, s.Refused, s.Trades,
		s.Left)
	return err
}
