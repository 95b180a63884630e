package postgres

import "outcry/internal/exchange"

// replace adds an amend that replaces an order by a new one.
func (b *batch) replace(e *exchange.Event) error {
	b.amendLog.add(&b.row)
	row, old := b.row, b.row.OldCancel()
	b.cancel(&old, 0, exchange.NotCanceled)
	b.row = row
	b.row.called = "" // the ref belongs to the amend
	return b.accept(e)
}

// ruleSymbol adds the rules that a record sets for a symbol.
func (b *batch) ruleSymbol(e *exchange.Event) {
	b.symbolLog.add(&b.row)
	b.symbolRules[e.Symbol] = *b.row.symbolRules()
}

// reserve moves what a new order may spend from free to held. A market order to buy holds exactly what its
// fills cost, those of further parts included.
func (b *batch) reserve(e *exchange.Event) {
	if e.Type != exchange.Market || e.Side != exchange.Buy {
		b.hold(e, e.Shares)
		return
	}
	cost := e.Hold
	for i := range e.Fills {
		cost = cost.Add(exchange.Notional(e.Fills[i].Shares, e.Fills[i].Price))
	}
	b.cash(e.Account, exchange.Cash{}.Sub(cost), cost)
	if e.Hold != (exchange.Cash{}) {
		b.holdLog.add(&b.row)
	}
}

// end adds the cancels in the record of an order or a part: the account's own orders that it met, and its
// unexecuted rest.
func (b *batch) end(e *exchange.Event) {
	for i := range e.Own {
		own := e.OwnCancel(i)
		b.cancel(&own, int32(i+1), exchange.CanceledSTP)
	}
	if e.Rest > 0 {
		rest := exchange.Event{Kind: exchange.OrderCanceled, Time: e.Time, Account: e.Account, Symbol: e.Symbol,
			Order: e.Order, Terms: e.Terms, Shares: e.Rest}
		b.cancel(&rest, 0, e.RestWhy())
	}
}

// cancelAll adds a record that cancels several orders.
func (b *batch) cancelAll(e *exchange.Event) {
	if e.Cause != exchange.ByOperator {
		b.causeLog.add(&b.row)
	}
	if e.Cause == exchange.BySwitch {
		b.switches[e.Account] = 0 // the dead man's switch is off now
	}
	if len(e.Cancels) > 0 {
		b.event(e.Account)
	}
	for i := range e.Cancels {
		one := e.Cancel(i)
		b.cancel(&one, int32(i+1), e.Cause.Why())
	}
}

// reduce adds an amend of an order that keeps its place in the book.
func (b *batch) reduce(e *exchange.Event) {
	b.amendLog.add(&b.row)
	o := b.find(e.Order)
	if e.Shares == 0 { // the amend changes nothing and only uses a ref
		if o != nil {
			o.renamed = true
		} else {
			b.renamed[e.Order] = 0
		}
		return
	}
	b.event(e.Account)
	b.hold(e, -e.Shares)
	if o != nil {
		o.Open -= e.Shares
		o.amended = true
		o.Changes = exchange.Changes{Reduced: o.Reduced + e.Shares, ReducedAt: e.Time}
	} else {
		b.reduced[e.Order] = exchange.Changes{Reduced: b.reduced[e.Order].Reduced + e.Shares, ReducedAt: e.Time}
	}
}
