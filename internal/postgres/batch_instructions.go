package postgres

import (
	"fmt"

	"outcry/internal/exchange"
)

// addInstruction is add for the kinds of records that came with order instructions.
func (b *batch) addInstruction(seq uint64, e *exchange.Event) error {
	switch e.Kind {
	case exchange.OrderReduced:
		b.amendLog.add(&b.row)
		if e.Shares > 0 {
			b.hold(e, -e.Shares)
			b.reduce(e.Order, e.Shares)
		}
	case exchange.OrderReplaced:
		b.amendLog.add(&b.row)
		old := b.row.OldCancel()
		b.cancel(&old, 0)
		b.row = record{Event: *e, seq: seq}
		b.accept(e)
	case exchange.AccountRuled:
		b.accountLog.add(&b.row)
		b.accountRules[e.Account] = *b.row.accountRules()
	case exchange.SymbolRuled:
		b.ruleSymbol(e)
	case exchange.SwitchSet:
		b.switchLog.add(&b.row)
		b.switches[e.Account] = e.Due
	default:
		return fmt.Errorf("postgres: journal record %d is of unknown kind %s", seq, e.Kind)
	}
	return nil
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

// reduce takes shares off an order that keeps its place.
func (b *batch) reduce(id exchange.OrderID, shares exchange.Shares) {
	if m, ok := b.accepted[id]; ok {
		b.orders[m].Open -= shares
		b.orders[m].amended = true
	} else {
		b.reduced[id] += shares
	}
}
