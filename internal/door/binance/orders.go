package binance

import (
	"errors"
	"time"

	"outcry/internal/door/asof"
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// cancelBatch is how many orders are canceled in one frame when all orders of a symbol are canceled.
const cancelBatch = 500

// placeOrder answers POST order.
func (d *Door) placeOrder(q *request) (work, *Error) {
	c, resp, problem := readOrder(q)
	return func() ([]byte, *Error) {
		defer d.watch(q)()
		done, problem := d.one(q, c)
		if problem != nil {
			return nil, problem
		}
		o, problem := d.first(q, done.Order, done.Seq)
		if problem != nil {
			return nil, problem
		}
		return appendNew(nil, o, resp), nil
	}, problem
}

// testOrder answers POST order/test. It checks everything that does not depend on the account and the book.
func (d *Door) testOrder(q *request) (work, *Error) {
	c, _, problem := readOrder(q)
	return func() ([]byte, *Error) {
		var rules exchange.SymbolRules
		if problem := d.market(q, c.Symbol, func(m *market.Market) { rules = m.Rules() }); problem != nil {
			return nil, problem
		}
		switch {
		case !rules.OnTick(c.Limit):
			return nil, refusals[exchange.OffTick]
		case !rules.OnLot(c.Shares):
			return nil, refusals[exchange.OffLot]
		}
		return []byte("{}"), nil
	}, problem
}

// first returns an order as the records of its acceptance left it. seq is the last of these records. It is 0 if the
// order already existed and its client id was sent again.
func (d *Door) first(q *request, id exchange.OrderID, seq uint64) (*exchange.OrderWithFills, *Error) {
	if seq == 0 {
		var problem *Error
		if _, seq, problem = d.seen(q); problem != nil {
			return nil, problem
		}
	}
	o, err := d.asof.First(q.ctx, asof.Query{Account: q.account, Order: id, Seq: seq, Fills: true})
	if err != nil {
		return nil, errUnknown
	}
	return &o, nil
}

// find returns an open or closed order of the requesting account, in its state when the request arrived or later. It
// returns nil if the account has no such order at that symbol.
func (d *Door) find(q *request, n named) (*exchange.OrderDetail, *Error) {
	_, seq, problem := d.seen(q)
	if problem != nil {
		return nil, problem
	}
	if n.id != 0 {
		return d.detail(q, n.symbol, n.id, seq)
	}
	done, problem := d.one(q, exchange.Command{Kind: exchange.QueryOrder, Ref: n.client})
	switch {
	case problem == errCancelUnknown:
		return nil, nil
	case problem != nil:
		return nil, problem
	}
	// If the order was replaced, the exchange returns the newest order of the chain.
	o, problem := d.detail(q, n.symbol, done.Order, seq)
	if problem != nil || o == nil || clientID(o) == string(n.client) {
		return o, problem
	}
	id, err := d.asof.OfRef(q.ctx, asof.Query{Account: q.account, Seq: seq}, n.client)
	if err != nil {
		return nil, errNow
	}
	return d.detail(q, n.symbol, id, seq)
}

// detail returns an order by its id, nil if the account has no such order in that symbol.
func (d *Door) detail(q *request, sym exchange.Symbol, id exchange.OrderID, seq uint64) (
	*exchange.OrderDetail, *Error,
) {
	o, _, err := d.asof.Now(q.ctx, asof.Query{Account: q.account, Order: id, Seq: seq})
	switch {
	case errors.Is(err, asof.ErrUnknown), errors.Is(err, asof.ErrForeign):
		return nil, nil
	case err != nil:
		return nil, errNow
	case o.Symbol != sym:
		return nil, nil
	}
	return &o.OrderDetail, nil
}

// getOrder answers GET order.
func (d *Door) getOrder(q *request) (work, *Error) {
	n, problem := q.readNamed("orderId", "origClientOrderId")
	return func() ([]byte, *Error) {
		o, problem := d.find(q, n)
		switch {
		case problem != nil:
			return nil, problem
		case o == nil:
			return nil, errNoOrder
		}
		return appendOrder(nil, o), nil
	}, problem
}

// cancelOrder answers DELETE order.
func (d *Door) cancelOrder(q *request) (work, *Error) {
	n, problem := q.readNamed("orderId", "origClientOrderId")
	var own exchange.Ref
	if value := q.get("newClientOrderId"); problem == nil && value != "" {
		own, problem = newRef("newClientOrderId", value)
	}
	return func() ([]byte, *Error) {
		defer d.watch(q)()
		o, problem := d.find(q, n)
		switch {
		case problem != nil:
			return nil, problem
		case o == nil || o.State != exchange.StatusOpen:
			return nil, errCancelUnknown
		}
		canceled, problem := d.cancel(q, o.ID, own)
		if problem != nil {
			return nil, problem
		}
		return appendCanceled(nil, canceled, own), nil
	}, problem
}

// cancel cancels an order, and returns it after that. own is the client id of the cancel, "" if none was sent.
func (d *Door) cancel(q *request, id exchange.OrderID, own exchange.Ref) (*exchange.OrderDetail, *Error) {
	drop := d.cancels.put(id, own)
	done, problem := d.one(q, exchange.Command{Kind: exchange.CancelOrder, Order: id})
	if problem != nil {
		if problem != errUnknown { // after errUnknown the cancel may have been done, and needs its client id
			drop()
		}
		return nil, problem
	}
	return d.after(q, id, done.Seq)
}

// after returns the state of an order after record seq, which changed it.
func (d *Door) after(q *request, id exchange.OrderID, seq uint64) (*exchange.OrderDetail, *Error) {
	o, err := d.asof.At(q.ctx, asof.Query{Account: q.account, Order: id, Seq: seq})
	if err != nil {
		return nil, errUnknown
	}
	return &o.OrderDetail, nil
}

// cancelOpen answers DELETE openOrders.
func (d *Door) cancelOpen(q *request) (work, *Error) {
	sym, problem := q.symbol()
	return func() ([]byte, *Error) {
		defer d.watch(q)()
		view, _, problem := d.seen(q)
		if problem != nil {
			return nil, problem
		}
		var canceled []exchange.OrderDetail
		for after, more := exchange.OrderID(0), true; more; {
			var orders []exchange.OrderDetail
			var err error
			if orders, more, _, err = view.OpenOrders(q.account, sym, after, cancelBatch); err != nil {
				return nil, problemOf(err)
			}
			if len(orders) == 0 {
				break
			}
			after = orders[len(orders)-1].ID
			if canceled, problem = d.cancelAll(q, orders, canceled); problem != nil {
				return nil, problem
			}
			q.expires = time.Time{} // what has begun in time is finished
		}
		if len(canceled) == 0 {
			return nil, errCancelUnknown
		}
		return jsontext.List(nil, canceled, func(b []byte, o *exchange.OrderDetail) []byte {
			return appendCanceled(b, o, "")
		}), nil
	}, problem
}

// cancelAll cancels orders, and appends those that were still open to canceled, in their state after the cancel.
func (d *Door) cancelAll(q *request, orders, canceled []exchange.OrderDetail) ([]exchange.OrderDetail, *Error) {
	commands := make([]exchange.Command, len(orders))
	for i := range orders {
		commands[i] = exchange.Command{Kind: exchange.CancelOrder, Order: orders[i].ID}
	}
	results, problem := d.do(q, commands...)
	if problem != nil {
		return nil, problem
	}
	for i := range results {
		switch problem := refused(&commands[i], &results[i]); {
		case problem == errCancelUnknown:
			continue
		case problem != nil:
			return nil, problem
		}
		o, problem := d.after(q, orders[i].ID, results[i].Seq)
		if problem != nil {
			return nil, problem
		}
		canceled = append(canceled, *o)
	}
	return canceled, nil
}
