package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
)

// operator runs one operation over the HTTP side.
type operator struct {
	client *remote.Client   // client of the leader if there are several nodes
	all    []*remote.Client // one client for each address
	ctx    context.Context
	stdout io.Writer
	json   bool // print the answer as JSON
	now    time.Time
}

// operation returns the Prepare function of a command that asks a running exchange over HTTP by calling do.
func operation(do func(*operator, []string) error) func(*flag.FlagSet, *cli.Client) func([]string) error {
	return func(f *flag.FlagSet, c *cli.Client) func([]string) error {
		asJSON := f.Bool("json", false, "print the answer as JSON")
		return func(words []string) error {
			ctx, stop := cli.Interruptible()
			defer stop()
			o := &operator{ctx: ctx, stdout: c.Stdout, json: *asJSON, now: time.Now()}
			err := o.connect(&c.Access)
			if err == nil {
				err = do(o, words)
			}
			var refused *remote.Error
			if errors.As(err, &refused) {
				_ = o.print(remote.ErrorAnswer{Error: refused.Text}, func() {
					fmt.Fprintf(c.Stdout, "error: %s\n", refused.Text)
				})
				return cli.ErrAnswered
			}
			return err
		}
	}
}

// connect makes a client for each address.
func (o *operator) connect(a *cli.Access) error {
	how, err := a.Options()
	if err != nil {
		return err
	}
	for address := range strings.SplitSeq(a.HTTPAddr, ",") {
		one := remote.NewClient(address, a.Timeout, how.TLS)
		one.Token, one.InsecureToken = how.Token, how.InsecureToken
		o.all = append(o.all, one)
	}
	o.client = o.all[0]
	return nil
}

// leader finds the leader among several nodes, and sends further operations to it.
func (o *operator) leader() (err error) {
	if len(o.all) > 1 {
		o.client, err = remote.Leader(o.all, remote.Views(o.ctx, o.all))
	}
	return err
}

// onLeader is like operation, but sends the operation to the leader.
func onLeader(do func(*operator, []string) error) func(*flag.FlagSet, *cli.Client) func([]string) error {
	return operation(func(o *operator, words []string) error {
		if err := o.leader(); err != nil {
			return err
		}
		return do(o, words)
	})
}

// cancelAllOrders declares the flags of the command cancel-all and returns the function that runs it.
func cancelAllOrders(f *flag.FlagSet, c *cli.Client) func([]string) error {
	declareSym(f)
	return onLeader((*operator).cancelAll)(f, c)
}

// print prints an answer as JSON if --json is set, and otherwise calls words.
func (o *operator) print(answer any, words func()) error {
	if !o.json {
		words()
		return nil
	}
	e := json.NewEncoder(o.stdout)
	e.SetIndent("", "  ")
	return e.Encode(answer)
}

func (o *operator) halt(args []string) error {
	a, err := o.client.Halt(o.ctx, args[0], strings.Join(args[1:], " "))
	if err != nil {
		return err
	}
	return o.print(a, func() {
		if a.Changed {
			fmt.Fprintf(o.stdout, "symbol %s is halted %s\n", a.Sym, since(a.Halted))
		} else {
			fmt.Fprintf(o.stdout, "symbol %s was halted before, %s\n", a.Sym, since(a.Halted))
		}
	})
}

func (o *operator) resume(args []string) error {
	a, err := o.client.Resume(o.ctx, args[0])
	if err != nil {
		return err
	}
	return o.print(a, func() {
		if a.Changed {
			fmt.Fprintf(o.stdout, "symbol %s accepts orders again; it was halted %s\n", a.Sym, since(a.Ended))
		} else {
			fmt.Fprintf(o.stdout, "symbol %s was not halted\n", a.Sym)
		}
	})
}

// since describes since when a symbol is halted, and the reason if one was given.
func since(h *remote.Halt) string {
	s := "since " + time.Unix(h.Time, 0).UTC().Format(time.RFC3339)
	if h.Reason != "" {
		s += ": " + h.Reason
	}
	return s
}

func (o *operator) cancelAll(args []string) error {
	sym := ""
	if len(args) > 1 {
		if sym = args[1]; sym == "" {
			return cli.Usage("the symbol is empty; without one everything is canceled")
		}
	}
	a, err := o.client.CancelAll(o.ctx, args[0], sym)
	if err != nil {
		return err
	}
	return o.print(a, func() { o.printCanceled(&a) })
}
