package accounts

import (
	"cmp"
	"errors"
	"fmt"

	"outcry/internal/exchange"
)

// errNegative means that a record makes cash, shares or a hold negative.
var errNegative = errors.New("something is negative after it")

var (
	noCash   exchange.Cash
	noShares exchange.Position
)

// apply applies a record. Its caller holds mu. The error says which part of the record is impossible; v is unusable
// after it.
func (v *View) apply(e *exchange.Event) error {
	switch e.Kind {
	case exchange.AccountOpened:
		if v.accounts[e.Account] != nil {
			return fmt.Errorf("account %s is opened again", e.Account)
		}
		a := v.add(e.Account)
		v.touch(a)
		return check(a.pay(e.Balance, noCash))
	case exchange.SymbolMade:
		if _, made := v.symbols[e.Symbol]; made {
			return fmt.Errorf("symbol %s is made again", e.Symbol)
		}
		v.addSymbol(e.Symbol, v.at)
		return nil
	case exchange.SharesDeposited:
		a, sym, err := v.find(e.Account, e.Symbol)
		if err != nil {
			return err
		}
		v.touchSymbol(a, sym)
		return check(a.deliver(sym, e.Deposited, noShares))
	case exchange.OrderAccepted, exchange.OrderReplaced:
		return v.accept(e)
	case exchange.OrderContinued:
		return v.goOn(e)
	case exchange.OrderReduced:
		return v.reduce(e)
	case exchange.OrderCanceled:
		return v.cancel(e.Account, e.Symbol, &exchange.Cancel{Order: e.Order, Shares: e.Shares}, exchange.CanceledByOwner)
	case exchange.OrdersCanceled:
		for i := range e.Cancels {
			if err := v.cancel(e.Account, e.Cancels[i].Symbol, &e.Cancels[i], e.Cause.Why()); err != nil {
				return err
			}
		}
		return nil
	case exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
		return nil // changes nothing that the view shows
	}
	return fmt.Errorf("of unknown kind %s", e.Kind)
}

// check returns errNegative unless ok.
func check(ok bool) error {
	if !ok {
		return errNegative
	}
	return nil
}

// find returns an account and a symbol. The error names the one that does not exist.
func (v *View) find(id exchange.AccountID, s exchange.Symbol) (*account, symbolNumber, error) {
	a := v.accounts[id]
	if a == nil {
		return nil, 0, fmt.Errorf("account %s was never opened", id)
	}
	sym, made := v.symbols[s]
	if !made {
		return nil, 0, fmt.Errorf("symbol %s was never made", s)
	}
	return a, sym, nil
}

// accept applies an accepted order: what it replaces, its fills and its cancels.
func (v *View) accept(e *exchange.Event) error {
	a, sym, err := v.find(e.Account, e.Symbol)
	if err != nil {
		return err
	}
	v.incoming = orderMore{}
	o := order{id: e.Order, Limit: e.Limit, traits: traitsOf(&e.Terms), open: e.Shares, time: e.Time, more: &v.incoming,
		symbol: sym, onDisconnect: e.OnDisconnect, unsent: e.Unsent}
	if e.Kind == exchange.OrderReplaced {
		v.incoming.amends = &orderAmends{newRef: e.Ref, before: e.Amend.Executed, replaces: e.Amend.Old.Order}
		err = v.replace(a, e)
	} else {
		v.incoming.ref = e.Ref
	}
	if err != nil {
		return err
	}
	if e.Type == exchange.Market && e.Side == exchange.Buy { // a market buy holds what its fills cost
		held := e.Hold
		for i := range e.Fills {
			held = held.Add(exchange.Notional(e.Fills[i].Shares, e.Fills[i].Price))
		}
		err = check(a.pay(noCash.Sub(held), held))
	} else {
		err = a.hold(&o, e.Shares)
	}
	if err == nil {
		err = v.execute(a, &o, e)
	}
	if err != nil || o.open == 0 {
		return err
	}
	if o.more = nil; v.incoming != (orderMore{}) {
		more := v.incoming
		o.more = &more
	}
	if !v.insert(a, o) {
		return fmt.Errorf("order %d is there already", e.Order)
	}
	return nil
}

