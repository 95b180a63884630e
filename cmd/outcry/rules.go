package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
	"outcry/internal/process/phrase"
)

// symbol declares the flags of the command symbol. Without flags the command creates a symbol; with a flag it
// changes the rules.
func symbol(f *flag.FlagSet, c *cli.Client) func([]string) error {
	var to remote.SymbolRules
	f.StringVar(&to.Tick, "tick", "", "`step` of limits: each must be a multiple of it")
	f.StringVar(&to.Lot, "lot", "", "`step` of amounts: each must be a multiple of it")
	f.StringVar(&to.Protect, "protect", "", "how far from the best price a market order without LIMIT may execute, "+
		"in `percent`, such as 10%")
	f.StringVar(&to.Band, "band", "", "how far from the last trade's price a limit may be, in `percent`, such as 20%, "+
		"or none")
	change := onLeader(func(o *operator, words []string) error { return o.setSymbol(words[0], to) })(f, c)
	create := trading(func(words []string) (api.Command, error) { return api.MakeSymbol(words[0]), nil }, noRef)(f, c)
	return func(words []string) error {
		if err := noneEmpty(f, "tick", "lot", "protect", "band"); err != nil {
			return err
		}
		if to == (remote.SymbolRules{}) && !cli.IsGiven(f, "json") {
			return create(words)
		}
		return change(words)
	}
}

// limits declares the flags of the command limits and returns the function that runs it.
func limits(f *flag.FlagSet, c *cli.Client) func([]string) error {
	var to remote.AccountRules
	f.StringVar(&to.Shares, "shares", "", "maximum `shares` of an order, or none")
	f.StringVar(&to.Notional, "notional", "", "maximum notional of an order in `dollars`, or none")
	f.StringVar(&to.Open, "open", "", "maximum number of open `orders`, or none")
	f.StringVar(&to.STP, "stp", "", "which `order` to cancel when two orders of the account match, unless the order says "+
		"which: newest, oldest, both or none")
	change := onLeader(func(o *operator, words []string) error { return o.setLimits(words[0], to) })(f, c)
	return func(words []string) error {
		if err := noneEmpty(f, "shares", "notional", "open", "stp"); err != nil {
			return err
		}
		return change(words)
	}
}

// noneEmpty returns a usage error if one of the flags was given an empty value.
func noneEmpty(f *flag.FlagSet, names ...string) error {
	for _, name := range names {
		if cli.IsGiven(f, name) && f.Lookup(name).Value.String() == "" {
			return cli.Usage(fmt.Sprintf("--%s is empty", name))
		}
	}
	return nil
}

func (o *operator) setSymbol(sym string, to remote.SymbolRules) error {
	a, err := o.client.SetSymbol(o.ctx, sym, to)
	if err != nil {
		return err
	}
	return o.print(a, func() {
		printRules(o.stdout, "symbol "+a.Sym, a.Changed, to == remote.SymbolRules{})
		fmt.Fprintf(o.stdout, "  tick %s, lot %s, protect %s, band %s\n", a.Tick, a.Lot, a.Protect, a.Band)
	})
}

func (o *operator) setLimits(account string, to remote.AccountRules) error {
	a, err := o.client.SetLimits(o.ctx, account, to)
	if err != nil {
		return err
	}
	return o.print(a, func() {
		printRules(o.stdout, "account "+a.Account, a.Changed, to == remote.AccountRules{})
		fmt.Fprintf(o.stdout, "  shares %s, notional %s, open %s, stp %s\n", a.Shares, a.Notional, a.Open, a.STP)
		if a.Blocked != nil {
			fmt.Fprintf(o.stdout, "  blocked %s\n", since(a.Blocked))
		}
	})
}

// printRules prints the heading for the rules of an account or a symbol, which says whether they are merely shown,
// were changed, or were unchanged.
func printRules(w io.Writer, of string, changed, asked bool) {
	switch {
	case asked:
		fmt.Fprintf(w, "%s has the rules\n", of)
	case changed:
		fmt.Fprintf(w, "%s has new rules\n", of)
	default:
		fmt.Fprintf(w, "%s had these rules before\n", of)
	}
}

func (o *operator) block(args []string) error {
	a, err := o.client.Block(o.ctx, args[0], strings.Join(args[1:], " "))
	if err != nil {
		return err
	}
	return o.print(a, func() {
		if a.Changed {
			fmt.Fprintf(o.stdout, "account %s is blocked %s\n", a.Account, since(a.Blocked))
		} else {
			fmt.Fprintf(o.stdout, "account %s was blocked before, %s\n", a.Account, since(a.Blocked))
		}
		if a.Canceled != nil {
			o.printCanceled(a.Canceled)
		} else {
			fmt.Fprintln(o.stdout, "its open orders are canceled as soon as there is room for that")
		}
	})
}

func (o *operator) unblock(args []string) error {
	a, err := o.client.Unblock(o.ctx, args[0])
	if err != nil {
		return err
	}
	return o.print(a, func() {
		if a.Changed {
			fmt.Fprintf(o.stdout, "account %s may order again; it was blocked %s\n", a.Account, since(a.Ended))
		} else {
			fmt.Fprintf(o.stdout, "account %s was not blocked\n", a.Account)
		}
	})
}

// printCanceled prints which orders of an account were canceled.
func (o *operator) printCanceled(a *remote.CancelAllAnswer) {
	if a.Orders == 0 {
		fmt.Fprintf(o.stdout, "account %s had no open orders\n", a.Account)
		return
	}
	fmt.Fprintf(o.stdout, "%s of account %s canceled\n", phrase.Number(a.Orders, "order"), a.Account)
	for _, in := range a.Symbols {
		fmt.Fprintf(o.stdout, "  %-8s %s, %s shares\n", in.Sym, phrase.Number(in.Orders, "order"), in.Shares)
	}
}
