package main

import (
	"fmt"
	"io"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/process/phrase"
)

// printResult prints the result of a command in words.
func printResult(w io.Writer, r *api.Result) {
	if r.Refused != nil {
		fmt.Fprintf(w, "error: %s\n", r.Refused.Text)
		return
	}
	switch c := &r.Command; c.Kind {
	case api.KindOpenAccount:
		fmt.Fprintf(w, "account %s opened\n", c.Account)
	case api.KindMakeSymbol:
		fmt.Fprintf(w, "symbol %s made\n", c.Symbol)
	case api.KindPlace:
		fmt.Fprintf(w, "%v %s placed with account %s\n", c.Shares, c.Symbol, c.Account)
	case api.KindBuy:
		fmt.Fprintf(w, "order %v buys %v %s at %v\n", r.Order, c.Shares, c.Symbol, priceOf(c))
		printReport(w, r)
	case api.KindSell:
		fmt.Fprintf(w, "order %v sells %v %s at %v\n", r.Order, c.Shares, c.Symbol, priceOf(c))
		printReport(w, r)
	case api.KindQuery, api.KindCancel:
		fmt.Fprintf(w, "order %v\n", r.Order)
		printStatus(w, &r.Status)
	case api.KindAmend:
		if r.By == 0 {
			fmt.Fprintf(w, "order %v is amended\n", r.Order)
			printStatus(w, &r.Status)
		} else {
			fmt.Fprintf(w, "order %v is replaced by order %v\n", r.Order, r.By)
			printReport(w, r)
		}
	case api.KindCancelAll:
		fmt.Fprintf(w, "%s of account %s canceled\n", phrase.Number(r.Count, "order"), c.Account)
	case api.KindCancelAfter:
		if c.After == 0 {
			fmt.Fprintf(w, "the dead man's switch of account %s is off\n", c.Account)
		} else {
			fmt.Fprintf(w, "all orders of account %s are canceled after %v\n", c.Account, c.After)
		}
	case api.KindShowAccount:
		printAccount(w, r.Account)
	case api.KindListOrders:
		for i := range r.Orders {
			printOrder(w, &r.Orders[i])
		}
	case api.KindListFills:
		for i := range r.Fills {
			x := &r.Fills[i]
			fmt.Fprintf(w, "fill %d  order %v %s %v %s at %v  %s\n", x.N, x.Order, verb(x.Side, "bought", "sold"), x.Shares,
				x.Symbol, x.Price, x.Time.Format(time.RFC3339))
		}
	}
}

// priceOf returns the limit to print for an order, or "market" if it has none.
func priceOf(c *api.Command) string {
	if c.Market && c.Limit.Sign() == 0 {
		return "market"
	}
	return c.Limit.String()
}

// verb returns one of its arguments buy and sell, by the side.
func verb(side api.Kind, buy, sell string) string {
	if side == api.KindBuy {
		return buy
	}
	return sell
}

// printReport prints what an order executed at once, if the command asked for a report.
func printReport(w io.Writer, r *api.Result) {
	if r.Command.Report {
		printStatus(w, &r.Status)
	}
}

func printStatus(w io.Writer, s *api.Status) {
	if s.Open.Sign() > 0 {
		fmt.Fprintf(w, "  open      %v\n", s.Open)
	}
	if s.Canceled.Sign() > 0 {
		fmt.Fprintf(w, "  canceled  %v  %s\n", s.Canceled, s.CanceledAt.Format(time.RFC3339))
	}
	if s.Replaced != 0 {
		fmt.Fprintf(w, "  replaced  by order %v\n", s.Replaced)
	}
	if s.Reduced.Sign() > 0 {
		fmt.Fprintf(w, "  reduced   %v  %s\n", s.Reduced, s.ReducedAt.Format(time.RFC3339))
	}
	for _, x := range s.Executed {
		fmt.Fprintf(w, "  executed  %v at %v  %s\n", x.Shares, x.Price, x.Time.Format(time.RFC3339))
	}
	if s.More {
		fmt.Fprintln(w, "  and more; outcry query shows all")
	}
}

func printAccount(w io.Writer, a *api.Account) {
	fmt.Fprintf(w, "account %s has %s free, %s held\n", a.ID, a.Balance, a.Held)
	for _, p := range a.Positions {
		fmt.Fprintf(w, "  %-8s %v free, %v held\n", p.Symbol, p.Shares, p.Held)
	}
}

func printOrder(w io.Writer, o *api.OpenOrder) {
	fmt.Fprintf(w, "order %v %s %v %s at %v, %v open  %s", o.Order, verb(o.Side, "buys", "sells"), o.Shares, o.Symbol,
		o.Limit, o.Open, o.Time.Format(time.RFC3339))
	if o.Post {
		fmt.Fprint(w, "  post")
	}
	if o.STP != "" {
		fmt.Fprintf(w, "  stp %s", o.STP)
	}
	if o.COD == api.Cancels {
		fmt.Fprint(w, "  cod")
	}
	fmt.Fprintln(w)
}
