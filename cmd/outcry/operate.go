package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"outcry/internal/operate"
)

// operations are the commands that an operator gives a running exchange, over its HTTP
// side.
var operations = map[string]struct {
	arguments string // as the usage names them
	least     int
	most      int
	help      string
	do        func(*operator, []string) error
}{
	"halt": {"SYM [REASON]", 1, 100, `halts a symbol: from then on orders for it are refused, with the
reason, until outcry resume. Cancels, queries and placements work, and orders that
rest keep their places. A symbol that is halted stays so, for its first reason.
REASON is up to 200 characters, which everybody may read.`, (*operator).halt},
	"resume": {"SYM", 1, 1, `ends the halt of a symbol: it takes orders again. One that is not
halted stays as it is.`, (*operator).resume},
	"cancel-all": {"ACCOUNT [SYM]", 1, 2, `cancels all orders that an account has open, or all that it has open of
one symbol: all of them at one moment, or none where that is refused. Nothing keeps
the account from placing new ones.`, (*operator).cancelAll},
	"status": {"", 0, 0, `tells how an exchange is doing. The exit status is 1 while it takes no
orders, and where it cannot be reached.`, (*operator).status},
}

// operator does one of the operations.
type operator struct {
	client *operate.Client
	ctx    context.Context
	stdout io.Writer
	json   bool // print the answer as it came
	now    time.Time
}

// runOperation does an operation. a is what outcry's own flags say. It returns
// flag.ErrHelp, errPrinted, a *usageError, errAnswered, or what went wrong.
func runOperation(name string, args []string, a *access, stdout, stderr io.Writer) error {
	op := operations[name]
	f := flag.NewFlagSet("outcry "+name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintf(stderr, "outcry %s %s\n\nUsage: outcry %s\n\nFlags:\n", name, op.help,
			strings.TrimSpace(name+" [flags] "+op.arguments))
		f.PrintDefaults()
	}
	address := f.String("http", a.httpAddr, "`address` of the HTTP side of the exchange, also as OUTCRY_HTTP")
	wait := f.Duration("timeout", a.timeout, "how long an answer may take")
	asJSON := f.Bool("json", false, "print the answer as JSON")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errPrinted
	}
	if n := f.NArg(); n < op.least || n > op.most {
		return &usageError{fmt.Sprintf("%s takes the arguments %q, not %d of them; outcry %s --help explains them", name,
			op.arguments, n, name)}
	}
	for _, arg := range f.Args() {
		if strings.HasPrefix(arg, "-") {
			return &usageError{fmt.Sprintf("%s looks like a flag; flags stand before the arguments", shown(arg))}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	how, err := a.options()
	if err != nil {
		return err
	}
	exchange := operate.NewClient(*address, *wait, how.TLS)
	exchange.Token, exchange.InsecureToken = how.Token, how.InsecureToken
	o := &operator{client: exchange, ctx: ctx, stdout: stdout, json: *asJSON, now: time.Now()}
	err = op.do(o, f.Args())
	var refused *operate.Error
	if errors.As(err, &refused) {
		_ = o.print(operate.ErrorAnswer{Error: refused.Text}, func() { fmt.Fprintf(stdout, "error: %s\n", refused.Text) })
		return errAnswered
	}
	return err
}

// print prints an answer as JSON, or has it said in words.
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
			fmt.Fprintf(o.stdout, "symbol %s takes orders again; it was halted %s\n", a.Sym, since(a.Ended))
		} else {
			fmt.Fprintf(o.stdout, "symbol %s was not halted\n", a.Sym)
		}
	})
}

// since says since when a symbol is halted, and why if that was said.
func since(h *operate.Halt) string {
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
			return &usageError{"the symbol is empty; without one everything is canceled"}
		}
	}
	a, err := o.client.CancelAll(o.ctx, args[0], sym)
	if err != nil {
		return err
	}
	return o.print(a, func() {
		if a.Orders == 0 {
			fmt.Fprintf(o.stdout, "account %s had nothing open\n", a.Account)
			return
		}
		fmt.Fprintf(o.stdout, "%s of account %s canceled\n", number(a.Orders, "order"), a.Account)
		for _, in := range a.Symbols {
			fmt.Fprintf(o.stdout, "  %-8s %s, %s shares\n", in.Sym, number(in.Orders, "order"), in.Shares)
		}
	})
}
