package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"time"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
)

// refUse is the meaning of --ref for a command.
type refUse int

const (
	noRef      refUse = iota // the command has no --ref
	refOfNew                 // --ref names the object that the command creates
	refOfOrder               // --ref names an order in place of its number
)

// options are the flag values that are added to a command that trades.
type options struct{ ref string }

// declare adds the flags to f. The returned options are set once f has been parsed.
func (u refUse) declare(f *flag.FlagSet) *options {
	o := new(options)
	switch u {
	case noRef:
	case refOfNew:
		f.StringVar(&o.ref, "ref", "", "`ref`, the client order id: 1 to 64 of A-Z a-z 0-9 . _ : - that the account has "+
			"used for nothing else; a new one if left out")
	case refOfOrder:
		f.StringVar(&o.ref, "ref", "", "`ref` of the order, in place of its number")
	}
	return o
}

// apply adds the options to a command. A command that makes something gets a new ref if none was given, so
// that it can be resent safely.
func (o *options) apply(command api.Command) api.Command {
	ref := o.ref
	switch command.Kind {
	case api.KindQuery, api.KindCancel, api.KindAmend:
		if ref != "" {
			command.Order = 0
		}
	case api.KindOpenAccount, api.KindPlace, api.KindBuy, api.KindSell:
		if ref == "" {
			ref = rand.Text()
		}
	}
	return command.WithRef(ref)
}

// trading returns the Prepare function of a command that trades: build turns the arguments into the command to
// send.
func trading(
	build func(words []string) (api.Command, error), use refUse,
) func(*flag.FlagSet, *cli.Client) func([]string) error {
	return func(f *flag.FlagSet, c *cli.Client) func([]string) error {
		o := use.declare(f)
		return func(words []string) error {
			if cli.IsGiven(f, "ref") && o.ref == "" {
				return cli.Usage("--ref is empty: without a ref, it is not safe to retry")
			}
			command, err := build(words)
			if err != nil {
				return cli.Usage(err.Error())
			}
			return doCommand(c, o.apply(command))
		}
	}
}

// declareSym adds the flag --sym, whose value replaces the argument SYM.
func declareSym(f *flag.FlagSet) { f.String("sym", "", "`symbol`, in place of the word SYM") }

// account builds the command account: without a balance it queries the account.
func account(words []string) (api.Command, error) {
	if len(words) == 1 {
		return api.ShowAccount(words[0]), nil
	}
	balance, err := api.ParseDecimal(words[1])
	return api.OpenAccount(words[0], balance), err
}

// deposit is the command place. Earlier versions had the symbol before the account, and scripts still use that
// order.
func deposit(f *flag.FlagSet, c *cli.Client) func([]string) error {
	declareSym(f)
	return trading(func(words []string) (api.Command, error) {
		account, sym := words[0], words[1]
		if !cli.IsGiven(f, "sym") {
			var err error
			if account, sym, err = accountAndSymbol(words[0], words[1]); err != nil {
				return api.Command{}, err
			}
		}
		shares, err := api.ParseDecimal(words[2])
		return api.Place(sym, account, shares), err
	}, refOfNew)(f, c)
}

// accountAndSymbol decides which of two words is the account and which the symbol. An account consists of
// digits only; if both words or neither do, it returns an error, since a guess must not decide a deposit.
func accountAndSymbol(first, second string) (account, sym string, err error) {
	switch is, isToo := cli.IsDigits(first), cli.IsDigits(second); {
	case is && isToo:
		return "", "", fmt.Errorf(
			"which of %.64s and %.64s is the symbol? Name it with --sym: place ACCOUNT --sym SYM SHARES", first, second)
	case is:
		return first, second, nil
	case isToo:
		return second, first, nil
	}
	return "", "", fmt.Errorf("neither of the first two words is an account, which is made of digits")
}

// order returns the Prepare function of the commands buy and sell.
func order(side string) func(*flag.FlagSet, *cli.Client) func([]string) error {
	return func(f *flag.FlagSet, c *cli.Client) func([]string) error {
		declareSym(f)
		var o api.Instructions
		declareInstructions(f, &o)
		return trading(func(words []string) (api.Command, error) {
			shares, err := api.ParseDecimal(words[2])
			if err != nil {
				return api.Command{}, err
			}
			if shares.Sign() <= 0 {
				return api.Command{}, fmt.Errorf("%s of %s shares: the number of shares must be positive; %s already gives the "+
					"side",
					side, words[2], side)
			}
			var limit api.Decimal
			if len(words) > 3 {
				limit, err = api.ParseDecimal(words[3])
			}
			if side == "buy" {
				return api.Buy(words[0], words[1], shares, limit).With(o), err
			}
			return api.Sell(words[0], words[1], shares, limit).With(o), err
		}, refOfNew)(f, c)
	}
}