// goOn applies a further part of an order.
func (v *View) goOn(e *exchange.Event) error {
	a, _, err := v.find(e.Account, e.Symbol)
	if err != nil {
		return err
	}
	o := a.orders.find(e.Order)
	if o == nil || o.open != e.Shares {
		return fmt.Errorf("order %d goes on with %s open, and has not so much open", e.Order, e.Shares)
	}
	changed := *o // a copy: removing other orders of the account may move another order to where o points
	if err := v.execute(a, &changed, e); err != nil {
		return err
	}
	o = a.orders.find(e.Order)
	if changed.open == 0 {
		v.remove(a, o)
		return nil
	}
	changed.place = o.place // the order's place may have changed because another order was removed
	*o = changed
	return nil
}

// execute applies what one record of an order did: its fills, its cancels of resting orders of the same account, and
// the cancel of its own rest.
func (v *View) execute(a *account, o *order, e *exchange.Event) error {
	for i := range e.Fills {
		f := &e.Fills[i]
		if err := v.fill(a, o, e, f); err != nil {
			return fmt.Errorf("fill with order %d: %w", f.Resting, err)
		}
	}
	for i := range e.Own {
		if err := v.cancel(e.Account, e.Symbol, &e.Own[i], exchange.CanceledSTP); err != nil {
			return err
		}
	}
	var err error
	if e.Rest != 0 {
		if o.open != e.Rest {
			return fmt.Errorf("%s of order %d are taken back, and %s are open", e.Rest, e.Order, o.open)
		}
		o.open = 0
		err = a.free(o, e.Rest)
	}
	if c := v.note(a, o); c != nil {
		c.New, c.Own, c.Canceled, c.Withdrew = e.Kind != exchange.OrderContinued, true, e.Rest, e.Rest
		c.Settle(e.RestWhy())
	}
	v.rests(o)
	return err
}

// fill applies one fill of an order.
func (v *View) fill(taker *account, o *order, e *exchange.Event, f *exchange.Fill) error {
	maker := v.accounts[f.Account]
	if maker == nil {
		return fmt.Errorf("account %s was never opened", f.Account)
	}
	resting := maker.orders.find(f.Resting)
	if resting == nil || resting.open < f.Shares || o.open < f.Shares || resting.symbol != o.symbol {
		return fmt.Errorf("%s of %s are filled, and not so much is open", f.Shares, e.Symbol)
	}
	market := &v.markets[o.symbol]
	market.trades++
	if resting.open -= f.Shares; resting.open > 0 || maker.watch != nil {
		resting.with().execute(f.Shares, f.Price, e.Time)
	}
	v.note(maker, resting)
	err := v.change(resting, OrderOp{Kind: OpFill, Order: f.Resting, Trade: market.trades, Shares: f.Shares,
		Open: resting.open})
	if resting.open == 0 {
		v.remove(maker, resting)
	}
	o.open -= f.Shares
	o.with().execute(f.Shares, f.Price, e.Time)
	one := fill{order: f.Resting, shares: f.Shares, price: f.Price, time: e.Time, trade: market.trades | makerBit,
		symbol: o.symbol, account: maker.number}
	two := one
	two.order, two.trade, two.account = e.Order, market.trades, taker.number
	if e.Side == exchange.Buy {
		one.shares = -one.shares
	} else {
		two.shares = -two.shares
	}
	v.addFill(maker, one)
	v.addFill(taker, two)
	return cmp.Or(err, check(settle(taker, maker, o, f)))
}

// addFill keeps a fill of an account, and adds it to the account's event.
func (v *View) addFill(a *account, f fill) {
	v.fills.add(f, v.list)
	if w := v.touch(a); w != nil {
		w.making.Fills = append(w.making.Fills, v.showFill(a.fills.count, &f))
	}
}

