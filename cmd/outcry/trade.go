package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"strconv"
	"strings"

	api "outcry/clients/go/client"
)

// refUse is what --ref is to a command.
type refUse int

const (
	noRef      refUse = iota // there is none
	refOfNew                 // names what the command makes
	refOfOrder               // names an order in place of its number
)

// options are what the flags of a command that trades add to it.
type options struct{ ref string }

// declare adds the flags to f. They are in the options once f has been parsed.
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

// apply gives a command its options: a new ref if there is none and it makes something, so
// that it can be sent again.
func (o *options) apply(command api.Command) api.Command {
	ref := o.ref
	switch command.Kind {
	case api.KindQuery, api.KindCancel:
		if ref != "" {
			command.Order = 0
		}
	case api.KindMakeSymbol:
	default:
		if ref == "" {
			ref = rand.Text()
		}
	}
	return command.WithRef(ref)
}

// trading returns how a command that trades is run: make turns the words into what is sent.
func trading(
	build func(words []string) (api.Command, error), use refUse,
) func(*flag.FlagSet, *client) func([]string) error {
	return func(f *flag.FlagSet, c *client) func([]string) error {
		o := use.declare(f)
		return func(words []string) error {
			if isGiven(f, "ref") && o.ref == "" {
				return &usageError{"--ref is empty: without a ref, it is not safe to retry"}
			}
			command, err := build(words)
			if err != nil {
				return &usageError{err.Error()}
			}
			return c.do(o.apply(command))
		}
	}
}

// isGiven reports whether a flag was on the command line.
func isGiven(f *flag.FlagSet, name string) (given bool) {
	f.Visit(func(fl *flag.Flag) { given = given || fl.Name == name })
	return given
}

// declareSym adds --sym, which read puts in the place of the word.
func declareSym(f *flag.FlagSet) { f.String("sym", "", "`symbol`, in place of the word SYM") }

func openAccount(words []string) (api.Command, error) {
	balance, err := api.ParseDecimal(words[1])
	return api.OpenAccount(words[0], balance), err
}

func makeSymbol(words []string) (api.Command, error) { return api.MakeSymbol(words[0]), nil }

// deposit is the command place. Earlier versions had the symbol in front of the account, and
// scripts still do.
func deposit(f *flag.FlagSet, c *client) func([]string) error {
	declareSym(f)
	return trading(func(words []string) (api.Command, error) {
		account, sym := words[0], words[1]
		if !isGiven(f, "sym") {
			var err error
			if account, sym, err = accountAndSymbol(words[0], words[1]); err != nil {
				return api.Command{}, err
			}
		}
		shares, err := api.ParseDecimal(words[2])
		return api.Place(sym, account, shares), err
	}, refOfNew)(f, c)
}

// accountAndSymbol tells which of two words is the account: only that can be, and must be,
// of digits alone. The error says that both words are alike: nothing may be deposited by a
// guess.
func accountAndSymbol(first, second string) (account, sym string, err error) {
	switch is, isToo := isDigits(first), isDigits(second); {
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

// isDigits reports whether a text can be the id of an account.
func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// order is the commands buy and sell.
func order(side string) func(*flag.FlagSet, *client) func([]string) error {
	return func(f *flag.FlagSet, c *client) func([]string) error {
		declareSym(f)
		return trading(func(words []string) (api.Command, error) {
			shares, err := api.ParseDecimal(words[2])
			if err != nil {
				return api.Command{}, err
			}
			if shares.Sign() <= 0 {
				return api.Command{}, fmt.Errorf("%s of %s shares: the number of shares must be positive; %s says the side",
					side, words[2], side)
			}
			limit, err := api.ParseDecimal(words[3])
			if side == "buy" {
				return api.Buy(words[0], words[1], shares, limit), err
			}
			return api.Sell(words[0], words[1], shares, limit), err
		}, refOfNew)(f, c)
	}
}

func queryOrder(words []string) (api.Command, error) {
	id, err := orderID(words)
	return api.Query(words[0], id), err
}

func cancelOrder(words []string) (api.Command, error) {
	id, err := orderID(words)
	return api.Cancel(words[0], id), err
}

// orderID reads the number of an order. Without one the order is named by its ref, which
// takes the place of any number.
func orderID(words []string) (api.OrderID, error) {
	if len(words) == 1 {
		return 1, nil
	}
	id, err := strconv.ParseUint(words[1], 10, 63)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%.64q is not the number of an order", words[1])
	}
	return api.OrderID(id), nil
}
