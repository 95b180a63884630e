package accounts

import (
	"errors"
	"fmt"

	"outcry/internal/exchange"
)

// errNegative says that records give or hold what nobody has.
var errNegative = errors.New("something is negative after it")

var (
	noCash   exchange.Cash
	noShares exchange.Position
)

// apply takes in a record. Its caller holds mu. The error says what cannot be; v is unusable then.
func (v *View) apply(e *exchange.Event) error {
	switch e.Kind {
	case exchange.AccountOpened:
		if v.accounts[e.Account] != nil {
			return fmt.Errorf("account %s is opened again", e.Account)
		}
		return check(v.add(e.Account).pay(e.Balance, noCash))
	case exchange.SymbolMade:
		if _, made := v.symbols[e.Symbol]; made {
			return fmt.Errorf("symbol %s is made again", e.Symbol)
		}
		v.addSymbol(e.Symbol)
		return nil
	case exchange.SharesDeposited:
		a, sym, err := v.find(e.Account, e.Symbol)
		if err != nil {
			return err
		}
		return check(a.deliver(sym, e.Deposited, noShares))
	case exchange.OrderAccepted, exchange.OrderReplaced:
		return v.accept(e)
	case exchange.OrderContinued:
		return v.goOn(e)
	case exchange.OrderReduced:
		return v.reduce(e)
	case exchange.OrderCanceled:
		return v.cancel(e.Account, e.Symbol, &exchange.Cancel{Order: e.Order, Shares: e.Shares})
	case exchange.OrdersCanceled:
		for i := range e.Cancels {
			if err := v.cancel(e.Account, e.Cancels[i].Symbol, &e.Cancels[i]); err != nil {
				return err
			}
		}
		return nil
	case exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
		return nil // nothing that is shown
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

// find returns an account and a symbol. The error names the one that was never made.
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

// accept takes in an order with what it did, and what it replaces.
func (v *View) accept(e *exchange.Event) error {
	a, sym, err := v.find(e.Account, e.Symbol)
	if err != nil {
		return err
	}
	o := order{id: e.Order, Terms: e.Terms, open: e.Shares, time: e.Time, symbol: sym, onDisconnect: e.OnDisconnect}
	if e.Kind == exchange.OrderReplaced {
		o.executed = e.Amend.Executed
		if err := v.cancel(e.Account, e.Symbol, &e.Amend.Old); err != nil {
			return err
		}
	}
	if e.Type == exchange.Market && e.Side == exchange.Buy { // it holds what its fills cost
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
	if err == nil && o.open > 0 && !a.orders.insert(o) {
		err = fmt.Errorf("order %d is there already", e.Order)
	}
	return err
}

// goOn takes in a further part of an order.
func (v *View) goOn(e *exchange.Event) error {
	a, _, err := v.find(e.Account, e.Symbol)
	if err != nil {
		return err
	}
	o := a.orders.find(e.Order)
	if o == nil || o.open != e.Shares {
		return fmt.Errorf("order %d goes on with %s open, and has not so much open", e.Order, e.Shares)
	}
	changed := *o // others of the account may go meanwhile, and o would be another one
	if err := v.execute(a, &changed, e); err != nil {
		return err
	}
	if changed.open == 0 {
		a.orders.remove(e.Order)
		return nil
	}
	*a.orders.find(e.Order) = changed
	return nil
}

// execute takes in what an order of an account did in a record: its fills, the orders of its own account
// that it canceled, and what was taken back of itself.
func (v *View) execute(a *account, o *order, e *exchange.Event) error {
	for i := range e.Fills {
		f := &e.Fills[i]
		if err := v.fill(a, o, e, f); err != nil {
			return fmt.Errorf("fill with order %d: %w", f.Resting, err)
		}
	}
	for i := range e.Own {
		if err := v.cancel(e.Account, e.Symbol, &e.Own[i]); err != nil {
			return err
		}
	}
	if e.Rest == 0 {
		return nil
	}
	if o.open != e.Rest {
		return fmt.Errorf("%s of order %d are taken back, and %s are open", e.Rest, e.Order, o.open)
	}
	o.open = 0
	return a.free(o, e.Rest)
}

// fill takes in one fill of an order.
func (v *View) fill(taker *account, o *order, e *exchange.Event, f *exchange.Fill) error {
	maker := v.accounts[f.Account]
	if maker == nil {
		return fmt.Errorf("account %s was never opened", f.Account)
	}
	resting := maker.orders.find(f.Resting)
	if resting == nil || resting.open < f.Shares || o.open < f.Shares || resting.symbol != o.symbol {
		return fmt.Errorf("%s of %s are filled, and not so much is open", f.Shares, e.Symbol)
	}
	if resting.open -= f.Shares; resting.open > 0 {
		resting.executed += f.Shares
	} else {
		maker.orders.remove(f.Resting)
	}
	o.open -= f.Shares
	o.executed += f.Shares
	one := fill{order: f.Resting, shares: f.Shares, price: f.Price, time: e.Time, symbol: o.symbol, account: maker.number}
	two := one
	two.order, two.account = e.Order, taker.number
	if e.Side == exchange.Buy {
		one.shares = -one.shares
	} else {
		two.shares = -two.shares
	}
	v.fills.add(one, v.list)
	v.fills.add(two, v.list)
	return check(settle(taker, maker, o, f))
}

// settle moves what one fill moves. A resting order's limit is the price. ok is false if something is
// negative then.
func settle(taker, maker *account, o *order, f *exchange.Fill) (ok bool) {
	pays, shares := exchange.Notional(f.Shares, f.Price), f.Shares.Position()
	if o.Side == exchange.Buy {
		held := pays // of a market order
		if o.Type != exchange.Market {
			held = exchange.Notional(f.Shares, o.Limit)
		}
		return taker.pay(held.Sub(pays), noCash.Sub(held)) && maker.deliver(o.symbol, noShares, noShares.Sub(shares)) &&
			taker.deliver(o.symbol, shares, noShares) && maker.pay(pays, noCash)
	}
	return maker.pay(noCash, noCash.Sub(pays)) && taker.deliver(o.symbol, noShares, noShares.Sub(shares)) &&
		maker.deliver(o.symbol, shares, noShares) && taker.pay(pays, noCash)
}

// cancel takes in that an order of an account, for a symbol, was canceled.
func (v *View) cancel(id exchange.AccountID, s exchange.Symbol, c *exchange.Cancel) error {
	a, sym, err := v.find(id, s)
	if err != nil {
		return err
	}
	o := a.orders.find(c.Order)
	if o == nil || o.open != c.Shares || o.symbol != sym {
		return fmt.Errorf("%s of order %d are canceled, and not so much is open", c.Shares, c.Order)
	}
	err = a.free(o, c.Shares)
	a.orders.remove(c.Order)
	return err
}

// reduce takes in an amend that leaves an order where it is.
func (v *View) reduce(e *exchange.Event) error {
	if e.Shares == 0 {
		return nil // it only uses a ref
	}
	a, _, err := v.find(e.Account, e.Symbol)
	if err != nil {
		return err
	}
	o := a.orders.find(e.Order)
	if o == nil || o.open <= e.Shares || o.open-e.Shares != e.Amend.Open {
		return fmt.Errorf("%s of order %d are taken off, and not so much is open", e.Shares, e.Order)
	}
	o.open -= e.Shares
	return a.free(o, e.Shares)
}

// hold moves what some shares of an order could spend from free to held.
func (a *account) hold(o *order, s exchange.Shares) error {
	if o.Side == exchange.Buy {
		held := exchange.Notional(s, o.Limit)
		return check(a.pay(noCash.Sub(held), held))
	}
	held := s.Position()
	return check(a.deliver(o.symbol, noShares.Sub(held), held))
}

// free moves what some shares of an order hold back from held to free.
func (a *account) free(o *order, s exchange.Shares) error {
	if o.Side == exchange.Sell {
		held := s.Position()
		return check(a.deliver(o.symbol, held, noShares.Sub(held)))
	}
	if o.Type == exchange.Market { // it has paid what it held
		return nil
	}
	held := exchange.Notional(s, o.Limit)
	return check(a.pay(held, noCash.Sub(held)))
}