// declareInstructions adds the flags for an order's instructions.
func declareInstructions(f *flag.FlagSet, o *api.Instructions) {
	f.BoolVar(&o.Market, "market", false, "execute at the best available prices, up to LIMIT if it is given")
	f.Func("tif", "`time` in force: GTC stays open; IOC cancels the part that does not execute at once; FOK executes "+
		"completely at once or is rejected", oneOf(&o.TIF, api.GTC, api.IOC, api.FOK))
	f.BoolVar(&o.Post, "post", false, "reject the order if it would execute at once")
	f.Func("stp", "which `order` to cancel when two orders of the account match: newest, oldest or both",
		oneOf(&o.STP, api.CancelNewest, api.CancelOldest, api.CancelBoth))
	f.BoolFunc("cod", "cancel the open part when the connection ends, as it does after this command",
		func(s string) error {
			yes, err := strconv.ParseBool(s)
			if o.COD = api.Stays; yes {
				o.COD = api.Cancels
			}
			return err
		})
	declareReport(f, o)
}

// oneOf returns a parser for a flag whose value must be one of the known values.
func oneOf[S ~string](into *S, known ...S) func(string) error {
	return func(text string) error {
		if !slices.Contains(known, S(text)) {
			return fmt.Errorf("%.20q is not one of %q", text, known)
		}
		*into = S(text)
		return nil
	}
}

func declareReport(f *flag.FlagSet, o *api.Instructions) {
	f.BoolVar(&o.Report, "full", false, "print what the order executed at once")
}

// amend declares the flags of the command amend and returns the function that runs it.
func amend(f *flag.FlagSet, c *cli.Client) func([]string) error {
	var o api.Instructions
	declareReport(f, &o)
	amount := f.String("amount", "", "new total of `shares`, executed ones included; negative for a sell")
	limit := f.String("limit", "", "new `limit`")
	ref := f.String("new-ref", "", "`ref` of the amend itself, as --ref of an order; a new one if left out")
	return trading(func(words []string) (api.Command, error) {
		if *amount == "" && *limit == "" {
			return api.Command{}, errors.New("amend: --amount or --limit is missing")
		}
		id, err := orderID(words)
		command := api.Amend(words[0], id, api.Decimal{}, api.Decimal{}).With(o)
		for text, into := range map[*string]*api.Decimal{amount: &command.Amount, limit: &command.Limit} {
			if *text == "" || err != nil {
				continue
			}
			if *into, err = api.ParseDecimal(*text); err == nil && into.Sign() == 0 {
				err = fmt.Errorf("%.64q is 0; cancel the order instead", *text)
			}
		}
		if *ref == "" {
			*ref = rand.Text()
		}
		return command.WithNewRef(*ref), err
	}, refOfOrder)(f, c)
}

func queryOrder(words []string) (api.Command, error) {
	id, err := orderID(words)
	return api.Query(words[0], id), err
}

// cancel declares the flags of the command cancel and returns the function that runs it.
func cancel(f *flag.FlagSet, c *cli.Client) func([]string) error {
	all := f.Bool("all", false, "cancel all open orders of the account, or those of --sym, instead of one order")
	sym := f.String("sym", "", "`symbol`, with --all")
	return trading(func(words []string) (api.Command, error) {
		switch {
		case *all && cli.IsGiven(f, "ref"):
			return api.Command{}, errors.New("cancel: --all and --ref exclude each other")
		case *all && cli.IsGiven(f, "sym") && *sym == "":
			return api.Command{}, errors.New("--sym is empty; without it everything is canceled")
		case *all:
			return api.CancelAll(words[0], *sym), nil
		case cli.IsGiven(f, "all") || cli.IsGiven(f, "sym"):
			return api.Command{}, errors.New("cancel: --all is missing")
		}
		id, err := orderID(words)
		return api.Cancel(words[0], id), err
	}, refOfOrder)(f, c)
}

// cancelAfter builds the command cancel-after.
func cancelAfter(words []string) (api.Command, error) {
	seconds, err := strconv.ParseUint(words[1], 10, 31)
	if err != nil {
		return api.Command{}, fmt.Errorf("%.64q is not a number of seconds", words[1])
	}
	return api.CancelAfter(words[0], time.Duration(seconds)*time.Second), nil
}

// listFills declares the flags of the command fills and returns the function that runs it.
func listFills(f *flag.FlagSet, c *cli.Client) func([]string) error {
	after := f.Uint64("after", 0, "show the fills after this `number`, 0 for the first ones; the newest ones if left out")
	return trading(func(words []string) (api.Command, error) {
		if !cli.IsGiven(f, "after") {
			return api.ListFills(words[0], api.Newest), nil
		}
		return api.ListFills(words[0], *after), nil
	}, noRef)(f, c)
}

// listOrders declares the flags of the command orders and returns the function that runs it.
func listOrders(f *flag.FlagSet, c *cli.Client) func([]string) error {
	declareSym(f)
	return trading(func(words []string) (api.Command, error) {
		if len(words) == 1 {
			return api.ListOrders(words[0], "", 0), nil
		}
		return api.ListOrders(words[0], words[1], 0), nil
	}, noRef)(f, c)
}

// orderID parses the number of an order. Without a number the order is named by its ref, and the result is 1,
// a placeholder that the ref replaces.
func orderID(words []string) (api.OrderID, error) {
	if len(words) == 1 {
		return 1, nil
	}
	id, err := strconv.ParseUint(words[1], 10, 63)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%.64q is not an order number", words[1])
	}
	return api.OrderID(id), nil
}
