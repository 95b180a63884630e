package jsonrpc

import (
	"context"
	"errors"
	"time"

	"outcry/internal/door"
	"outcry/internal/exchange"
)

// historyTimeout bounds how long an answer waits for the database.
const historyTimeout = 5 * time.Second

// steadyTries is how often an order is read before one that has changed meanwhile is told all the same.
const steadyTries = 3

// orderWithFills is an order and its newest fills, oldest first.
type orderWithFills struct {
	exchange.OrderDetail
	fills []exchange.AccountFill
}

// complete reports whether the fills are all that the order has, or as many as are told.
func (o *orderWithFills) complete() bool {
	var executed exchange.Shares
	for i := range o.fills {
		executed += o.fills[i].Shares
	}
	return executed == o.Executed || len(o.fills) >= fillsMax
}

// collect builds from events the order as of the event at last, and reports whether the events have the order.
func (o *orderWithFills) collect(id exchange.OrderID, events []*exchange.AccountEvent) (found bool) {
	o.fills = nil
	for _, e := range events {
		for i := range e.Orders {
			if e.Orders[i].ID == id {
				o.OrderDetail, found = e.Orders[i].OrderDetail, true
			}
		}
		for i := range e.Fills {
			if e.Fills[i].Order == id {
				o.fills = append(o.fills, e.Fills[i])
			}
		}
	}
	return found
}

// fromTables says which state of an order the database is asked for.
type fromTables uint8

const (
	asStored    fromTables = iota // as it is
	atFirst                       // as it was behind its own records
	afterRecord                   // as it was behind a record that changed it
)

// orderAt returns an order as it was behind a record. What is not kept of it is in the database, of which from asks.
// The error that is no fault says that it is not known: then the client cannot be answered.
func (d *Door) orderAt(
	ctx context.Context, account exchange.AccountID, id exchange.OrderID, seq uint64, from fromTables,
) (o orderWithFills, err error) {
	events, err := d.view().Did(ctx, account, id, seq)
	if err != nil {
		return o, errors.Join(errBroken, err)
	}
	if o.collect(id, events) && o.complete() {
		return o, nil
	}
	if o, err = d.stored(ctx, account, id, seq, from); err != nil {
		return o, errors.Join(errBroken, errors.New(err.Error()))
	}
	return o, nil
}

// orderAgain returns an order as it was behind its own records: what an order that is sent again is answered with.
// was is how it was, as the engine knows it; seq is a record behind them.
func (d *Door) orderAgain(
	ctx context.Context, account exchange.AccountID, id exchange.OrderID, was *exchange.Status, seq uint64,
) (o orderWithFills, err error) {
	events, err := d.view().Did(ctx, account, id, seq)
	if err != nil {
		return o, unseenOr(ctx)
	}
	if accepts(events, id) {
		for n := range events {
			if o.collect(id, events[:n+1]) && o.Open == was.Open && o.Canceled == was.Canceled && o.complete() {
				return o, nil
			}
		}
	}
	return d.stored(ctx, account, id, seq, atFirst)
}

// accepts reports whether the events have the acceptance of an order.
func accepts(events []*exchange.AccountEvent, id exchange.OrderID) bool {
	if len(events) == 0 {
		return false
	}
	for i := range events[0].Orders {
		if o := &events[0].Orders[i]; o.ID == id {
			return o.New
		}
	}
	return false
}

// orderOfRef returns an order as it was behind the amend of a ref: what an amend that is sent again is answered with.
// seq is a record behind it.
func (d *Door) orderOfRef(
	ctx context.Context, account exchange.AccountID, id exchange.OrderID, ref exchange.Ref, seq uint64,
) (o orderWithFills, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if err := d.options.History().WaitApplied(ctx, seq); err != nil {
		return o, notStored(id)
	}
	at, _, found, err := d.options.History().RefRecord(ctx, account, ref)
	if err != nil || !found {
		return o, notStored(id)
	}
	return d.stored(ctx, account, id, at, afterRecord)
}

// orderNow returns the state of an order at record seq or later, and the record that the state is of.
func (d *Door) orderNow(ctx context.Context, account exchange.AccountID, id exchange.OrderID, seq uint64) (
	o orderWithFills, at uint64, err error,
) {
	v := d.view()
	if err := v.Await(ctx, seq); err != nil {
		return o, 0, unseenOr(ctx)
	}
	for range steadyTries {
		at = v.Seq()
		detail, fills, missing, open := v.Order(account, id)
		if o = (orderWithFills{detail, fills}); !open {
			o, err = d.closed(ctx, account, id, at)
			return o, at, err
		}
		if missing > 0 && len(fills) < fillsMax {
			stored, err := d.stored(ctx, account, id, at, asStored)
			if err != nil {
				return o, 0, err
			}
			if stored.Executed == o.Executed {
				o.fills = stored.fills
			} else {
				continue
			}
		}
		if v.Seq() == at {
			break
		}
	}
	return o, at, nil
}

// closed returns an order that is closed at a record.
func (d *Door) closed(ctx context.Context, account exchange.AccountID, id exchange.OrderID, at uint64) (
	o orderWithFills, err error,
) {
	events, err := d.view().Did(ctx, account, id, at)
	if err != nil {
		return o, unseenOr(ctx)
	}
	if o.collect(id, events) && o.complete() {
		return o, nil
	}
	return d.stored(ctx, account, id, at, asStored)
}

// stored returns an order as the database has it once it has a record, or had it then.
func (d *Door) stored(
	ctx context.Context, account exchange.AccountID, id exchange.OrderID, seq uint64, from fromTables,
) (o orderWithFills, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if err := d.options.History().WaitApplied(ctx, seq); err != nil {
		return o, notStored(id)
	}
	h, owner, found := d.options.History(), exchange.AccountID(""), false
	switch from {
	case asStored:
		o.OrderDetail, owner, o.fills, found, err = h.OrderDetail(ctx, id)
	case atFirst:
		o.OrderDetail, owner, o.fills, found, err = h.OrderAtFirstDetail(ctx, id)
	case afterRecord:
		o.OrderDetail, owner, o.fills, found, err = h.OrderDetailAfter(ctx, id, seq)
	}
	if err != nil || !found {
		return o, notStored(id)
	}
	if owner != account { // an administrator may ask the engine for any order
		return o, d.foreign(account, id)
	}
	return o, nil
}

// foreign returns the fault of a query of an order that belongs to another account than the one named.
func (d *Door) foreign(account exchange.AccountID, id exchange.OrderID) *fault {
	r := exchange.Result{Reason: door.ForeignOrderReason(d.options.Tokens), Order: id}
	return refused(r.Reason, r.Text(&exchange.Command{Kind: exchange.QueryOrder, Account: account, Order: id}))
}

// notStored is the fault of an order that only the database knows, which does not answer.
func notStored(id exchange.OrderID) *fault {
	r := exchange.Result{Reason: exchange.HistoryUnavailable, Order: id}
	return refused(r.Reason, r.Text(&exchange.Command{Kind: exchange.QueryOrder, Order: id}))
}

// unseenOr returns the fault of a view that does not answer, or why nobody waits for it any more.
func unseenOr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return unseen()
}
