package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"outcry/internal/wire"
)

// replyBytesMax bounds a reply: a query of an order with a million executions
// stays below it.
const replyBytesMax = 256 << 20

// client does one command.
type client struct {
	addr    string
	timeout time.Duration
	stdin   io.Reader
	stdout  io.Writer
}

// run does the command name. It returns a *usageError, errAnswered, or what went
// wrong on the way.
func (c *client) run(name string, args []string) error {
	arguments := map[string]int{"account": 2, "symbol": 1, "place": 3, "buy": 4, "sell": 4, "query": 2, "cancel": 2, "send": 1, "journal": 1}
	want, known := arguments[name]
	switch {
	case !known:
		return &usageError{fmt.Sprintf("unknown command %q; outcry --help lists them", name)}
	case len(args) != want:
		return &usageError{fmt.Sprintf("%s takes %d arguments, not %d; outcry --help shows them", name, want, len(args))}
	}
	switch name {
	case "journal":
		return printJournal(args[0], c.stdout)
	case "send":
		return c.send(args[0])
	}
	xml, err := frame(name, args)
	if err != nil {
		return err
	}
	return c.ask(xml)
}

// frame builds the XML of a command.
func frame(name string, a []string) ([]byte, error) {
	switch name {
	case "account":
		return new(wire.Create).Account(wire.Account{ID: a[0], Balance: a[1]}).Append(nil), nil
	case "symbol":
		return new(wire.Create).Symbol(a[0]).Append(nil), nil
	case "place":
		return new(wire.Create).Symbol(a[0], wire.Placement{Account: a[1], Shares: a[2]}).Append(nil), nil
	case "query":
		return wire.NewTransactions(a[0]).Query(a[1]).Append(nil), nil
	case "cancel":
		return wire.NewTransactions(a[0]).Cancel(a[1]).Append(nil), nil
	}
	amount := a[2]
	if strings.HasPrefix(amount, "-") {
		return nil, &usageError{fmt.Sprintf("%s of %s shares: the number of shares is positive, %s says the side", name, amount, name)}
	}
	if name == "sell" {
		amount = "-" + strings.TrimPrefix(amount, "+")
	}
	return wire.NewTransactions(a[0]).Order(a[1], amount, a[3]).Append(nil), nil
}

// ask sends a frame and prints its answers in words.
func (c *client) ask(xml []byte) error {
	reply, err := c.exchange(xml)
	if err != nil {
		return err
	}
	answers, err := wire.ParseReply(reply)
	if err != nil {
		return err
	}
	for _, a := range answers {
		printAnswer(c.stdout, a)
		if a.Kind == "error" {
			err = errAnswered
		}
	}
	return err
}

// send sends a file's XML as it is and prints the reply as it comes.
func (c *client) send(path string) error {
	var xml []byte
	var err error
	if path == "-" {
		xml, err = io.ReadAll(c.stdin)
	} else {
		xml, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	reply, err := c.exchange(xml)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s\n", reply)
	answers, err := wire.ParseReply(reply)
	for _, a := range answers {
		if a.Kind == "error" {
			err = errAnswered
		}
	}
	return err
}

// exchange sends one frame and returns the reply's XML.
func (c *client) exchange(xml []byte) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", c.addr, c.timeout)
	if err != nil {
		return nil, fmt.Errorf("is the exchange running? %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire.AppendFrame(nil, xml)); err != nil {
		return nil, fmt.Errorf("send to %s: %w", c.addr, err)
	}
	reply, err := wire.NewFrameReader(conn, replyBytesMax).Next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s closed the connection without an answer", c.addr)
	}
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", c.addr, err)
	}
	return reply, nil
}

// printAnswer says in words what the exchange answered.
func printAnswer(w io.Writer, a wire.Answer) {
	switch a.Kind {
	case "created":
		switch {
		case a.Sym == "":
			fmt.Fprintf(w, "account %s opened\n", a.ID)
		case a.ID == "":
			fmt.Fprintf(w, "symbol %s made\n", a.Sym)
		default:
			fmt.Fprintf(w, "shares of %s placed with account %s\n", a.Sym, a.ID)
		}
	case "opened":
		verb, shares := "buys", a.Amount
		if rest, ok := strings.CutPrefix(a.Amount, "-"); ok {
			verb, shares = "sells", rest
		}
		fmt.Fprintf(w, "order %s %s %s %s at %s\n", a.ID, verb, shares, a.Sym, a.Limit)
	case "status", "canceled":
		fmt.Fprintf(w, "order %s\n", a.ID)
		if a.Open != "" {
			fmt.Fprintf(w, "  open      %s\n", a.Open)
		}
		if a.Canceled != "" {
			fmt.Fprintf(w, "  canceled  %s  %s\n", a.Canceled, when(a.CanceledAt))
		}
		for _, x := range a.Executed {
			fmt.Fprintf(w, "  executed  %s at %s  %s\n", x.Shares, x.Price, when(x.Time))
		}
	case "error":
		fmt.Fprintf(w, "error: %s\n", a.Error)
	}
}