// settle moves the cash and shares of one fill. The price is the limit of the resting order. ok is false if a balance
// or a hold is negative afterwards.
func settle(taker, maker *account, o *order, f *exchange.Fill) (ok bool) {
	pays, shares := exchange.Notional(f.Shares, f.Price), f.Shares.Position()
	if o.Side == exchange.Buy {
		held := pays // right for a market order
		if o.Type != exchange.Market {
			held = exchange.Notional(f.Shares, o.Limit)
		}
		return taker.pay(held.Sub(pays), noCash.Sub(held)) && maker.deliver(o.symbol, noShares, noShares.Sub(shares)) &&
			taker.deliver(o.symbol, shares, noShares) && maker.pay(pays, noCash)
	}
	return maker.pay(noCash, noCash.Sub(pays)) && taker.deliver(o.symbol, noShares, noShares.Sub(shares)) &&
		maker.deliver(o.symbol, shares, noShares) && taker.pay(pays, noCash)
}

// cancel applies the cancel of an account's order for a symbol, with its reason.
func (v *View) cancel(id exchange.AccountID, s exchange.Symbol, c *exchange.Cancel, why exchange.WhyCanceled) error {
	a, sym, err := v.find(id, s)
	if err != nil {
		return err
	}
	o := a.orders.find(c.Order)
	if o == nil || o.open != c.Shares || o.symbol != sym {
		return fmt.Errorf("%s of order %d are canceled, and not so much is open", c.Shares, c.Order)
	}
	err = a.free(o, c.Shares)
	o.open = 0
	if n := v.note(a, o); n != nil {
		n.Canceled, n.Withdrew = c.Shares, c.Shares
		n.Settle(why)
	}
	err = cmp.Or(err, v.change(o, OrderOp{Kind: OpDelete, Order: c.Order}))
	v.remove(a, o)
	return err
}

// replace removes the order that the order in e replaces.
func (v *View) replace(a *account, e *exchange.Event) error {
	old := &e.Amend.Old
	o := a.orders.find(old.Order)
	if o == nil || o.open != old.Shares || v.markets[o.symbol].name != e.Symbol {
		return fmt.Errorf("%s of order %d are replaced, and not so much is open", old.Shares, old.Order)
	}
	err := a.free(o, old.Shares)
	o.open = 0
	if n := v.note(a, o); n != nil {
		n.Canceled, n.Withdrew = old.Shares, old.Shares
		n.State, n.By = exchange.StatusReplaced, e.Order
	}
	err = cmp.Or(err, v.change(o, OrderOp{Kind: OpReplace, Order: old.Order, By: e.Order}))
	v.remove(a, o)
	return err
}

// reduce applies an amend that keeps the order's place in the book.
func (v *View) reduce(e *exchange.Event) error {
	a, _, err := v.find(e.Account, e.Symbol)
	if err != nil {
		return err
	}
	o := a.orders.find(e.Order)
	if o == nil || o.open <= e.Shares || o.open-e.Shares != e.Amend.Open {
		return fmt.Errorf("%s of order %d are taken off, and not so much is open", e.Shares, e.Order)
	}
	amends := o.amended()
	if amends.newRef = e.Ref; e.Shares == 0 {
		return nil // the amend changed nothing except that its ref is used
	}
	o.open -= e.Shares
	amends.reduced += e.Shares
	o.more.changed = e.Time
	if n := v.note(a, o); n != nil {
		n.Less = e.Shares
	}
	err = v.change(o, OrderOp{Kind: OpReduce, Order: o.id, Shares: e.Shares, Open: o.open})
	return cmp.Or(err, a.free(o, e.Shares))
}

// hold moves what s shares of an order may spend from free to held.
func (a *account) hold(o *order, s exchange.Shares) error {
	if o.Side == exchange.Buy {
		held := exchange.Notional(s, o.Limit)
		return check(a.pay(noCash.Sub(held), held))
	}
	held := s.Position()
	return check(a.deliver(o.symbol, noShares.Sub(held), held))
}

// free moves what is held for s shares of an order from held to free.
func (a *account) free(o *order, s exchange.Shares) error {
	if o.Side == exchange.Sell {
		held := s.Position()
		return check(a.deliver(o.symbol, held, noShares.Sub(held)))
	}
	if o.Type == exchange.Market { // a market buy holds only what it has already paid
		return nil
	}
	held := exchange.Notional(s, o.Limit)
	return check(a.pay(held, noCash.Sub(held)))
}
