package postgres

import "outcry/internal/exchange"

// replace adds an order that takes another one's place.
func (b *batch) replace(e *exchange.Event) error {
	b.amendLog.add(&b.row)
	row, old := b.row, b.row.OldCancel()
	b.cancel(&old, 0, exchange.NotCanceled)
	b.row = row
	b.row.called = "" // that is what the amend is called
	return b.accept(e)
}

// ruleSymbol adds what a record sets for a symbol.
func (b *batch) ruleSymbol(e *exchange.Event) {
	b.symbolLog.add(&b.row)
	b.symbolRules[e.Symbol] = *b.row.symbolRules()
}

// reserve moves what an order that comes may spend from free to held. A market order to buy holds what
// its fills cost: those of this part, and those of the further ones.
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

// end adds what a part of an order canceled besides: own orders that it met, and what remained of it.
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

// cancelAll adds the cancels of several orders.
func (b *batch) cancelAll(e *exchange.Event) {
	if e.Cause != exchange.ByOperator {
		b.causeLog.add(&b.row)
	}
	if e.Cause == exchange.BySwitch {
		b.switches[e.Account] = 0 // it is off now
	}
	if len(e.Cancels) > 0 {
		b.event(e.Account)
	}
	for i := range e.Cancels {
		one := e.Cancel(i)
		b.cancel(&one, int32(i+1), e.Cause.Why())
	}
}

// reduce adds an amend of an order that keeps its place.
func (b *batch) reduce(e *exchange.Event) {
	b.amendLog.add(&b.row)
	o := b.find(e.Order)
	if e.Shares == 0 { // it only uses a ref
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
