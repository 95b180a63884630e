package postgres

import "outcry/internal/exchange"

// replace adds an order that takes another one's place.
func (b *batch) replace(e *exchange.Event) {
	b.amendLog.add(&b.row)
	row, old := b.row, b.row.OldCancel()
	b.cancel(&old, 0)
	b.row = row
	b.accept(e)
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
		b.cancel(&own, int32(i+1))
	}
	if e.Rest > 0 {
		rest := exchange.Event{Kind: exchange.OrderCanceled, Time: e.Time, Account: e.Account, Symbol: e.Symbol,
			Order: e.Order, Terms: e.Terms, Shares: e.Rest}
		b.cancel(&rest, 0)
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
	for i := range e.Cancels {
		one := e.Cancel(i)
		b.cancel(&one, int32(i+1))
	}
}

// reduce adds an amend of an order that keeps its place.
func (b *batch) reduce(e *exchange.Event) {
	b.amendLog.add(&b.row)
	if e.Shares == 0 { // it only uses a ref
		return
	}
	b.hold(e, -e.Shares)
	if m, ok := b.accepted[e.Order]; ok {
		b.orders[m].Open -= e.Shares
		b.orders[m].amended = true
	} else {
		b.reduced[e.Order] += e.Shares
	}
}
