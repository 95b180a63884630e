package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"outcry/internal/demo"
)

const demoUsage = `outcry demo runs a market of bots on an exchange, to look at and to trade against:
market makers, takers and noise, each with an account of its own. It makes the
accounts and symbols that it needs, and goes on with them where they are there.

Usage: outcry demo [flags]

It runs until --duration has passed or Ctrl-C, and then cancels what its bots have
open. On a new exchange where nobody else trades, a seed gives the same orders and
executions each time.

Flags:
`

// runDemo is the command. a is what outcry's own flags say. It
// returns flag.ErrHelp, errPrinted, a *usageError, or what went wrong.
func runDemo(args []string, a *access, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("outcry demo", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, demoUsage)
		f.PrintDefaults()
	}
	o := demo.Options{Report: stdout}
	f.StringVar(&a.addr, "addr", a.addr, "`address` of the exchange")
	f.DurationVar(&a.timeout, "timeout", a.timeout, "how long an answer may take")
	symbols := f.String("symbols", "SPY,QQQ,IWM,DIA,GLD",
		"`names` of what is traded, with commas between; the first is traded most")
	f.Uint64Var(&o.Seed, "seed", 1, "what the bots decide follows from this number")
	f.IntVar(&o.Rate, "rate", 100, "orders a second of all bots together")
	f.IntVar(&o.Makers, "makers", 2, "market makers for each symbol")
	f.IntVar(&o.Takers, "takers", 2, "takers for each symbol")
	f.IntVar(&o.Noise, "noise", 2, "noise bots for each symbol")
	f.StringVar(&o.AccountPrefix, "accounts", "000",
		"`digits` that the ids of the bots' accounts begin with; demos that run at the same time need different ones")
	f.BoolVar(&o.LeaveOrders, "leave-orders", false, "leave open at the end what is open")
	f.DurationVar(&o.ReportEvery, "report", 5*time.Second, "how often a line is printed")
	duration := f.Duration("duration", 0, "how long it runs; 0 is until Ctrl-C")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errPrinted
	}
	if f.NArg() > 0 {
		return &usageError{fmt.Sprintf("demo takes flags only, not %s", number(f.NArg(), "argument"))}
	}
	if *duration < 0 {
		return &usageError{fmt.Sprintf("a duration of %v is negative", *duration)}
	}
	how, err := a.options()
	if err != nil {
		return err
	}
	o.Addr, o.Timeout, o.Client = a.addr, a.timeout, how
	o.Symbols = strings.Split(*symbols, ",")
	if err := o.Check(); err != nil {
		return &usageError{err.Error()}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *duration)
		defer cancel()
	}
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	s, err := demo.Run(ctx, o)
	if err != nil && s == (demo.Summary{}) {
		return err // it has not begun
	}
	fmt.Fprintf(stdout, "ended: %d orders, %d refused, %d trades, %d orders left open\n", s.Orders, s.Refused, s.Trades,
		s.Left)
	return err
}
