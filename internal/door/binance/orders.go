package binance

import (
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
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
func (d *Door) first(q *request, id exchange.OrderID, seq uint64) (*order, *Error) {
	view, repeated := d.options.View(), seq == 0
	if repeated {
		var problem *Error
		if _, seq, problem = d.seen(q); problem != nil {
			return nil, problem
		}
	}
	events, err := view.Did(q.ctx, q.account, id, seq)
	if err != nil {
		return nil, errUnknown
	}
	if repeated {
		events = ownEvents(events, id)
	}
	if o := orderAfter(events, id); o != nil {
		return o, nil
	}
	history := d.options.History()
	if err := history.WaitApplied(q.ctx, seq); err != nil {
		return nil, errUnknown
	}
	detail, account, fills, found, err := history.OrderAtFirstDetail(q.ctx, id)
	if err != nil || !found || account != q.account {
		return nil, errUnknown
	}
	return &order{detail, fills}, nil
}

// ownEvents returns the events of an order's own records: from its acceptance to the last event in which it executed as
// the taker or was canceled at once.
func ownEvents(events []*exchange.AccountEvent, id exchange.OrderID) []*exchange.AccountEvent {
	last := 0
	for i, e := range events {
		o := changeOf(e, id)
		if o == nil {
			continue
		}
		own := o.New || o.State == exchange.StatusCanceled && o.Why == exchange.CanceledRest
		for k := range e.Fills {
			own = own || e.Fills[k].Order == id && !e.Fills[k].Maker
		}
		if own {
			last = i + 1
		}
	}
	return events[:last]
}

// changeOf returns an event's change of an order, nil if the event does not change it.
func changeOf(e *exchange.AccountEvent, id exchange.OrderID) *exchange.OrderChange {
	for i := range e.Orders {
		if e.Orders[i].ID == id {
			return &e.Orders[i]
		}
	}
	return nil
}

// orderAfter returns an order after the given events. It is nil if they do not begin with the order's acceptance.
func orderAfter(events []*exchange.AccountEvent, id exchange.OrderID) *order {
	var o order
	var filled exchange.Shares
	for _, e := range events {
		change := changeOf(e, id)
		if change == nil || o.ID == 0 && !change.New {
			continue
		}
		o.OrderDetail = change.OrderDetail
		for i := range e.Fills {
			if f := &e.Fills[i]; f.Order == id {
				o.fills = append(o.fills, *f)
				filled += f.Shares
			}
		}
	}
	if o.ID != id || filled != o.Executed {
		return nil
	}
	return &o
}

// find returns an open or closed order of the requesting account, in its state when the request arrived or later. It
// returns nil if the account has no such order at that symbol.
func (d *Door) find(q *request, n named) (*exchange.OrderDetail, *Error) {
	view, seq, problem := d.seen(q)
	if problem != nil {
		return nil, problem
	}
	if n.id != 0 {
		return d.detail(q, view, n, seq)
	}
	done, problem := d.one(q, exchange.Command{Kind: exchange.QueryOrder, Ref: n.client})
	switch {
	case problem == errCancelUnknown:
		return nil, nil
	case problem != nil:
		return nil, problem
	}
	// If the order was replaced, the exchange returns the newest order of the chain.
	o, problem := d.detail(q, view, named{symbol: n.symbol, id: done.Order}, seq)
	if problem != nil || o == nil || clientID(o) == string(n.client) {
		return o, problem
	}
	history := d.options.History()
	if err := history.WaitApplied(q.ctx, seq); err != nil {
		return nil, errNow
	}
	_, id, found, err := history.RefRecord(q.ctx, q.account, n.client)
	if err != nil || !found {
		return nil, errNow
	}
	return d.detail(q, view, named{symbol: n.symbol, id: id}, seq)
}

// detail returns an order by its id, nil if the account has no such order at that symbol.
func (d *Door) detail(q *request, view *accounts.View, n named, seq uint64) (*exchange.OrderDetail, *Error) {
	o, _, _, found := view.Order(q.account, n.id)
	if !found {
		events, err := view.Did(q.ctx, q.account, n.id, seq)
		if err != nil {
			return nil, errNow
		}
		if len(events) > 0 {
			if change := changeOf(events[len(events)-1], n.id); change != nil {
				o, found = change.OrderDetail, true
			}
		}
	}
	if !found {
		history := d.options.History()
		if err := history.WaitApplied(q.ctx, seq); err != nil {
			return nil, errNow
		}
		var account exchange.AccountID
		var err error
		if o, account, _, found, err = history.OrderDetail(q.ctx, n.id); err != nil {
			return nil, errNow
		}
		found = found && account == q.account
	}
	if !found || o.Symbol != n.symbol {
		return nil, nil
	}
	return &o, nil
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

// after returns an order as the record seq, which changed it, left it.
func (d *Door) after(q *request, id exchange.OrderID, seq uint64) (*exchange.OrderDetail, *Error) {
	events, err := d.options.View().Did(q.ctx, q.account, id, seq)
	if err != nil || len(events) == 0 {
		return nil, errUnknown
	}
	change := changeOf(events[len(events)-1], id)
	if change == nil {
		return nil, errUnknown
	}
	return &change.OrderDetail, nil
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
		}
		if len(canceled) == 0 {
			return nil, errCancelUnknown
		}
		return appendList(nil, canceled, func(b []byte, o *exchange.OrderDetail) []byte {
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
