package jsonrpc

import (
	"context"
	"errors"

	"outcry/internal/door/asof"
	"outcry/internal/exchange"
)

// orderFault returns the answer to a query that an error of asof.Orders ended: a fault, or ctx's error.
func (d *Door) orderFault(ctx context.Context, q *asof.Query, err error) error {
	r, c := exchange.Result{Order: q.Order}, exchange.Command{Kind: exchange.QueryOrder, Order: q.Order}
	switch {
	case errors.Is(err, asof.ErrView):
		return unseenOr(ctx)
	case errors.Is(err, asof.ErrHistory), errors.Is(err, asof.ErrUnknown):
		r.Reason = exchange.HistoryUnavailable
	case errors.Is(err, asof.ErrForeign): // an administrator may ask the engine for any order
		if r.Reason, c.Account = exchange.ForeignOrder, q.Account; d.options.Tokens != nil {
			r.Reason = exchange.UnknownOrder // does not reveal that the order exists
		}
	default:
		return err
	}
	return refused(r.Reason, r.Text(&c))
}

// orderNow returns the state of an order at record q.Seq or later, and the number of that record. An error is a fault
// or ctx's.
func (d *Door) orderNow(ctx context.Context, q asof.Query) (o exchange.OrderWithFills, seq uint64, err error) {
	if o, seq, err = d.asof.Now(ctx, q); err != nil {
		return o, 0, d.orderFault(ctx, &q, err)
	}
	return o, seq, nil
}

// orderMade returns the order that a command accepted, as the order's own records left it. last is the last of
// these records, or 0 if the command was sent again; q.Seq is then a later record. If last is not 0, an error is
// errBroken, otherwise a fault or ctx's.
func (d *Door) orderMade(ctx context.Context, q asof.Query, last uint64) (exchange.OrderWithFills, error) {
	if last != 0 {
		q.Seq = last
	}
	o, err := d.asof.First(ctx, q)
	switch {
	case err == nil:
		return o, nil
	case last != 0:
		return o, errors.Join(errBroken, err)
	}
	return o, d.orderFault(ctx, &q, err)
}

// orderAt returns an order as of record q.Seq: a command's, or a later one if the command wrote none. An error is
// errBroken.
func (d *Door) orderAt(ctx context.Context, q asof.Query) (exchange.OrderWithFills, error) {
	o, err := d.asof.At(ctx, q)
	if err != nil {
		return o, errors.Join(errBroken, err)
	}
	return o, nil
}

// orderOfRef returns an order in its state after the amend with a ref, which was sent again. q.Seq is a record
// after the amend's. An error is a fault or ctx's.
func (d *Door) orderOfRef(ctx context.Context, q asof.Query, ref exchange.Ref) (exchange.OrderWithFills, error) {
	o, err := d.asof.AtRef(ctx, q, ref)
	if err != nil {
		return o, d.orderFault(ctx, &q, err)
	}
	return o, nil
}

// unseenOr returns the fault of a view that does not answer, or the error of ctx if it has ended.
func unseenOr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return unseen()
}
