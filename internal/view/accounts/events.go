package accounts

import (
	"fmt"
	"sort"

	"outcry/internal/exchange"
)

// touch counts the event that the current record makes for an account, once per record. It returns the watch in which
// the event is made, nil if the account is not watched.
func (v *View) touch(a *account) *watch {
	w := a.watch
	if a.touched != v.at {
		a.touched = v.at
		a.n++
		if w != nil {
			e := newEvent(w)
			e.N, e.Seq, e.Time, e.Account = a.n, v.at, v.event.Time, a.id
			w.making, w.account = e, a
			v.touched = append(v.touched, w)
		}
	}
	return w
}

// touchSymbol adds the symbol of the current record to the event of an account.
func (v *View) touchSymbol(a *account, sym symbolNumber) *watch {
	w := v.touch(a)
	if w == nil {
		return nil
	}
	if n := len(w.symbols); n == 0 || w.symbols[n-1] != sym { // the changes of one symbol are adjacent in a record
		w.symbols = append(w.symbols, sym)
	}
	return w
}

// note adds an order, as the current record leaves it, to the event of its account. m has the order's rarely used
// fields. It returns the change for the caller to complete, nil if the account is not watched.
func (v *View) note(a *account, o *order, m *orderMore) *exchange.OrderChange {
	w := v.touchSymbol(a, o.symbol)
	if w == nil {
		return nil
	}
	detail := o.detail(v.markets[o.symbol].name, m)
	w.making.Orders = append(w.making.Orders, exchange.OrderChange{OrderDetail: detail})
	w.making.before, m.event = append(w.making.before, m.event), a.n
	c := &w.making.Orders[len(w.making.Orders)-1]
	c.Changed = v.event.Time
	c.Settle(exchange.NotCanceled)
	return c
}

// noteResting is note for an order that is resting.
func (v *View) noteResting(a *account, o *order) *exchange.OrderChange {
	if a.watch == nil {
		v.touch(a)
		return nil
	}
	return v.note(a, o, v.open.with(o))
}

// addFill keeps a fill of an account in the current record, and adds it to the account's event.
func (v *View) addFill(
	a *account, order exchange.OrderID, shares exchange.Shares, price exchange.Price, trade uint64, sym symbolNumber,
) {
	f := v.fills.add(a, v.list)
	f.order, f.shares, f.price, f.time, f.trade, f.symbol = order, shares, price, v.event.Time, trade, sym
	if w := v.touch(a); w != nil {
		w.making.Fills = append(w.making.Fills, v.showFill(a.fills.count, f))
	}
}

// change applies what the current record does to a resting order of a symbol. o is the order after the record; shares
// are those of an OpFill or OpReduce.
func (v *View) change(market *symbol, o *order, kind OrderOpKind, shares exchange.Shares) error {
	if b := market.resting; b != nil && b.gathered(&v.open, o) {
		if !b.set(o) {
			return fmt.Errorf("order %d of %s does not rest", o.id, market.name)
		}
		op := OrderOp{Kind: kind, Order: o.id, Shares: shares, Open: o.open}
		switch kind {
		case OpFill:
			op.Trade = market.trades
		case OpReplace:
			op.By = v.event.Order
		case OpDelete, OpReduce, OpAdd:
		}
		v.addOp(market, op)
	}
	market.changed = v.at
	return nil
}

// addResting adds an order that the current record has accepted or continued, if it has open shares and does not
// cross. If it crosses, further parts of it will follow.
func (v *View) addResting(o *order) {
	market := &v.markets[o.symbol]
	b := market.resting
	if o.open == 0 || b != nil && b.next == 0 && b.crosses(o) {
		return
	}
	if b != nil && b.next == 0 { // otherwise it will be gathered
		b.add(o)
		v.addOp(market, OrderOp{Kind: OpAdd, Order: o.id, Shares: o.open, Side: o.side(), Price: o.limit})
	}
	market.changed = v.at
}

// addOp adds an op to the current record's change, if the symbol has listeners.
func (v *View) addOp(market *symbol, op OrderOp) {
	b := market.resting
	if len(b.readers) == 0 {
		return
	}
	if b.making == nil {
		b.making = &OrdersChange{Symbol: market.name, Prev: market.changed, Seq: v.at, Time: v.event.Time}
		v.resting = append(v.resting, b)
	}
	b.making.Ops = append(b.making.Ops, op)
}

// finish completes and keeps the events of the current record, and queues them for the listeners.
func (v *View) finish() {
	if len(v.touched)+len(v.resting) == 0 {
		return // the usual case
	}
	for _, w := range v.touched {
		e, a := w.making, w.account
		e.Balance, e.Held, e.LastFill = a.balance, a.held, a.fills.count
		for _, sym := range w.symbols {
			p := exchange.PositionView{Symbol: v.markets[sym].name}
			p.Shares, p.Held = a.position(sym)
			e.Positions = append(e.Positions, p)
		}
		sortPositions(e.Positions)
		sort.Sort((*byID)(e))
		e.Positions, e.Orders, e.Fills = orNil(e.Positions), orNil(e.Orders), orNil(e.Fills)
		e.measure()
		if w.tell(e.AccountEvent) {
			v.due = append(v.due, w)
		}
		v.kept.add(e)
		w.making, w.account, w.symbols = nil, nil, w.symbols[:0]
	}
	clear(v.touched)
	v.touched = v.touched[:0]
	v.finishOrders()
}

// finishOrders queues the current record's changes for the listeners to orders.
func (v *View) finishOrders() {
	for _, b := range v.resting {
		if b.tell(b.making) {
			v.due = append(v.due, b)
		}
		b.making = nil
	}
	clear(v.resting)
	v.resting = v.resting[:0]
}
