package binance

import (
	"context"
	"errors"

	"outcry/internal/door"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// History are the tables of the database, which have what memory no longer has. Its methods may be called from any
// goroutine; an error means that it could not be asked.
type History interface {
	// OrderDetail returns an order as the tables have it, and whose it is.
	OrderDetail(ctx context.Context, id exchange.OrderID) (o exchange.OrderDetail, account exchange.AccountID,
		fills []exchange.AccountFill, found bool, err error)
	// OrderAtFirstDetail returns an order as its own records left it, with the fills of those.
	OrderAtFirstDetail(ctx context.Context, id exchange.OrderID) (o exchange.OrderDetail, account exchange.AccountID,
		fills []exchange.AccountFill, found bool, err error)
	// AccountOrders returns orders of an account at a symbol, oldest first.
	AccountOrders(ctx context.Context, id exchange.AccountID, sym exchange.Symbol, from exchange.OrderID, start, end int64,
		limit int) ([]exchange.OrderDetail, error)
	// Trades returns executions of an account at a symbol, oldest first.
	Trades(ctx context.Context, id exchange.AccountID, sym exchange.Symbol, fromTrade uint64, order exchange.OrderID,
		start, end int64, limit int) ([]exchange.AccountFill, error)
	// RefRecord returns the record that used a ref of an account, and the order that it made, or left after an amend.
	RefRecord(ctx context.Context, account exchange.AccountID, ref exchange.Ref) (
		seq uint64, order exchange.OrderID, found bool, err error)
	// WaitApplied returns once the tables have a record.
	WaitApplied(ctx context.Context, seq uint64) error
}

// do executes commands of the account that asks, and returns once their results may be told. Their refusals are in the
// results; the error says that nothing was done, or that it is not known whether something was.
func (d *Door) do(q *request, commands ...exchange.Command) ([]door.Outcome, *Error) {
	server, view := d.options.Sessions(), d.options.View()
	if server == nil || view == nil || view.Err() != nil {
		return nil, errNow
	}
	requests := make([]engine.Request, len(commands))
	for i := range commands {
		commands[i].Account = q.account
		requests[i].Command = commands[i]
	}
	results := make([]door.Outcome, len(commands))
	pending, err := server.Call(q.ctx, server.Request(q.grant), requests, results)
	switch {
	case errors.Is(err, door.ErrBusy):
		return nil, errNow
	case errors.Is(err, door.ErrUnauthorized):
		return nil, errUnknownKey
	case err != nil:
		return nil, errUnknown
	}
	pending.Complete(q.ctx)
	if err := pending.Wait(q.ctx); err != nil {
		return nil, errUnknown
	}
	return results, nil
}

// one executes one command, and returns its result or why it was not done.
func (d *Door) one(q *request, c exchange.Command) (*door.Outcome, *Error) {
	c.Account = q.account
	results, problem := d.do(q, c)
	if problem != nil {
		return nil, problem
	}
	return &results[0], refused(&c, &results[0])
}

// refused returns why a command was not done, nil if it was.
func refused(c *exchange.Command, o *door.Outcome) *Error {
	switch {
	case o.Refusal.Reason != exchange.OK:
		return refusal(o.Refusal.Reason, o.Refusal.Text)
	case o.Reason != exchange.OK:
		return refusal(o.Reason, o.Text(c))
	}
	return nil
}

// watch has the view keep what commands do to the account that asks.
func (d *Door) watch(q *request) (release func()) {
	if view := d.options.View(); view != nil {
		return view.Watch(q.account)
	}
	return func() {}
}

// arrived waits until all that was answered before a request came may be told, and returns the record up to which that
// is. A standby, which answers about the market alone, knows no such record.
func (d *Door) arrived(q *request) (seq uint64, problem *Error) {
	server := d.options.Sessions()
	if server == nil {
		return 0, nil
	}
	mark := server.Mark()
	if err := server.Durable(q.ctx, mark); err != nil {
		return 0, errNow
	}
	return mark.Seq, nil
}

// seen returns the view once it has what was answered before, and the record up to which that is.
func (d *Door) seen(q *request) (view *accounts.View, seq uint64, problem *Error) {
	if view = d.options.View(); view == nil || d.options.Sessions() == nil {
		return nil, 0, errNow
	}
	if seq, problem = d.arrived(q); problem != nil {
		return nil, 0, problem
	}
	if err := view.Await(q.ctx, seq); err != nil {
		return nil, 0, errNow
	}
	return view, seq, nil
}

// stored returns the tables once they have what was answered before.
func (d *Door) stored(q *request) (History, *Error) {
	if d.options.Sessions() == nil {
		return nil, errNow
	}
	seq, problem := d.arrived(q)
	if problem != nil {
		return nil, problem
	}
	if err := d.options.History().WaitApplied(q.ctx, seq); err != nil {
		return nil, errNow
	}
	return d.options.History(), nil
}

// feed returns market data once it has what was answered before.
func (d *Door) feed(q *request) (*market.Feed, *Error) {
	feed := d.options.Feed()
	if feed == nil {
		return nil, errNow
	}
	seq, problem := d.arrived(q)
	if problem != nil {
		return nil, problem
	}
	if err := feed.Await(q.ctx, seq); err != nil {
		return nil, errNow
	}
	return feed, nil
}

// view calls read with the market of a symbol.
func (d *Door) market(q *request, sym exchange.Symbol, read func(*market.Market)) *Error {
	feed, problem := d.feed(q)
	if problem != nil {
		return problem
	}
	return problemOf(feed.View(sym, read))
}

// problemOf returns what an error of the feed or the view is answered with, nil for none.
func problemOf(err error) *Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, market.ErrUnknownSymbol), errors.Is(err, accounts.ErrUnknownSymbol):
		return errSymbol
	case errors.Is(err, accounts.ErrUnknownAccount):
		return errUnknownKey
	}
	return errNow
}

// symbol reads the parameter symbol, which must be there.
func (q *request) symbol() (exchange.Symbol, *Error) {
	value, problem := q.need("symbol")
	if problem != nil {
		return "", problem
	}
	sym, ok := symbolOf(value)
	if !ok {
		return "", errSymbol
	}
	return sym, nil
}

// number reads a whole number from least to most, standard if it is not there. What is above most becomes most if cut,
// and is an error otherwise.
func (q *request) number(name string, standard, least, most int64, cut bool) (int64, *Error) {
	value := q.get(name)
	if value == "" {
		return standard, nil
	}
	n, problem := whole(name, value, least)
	switch {
	case problem != nil:
		return 0, problem
	case n > most && !cut:
		return 0, bad(-1130, "Data sent for parameter '"+name+"' is not valid.")
	}
	return min(n, most), nil
}

// time reads a time, in milliseconds or microseconds since the Unix epoch, and returns it in nanoseconds; 0 if it is
// not there.
func (q *request) time(name string) (nanos int64, problem *Error) {
	value := q.get(name)
	if value == "" {
		return 0, nil
	}
	n, problem := whole(name, value, 0)
	const perMilli, perMicro = 1_000_000, 1000
	if n > microsFrom {
		return min(n, microsMax) * perMicro, problem
	}
	return min(n, microsMax/1000) * perMilli, problem
}

// microsMax is the latest time that a request may name, some centuries from now, in microseconds.
const microsMax = 9_000_000_000_000_000
