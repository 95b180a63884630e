package client

import (
	"fmt"
	"strconv"
	"time"

	"outcry/internal/door/xml/wire"
)

// Result is the result of a command. Fields that the command does not set are zero.
type Result struct {
	Command Command // the command as it was sent, with its ref
	Order   OrderID // number of the order that was placed, queried, canceled or amended
	By      OrderID // after an amend: the order that has replaced it, 0 if it keeps its priority
	// Status of the order after a query or cancel, and after an order with Instructions.Report. After an amend: the
	// amend's effect on the order, or with Report the status of By.
	Status  Status
	Count   int         // KindCancelAll: number of orders that were canceled
	Account *Account    // KindShowAccount: the account
	Orders  []OpenOrder // KindListOrders: in order of their numbers
	Fills   []Fill      // KindListFills: oldest first
	More    bool        // for lists: there may be further orders or fills, even if this page has none
	After   uint64      // with More: number of the order or fill after which the next page begins
	Refused *Refused    // nil if the command was executed
}

// Err returns Refused as an error, nil if the command was executed.
func (r *Result) Err() error {
	if r.Refused == nil {
		return nil
	}
	return r.Refused
}

// Status is the state of an order.
type Status struct {
	Order      OrderID
	Open       Decimal   // open shares
	Canceled   Decimal   // canceled shares
	CanceledAt time.Time // zero if nothing was canceled
	Replaced   OrderID   // the order by which an amend replaced this one, 0 if none did
	Reduced    Decimal   // shares by which amends reduced the order
	ReducedAt  time.Time // time of the last reduction; zero if there was none
	Executed   []Execution
	More       bool // with Instructions.Report: there are further executions, which a query returns
}

// Filled returns the total shares of all executions.
func (s *Status) Filled() Decimal {
	var sum Decimal
	for i := range s.Executed {
		sum = sum.Add(s.Executed[i].Shares)
	}
	return sum
}

// Execution is an execution of a part of an order. Executions are listed oldest first.
type Execution struct {
	Shares Decimal
	Price  Decimal   // dollars a share
	Time   time.Time // to the second
}

// lastWords returns the text that the exchange sends before it closes a connection, or nil if the answers belong to a
// frame. Every command that is sent has attributes, and an error about it repeats them; last words have none.
func lastWords(answers []wire.Answer) *LastWords {
	if len(answers) != 1 {
		return nil
	}
	a := &answers[0]
	if a.Kind != "error" || a.ID != "" || a.Order != (wire.Order{}) {
		return nil
	}
	return &LastWords{a.Error}
}

// resultsOf converts the answers to commands to results. The error says why the answers do not fit the commands.
func resultsOf(commands []Command, answers []wire.Answer) ([]Result, error) {
	if padded(commands) && len(answers) == 2 && answers[1].Kind == "error" {
		answers = answers[:1]
	}
	if len(answers) != len(commands) {
		return nil, fmt.Errorf("%d commands have %d answers", len(commands), len(answers))
	}
	results := make([]Result, len(commands))
	for i := range answers {
		results[i].Command = commands[i]
		if err := results[i].setAnswer(&answers[i]); err != nil {
			return nil, fmt.Errorf("%v: %w", commands[i], err)
		}
	}
	return results, nil
}

// setAnswer sets the fields of r from the answer to r.Command.
func (r *Result) setAnswer(a *wire.Answer) (err error) {
	c := &r.Command
	switch want := answerOf[c.Kind]; {
	case a.Kind == "error":
		r.Refused = &Refused{Sent: *c, Text: a.Error}
		return nil
	case a.Kind != want:
		return fmt.Errorf("it contains the unexpected answer %q", a.Kind)
	case !c.answeredBy(a):
		return fmt.Errorf("it contains the answer to another command")
	case c.creates():
		return nil
	}
	switch c.Kind {
	case KindCancelAll:
		if r.Count, err = strconv.Atoi(a.Count); err == nil && r.Count < 0 {
			err = fmt.Errorf("%.64q is not a number of orders", a.Count)
		}
		return err
	case KindCancelAfter:
		return nil
	case KindShowAccount, KindListOrders, KindListFills:
		return r.takeView(a)
	}
	if r.Order, err = parseID(a.ID); err != nil {
		return err
	}
	if a.By != "" {
		if r.By, err = parseID(a.By); err != nil {
			return err
		}
	}
	of := r.Order
	switch {
	case c.Kind == KindAmend && r.By != 0:
		of = r.By
	case c.orders() && !c.Report:
		return nil
	}
	r.Status, err = statusOf(of, a)
	return err
}

