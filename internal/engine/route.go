package engine

import "outcry/internal/exchange"

// nextOwner answers the next commands that have no owner, and returns the inbox of the
// first that has one. It returns nil at the end of the task and before a CancelAll, which the
// session executes itself (cancelAllOf) because it waits for owners.
func (e *Engine) nextOwner(t *task) *inbox {
	for t.next < len(t.commands) && t.commands[t.next].Kind != exchange.CancelAll {
		if in := e.route(&t.commands[t.next].Command, &t.results[t.next], &t.refs); in != nil {
			return in
		}
		t.appended = false
		t.next++
	}
	return nil
}

// route returns the inbox of the owner that executes a command. If there is no such inbox, it
// answers the command itself and returns nil.
func (e *Engine) route(c *exchange.Command, r *exchange.Result, l *lookup) *inbox {
	inbox := e.owner(c, r, l)
	switch {
	case inbox != nil:
		return inbox
	case r.Reason != exchange.OK: // the command's ref names no order
	case c.Kind == exchange.MakeSymbol:
		return &e.registrar.inbox
	case c.Kind == exchange.ShowOrder:
		e.answerAbsent(c.Order, r)
	case c.Kind != exchange.DepositShares && e.account(c.Account) == nil:
		r.Reason = exchange.UnknownAccount
	case c.Kind == exchange.QueryOrder || c.Kind == exchange.CancelOrder || c.Kind == exchange.AmendOrder:
		e.answerAbsent(c.Names(r), r)
	case c.Kind.Views():
		e.inView(c, r)
	default:
		r.Reason = exchange.UnknownSymbol
	}
	return nil
}

// owner returns the inbox of the owner that executes a command, or nil if there is no known owner.
// If the command names an order by a ref, it sets r.Order to that order, or r.Reason to why it has none.
func (e *Engine) owner(c *exchange.Command, r *exchange.Result, l *lookup) *inbox {
	var d any
	switch c.Kind {
	case exchange.OpenAccount, exchange.SetSwitch:
		return &e.registrar.inbox
	case exchange.CancelAll, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
		return nil
	case exchange.MakeSymbol, exchange.DepositShares, exchange.PlaceOrder:
		d, _ = e.shards.Load(c.Symbol)
	case exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.AmendOrder:
		var symbol exchange.Symbol
		if c.Ref != "" {
			r.Order, symbol, r.Reason = e.namedOrder(c, l)
		}
		if d := e.holder(c.Names(r)); d != nil {
			return &d.inbox
		}
		if symbol != "" { // memory may have dropped this order but still have one that replaced it
			d, _ = e.shards.Load(symbol)
		}
	}
	if d == nil {
		return nil
	}
	return &d.(*shard).inbox
}

// inView leaves a command to the view of accounts, which answers it once it has applied all records appended by now.
func (e *Engine) inView(c *exchange.Command, r *exchange.Result) {
	if _, made := e.shards.Load(c.Symbol); c.Symbol != "" && !made {
		r.Reason = exchange.UnknownSymbol
		return
	}
	r.Reason, r.Pending, r.AsOf = exchange.ViewUnavailable, exchange.InView, e.log.Appended()
}
