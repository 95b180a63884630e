package binance

import (
	"errors"
	"time"

	"outcry/internal/door"
	"outcry/internal/door/asof"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// do executes commands for the requesting account, and returns once their results are durable. Rejects are in the
// results. The error means that nothing was executed, or that it is unknown whether anything was.
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
	if !q.expires.IsZero() && time.Now().After(q.expires) { // the request has waited for the view
		return nil, errTooOld
	}
	results := make([]door.Outcome, len(commands))
	caller := server.Request(q.grant)
	caller.Expire(q.expires)
	pending, err := server.Call(q.ctx, caller, requests, results)
	switch {
	case errors.Is(err, door.ErrExpired):
		return nil, errTooOld
	case errors.Is(err, door.ErrBusy), errors.Is(err, door.ErrUndone), errors.Is(err, door.ErrAborted):
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

// one executes one command, and returns its result, or the error if it was not executed.
func (d *Door) one(q *request, c exchange.Command) (*door.Outcome, *Error) {
	c.Account = q.account
	results, problem := d.do(q, c)
	if problem != nil {
		return nil, problem
	}
	return &results[0], refused(&c, &results[0])
}

// refused returns the error for a command that was not executed, or nil if it was.
func refused(c *exchange.Command, o *door.Outcome) *Error {
	switch {
	case o.Refusal.Reason != exchange.OK:
		return refusal(o.Refusal.Reason, o.Refusal.Text)
	case o.Reason != exchange.OK:
		return refusal(o.Reason, o.Text(c))
	}
	return nil
}

// watch makes the view keep the events of the requesting account until release is called.
func (d *Door) watch(q *request) (release func()) {
	if view := d.options.View(); view != nil {
		return view.Watch(q.account)
	}
	return func() {}
}

// arrived waits until everything answered before the request arrived is durable, and returns the newest record
// included in that. On a standby, which serves only market data, the record is unknown and 0 is returned.
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

// seen returns the view once it includes everything answered before the request, and the record that arrived
// returns.
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

// stored returns the tables once they include everything answered before the request.
func (d *Door) stored(q *request) (asof.History, *Error) {
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

// feed returns market data once it includes everything answered before the request.
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

// market calls read with the market of a symbol.
func (d *Door) market(q *request, sym exchange.Symbol, read func(*market.Market)) *Error {
	feed, problem := d.feed(q)
	if problem != nil {
		return problem
	}
	return problemOf(feed.View(sym, read))
}

// problemOf maps an error of the feed or the view to the door's error, nil to nil.
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

// symbol parses the required parameter symbol.
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

// number parses a whole number from least to most, and returns standard if the parameter is absent. A number above most
// becomes most if cut is set, and is an error otherwise.
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

// time parses a time in milliseconds or microseconds since the Unix epoch, and returns it in nanoseconds. It returns 0
// if the parameter is absent.
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

// microsMax is the latest time that a request may give, in microseconds since the Unix epoch, some centuries from now.
const microsMax = 9_000_000_000_000_000
