package binance

import (
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// cancelBatch is how many orders are canceled at a time where all of a symbol are: one after another, in one frame.
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

// testOrder answers POST order/test: what is not about the state of the account and the book is tested.
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

// first returns an order as its own records left it: the last of them is seq, or that is 0 if the order was there
// before, and its client id was sent again.
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

// ownEvents returns those of the events about an order that its own records made: the first, which accepted it, up to
// the last in which it took from others, or ended at once.
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

// changeOf returns what an event has of an order, nil if nothing.
func changeOf(e *exchange.AccountEvent, id exchange.OrderID) *exchange.OrderChange {
	for i := range e.Orders {
		if e.Orders[i].ID == id {
			return &e.Orders[i]
		}
	}
	return nil
}

// orderAfter returns an order as the last of some events left it. It is nil if they are not all that there were of it.
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

// find returns an order of the account that asks, open or closed, as it was when the request came or later; nil if it
// has none of that name at that symbol.
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
	// The exchange names the newest order of the chain.
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

// detail returns an order that is named by its id, nil if the account has none of it at that symbol.
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

// cancel cancels an order, and returns it as it is then. own is the client's id of the cancel, "" if it gave none.
func (d *Door) cancel(q *request, id exchange.OrderID, own exchange.Ref) (*exchange.OrderDetail, *Error) {
	drop := d.cancels.put(id, own)
	done, problem := d.one(q, exchange.Command{Kind: exchange.CancelOrder, Order: id})
	if problem != nil {
		if problem != errUnknown { // else it may have been done
			drop()
		}
		return nil, problem
	}
	return d.after(q, id, done.Seq)
}

// after returns an order as a record left it, which has changed it.
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

// cancelAll cancels orders, and appends those to canceled that were still open, as they are then.
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