// answerOf is the name of the element that answers an executed command.
var answerOf = [...]string{KindOpenAccount: "created", KindMakeSymbol: "created", KindPlace: "created",
	KindBuy: "opened", KindSell: "opened", KindQuery: "status", KindCancel: "canceled", KindAmend: "amended",
	KindCancelAll: "canceled-all", KindCancelAfter: "cancel-after", KindShowAccount: "account", KindListOrders: "orders",
	KindListFills: "fills"}

// answeredBy reports whether an answer of the right kind repeats the values that the command sent.
func (c *Command) answeredBy(a *wire.Answer) bool {
	switch c.Kind {
	case KindOpenAccount:
		return a.Sym == "" && a.ID == c.Account
	case KindMakeSymbol, KindPlace:
		return a.Sym == c.Symbol && a.ID == c.Account
	case KindBuy, KindSell:
		sent := wire.Order{Sym: c.Symbol, Amount: c.signed().String(), Limit: c.Limit.String()}
		if c.Market {
			sent.Limit = given(c.Limit)
		}
		return a.Sym == sent.Sym && a.Amount == sent.Amount && a.Limit == sent.Limit
	case KindCancelAll:
		return a.Sym == c.Symbol
	case KindCancelAfter:
		return a.Seconds == strconv.FormatInt(int64(c.After/time.Second), 10)
	case KindShowAccount:
		return a.ID == c.Account
	case KindListOrders, KindListFills:
		return true
	}
	return c.Order == 0 || a.ID == c.Order.String()
}

func statusOf(order OrderID, a *wire.Answer) (s Status, err error) {
	s.Order = order
	if s.Open, err = parseShares(a.Open); err != nil {
		return s, err
	}
	if s.Canceled, err = parseShares(a.Canceled); err != nil {
		return s, err
	}
	if a.Canceled != "" {
		if s.CanceledAt, err = parseTime(a.CanceledAt); err != nil {
			return s, err
		}
	}
	if s.Reduced, err = parseShares(a.Reduced); err != nil {
		return s, err
	}
	if a.Reduced != "" {
		if s.ReducedAt, err = parseTime(a.ReducedAt); err != nil {
			return s, err
		}
	}
	if a.Replaced != "" {
		if s.Replaced, err = parseID(a.Replaced); err != nil {
			return s, err
		}
	}
	if s.More = a.More; len(a.Executed) == 0 {
		return s, nil
	}
	s.Executed = make([]Execution, len(a.Executed))
	for i, x := range a.Executed {
		e := &s.Executed[i]
		if e.Shares, err = parsePositive(x.Shares); err != nil {
			return s, err
		}
		if e.Price, err = parsePositive(x.Price); err != nil {
			return s, err
		}
		if e.Time, err = parseTime(x.Time); err != nil {
			return s, err
		}
	}
	return s, nil
}

func parseID(s string) (OrderID, error) {
	id, err := strconv.ParseUint(s, 10, 63)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%.64q is not an order number", s)
	}
	return OrderID(id), nil
}

// parseShares is like parsePositive, but "" is 0: the attribute is absent.
func parseShares(s string) (Decimal, error) {
	if s == "" {
		return Decimal{}, nil
	}
	return parsePositive(s)
}

func parsePositive(s string) (Decimal, error) {
	d, err := ParseDecimal(s)
	if err == nil && d.Sign() <= 0 {
		err = fmt.Errorf("%.64q is not more than 0", s)
	}
	return d, err
}

func parseTime(s string) (time.Time, error) {
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.64q is not a time in seconds", s)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
