package accounts

import (
	"errors"
	"fmt"
	"strings"

	"outcry/internal/exchange"
)

// errNegative means that a record makes cash, shares or a hold negative.
var errNegative = errors.New("an amount is negative after it")

// apply applies a record. Its caller holds mu. The error says which part of the record is impossible; v is unusable
// after it.
func (v *View) apply(e *exchange.Event) (err error) {
	var a *account
	var sym symbolNumber
	v.makers = v.makers[:0]
	if e.Account != "" && e.Symbol != "" { // the record of a deposit or an order
		if a, sym, err = v.find(e.Account, e.Symbol); err != nil {
			return err
		}
	}
	switch e.Kind {
	case exchange.AccountOpened:
		err = v.openAccount(e.Account)
	case exchange.SymbolMade:
		err = v.makeSymbol(e.Symbol)
	case exchange.SharesDeposited:
		v.touchSymbol(a, sym)
	case exchange.OrderAccepted, exchange.OrderReplaced:
		err = v.accept(a, sym, e)
	case exchange.OrderContinued:
		err = v.proceed(a, e)
	case exchange.OrderReduced:
		err = v.reduce(a, e)
	case exchange.OrderCanceled:
		err = v.cancel(a, sym, &exchange.Cancel{Order: e.Order, Shares: e.Shares}, exchange.CanceledByOwner)
	case exchange.OrdersCanceled:
		err = v.cancelAll(e)
	case exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
		// These records change nothing that the view shows.
	default:
		return fmt.Errorf("of unknown kind %s", e.Kind)
	}
	if err != nil {
		return err
	}
	return v.post(e, a, sym)
}

// post changes the cash and shares of accounts. a and sym are e's own account and symbol; a is nil if apply did not
// look them up. The error is errNegative.
func (v *View) post(e *exchange.Event, a *account, sym symbolNumber) error {
	p := &v.posting
	for i := 0; e.Posting(i, p); i++ {
		to, of := a, sym
		switch {
		case i < len(v.makers): // the first postings are those of the owners of resting orders
			to = v.makers[i]
		case a == nil || p.Account != e.Account:
			to = v.findAccount(p.Account)
		}
		if p.Symbol != e.Symbol {
			of, _ = v.findSymbol(p.Symbol)
		}
		if !to.post(of, p) {
			return errNegative
		}
	}
	return nil
}

// openAccount opens an account.
func (v *View) openAccount(id exchange.AccountID) error {
	if v.accounts[id] != nil {
		return fmt.Errorf("account %s exists already", id)
	}
	v.touch(v.add(id))
	return nil
}

// makeSymbol makes a symbol.
func (v *View) makeSymbol(s exchange.Symbol) error {
	if _, made := v.symbols[s]; made {
		return fmt.Errorf("symbol %s exists already", s)
	}
	v.addSymbol(s, v.at)
	return nil
}

// accept applies an accepted order: what it replaces, its fills and its cancels.
func (v *View) accept(a *account, sym symbolNumber, e *exchange.Event) error {
	o := order{id: e.Order, limit: e.Limit, instructions: e.Terms.Instructions(), open: e.Shares, time: e.Time,
		account: a.number, symbol: sym, onDisconnect: e.OnDisconnect, unsent: e.Unsent}
	m := &v.incoming
	*m = orderMore{}
	if e.Kind == exchange.OrderReplaced {
		m.amends = &orderAmends{newRef: cloned(e.Ref), before: e.Amend.Executed, replaces: e.Amend.Old.Order}
		if err := v.replace(a, e); err != nil {
			return err
		}
	} else if e.Ref != "" {
		m.ref = cloned(e.Ref)
	}
	if err := v.execute(a, &o, m, e); err != nil || o.open == 0 {
		return err
	}
	if !v.insert(a, &o, m) {
		return fmt.Errorf("order %d exists already", e.Order)
	}
	return nil
}

// proceed applies a further part of an order.
func (v *View) proceed(a *account, e *exchange.Event) error {
	o := a.orders.find(e.Order)
	if o == nil || o.open != e.Shares {
		return fmt.Errorf("a further part of order %d begins with %s open, but a different number is open", e.Order, e.Shares)
	}
	err := v.execute(a, o, v.open.with(o), e)
	if err == nil && o.open == 0 {
		v.remove(a, o)
	}
	return err
}

// execute applies one record of an order: its fills, its cancels of resting orders of the same account, and the cancel
// of its own rest. m has the order's rarely used fields.
func (v *View) execute(a *account, o *order, m *orderMore, e *exchange.Event) error {
	counts := a.watch != nil || e.Open() > 0 // whether the executed shares may be requested later
	for i := range e.Fills {
		f := &e.Fills[i]
		if err := v.fill(a, o, e, f); err != nil {
			return fmt.Errorf("fill with order %d: %w", f.Resting, err)
		}
		if counts {
			m.execute(f.Shares, f.Price, e.Time)
		}
	}
	for i := range e.Own {
		if err := v.cancel(a, o.symbol, &e.Own[i], exchange.CanceledSTP); err != nil {
			return err
		}
	}
	if e.Rest != 0 {
		if o.open != e.Rest {
			return fmt.Errorf("%s of order %d are canceled, but %s are open", e.Rest, e.Order, o.open)
		}
		o.open = 0
	}
	if c := v.note(a, o, m); c != nil {
		c.New, c.Own, c.Canceled, c.Withdrew = e.Kind != exchange.OrderContinued, true, e.Rest, e.Rest
		c.Settle(e.RestWhy())
	}
	v.addResting(o)
	return nil
}

// fill applies one fill of an order.
func (v *View) fill(taker *account, o *order, e *exchange.Event, f *exchange.Fill) error {
	maker := v.findAccount(f.Account)
	if maker == nil {
		return fmt.Errorf("account %s was never opened", f.Account)
	}
	v.makers = append(v.makers, maker)
	resting := maker.orders.find(f.Resting)
	if resting == nil || resting.open < f.Shares || o.open < f.Shares || resting.symbol != o.symbol {
		return fmt.Errorf("%s of %s are filled, but fewer are open", f.Shares, e.Symbol)
	}
	market := &v.markets[o.symbol]
	market.trades++
	if resting.open -= f.Shares; resting.open > 0 || maker.watch != nil {
		v.open.with(resting).execute(f.Shares, f.Price, e.Time)
	}
	v.noteResting(maker, resting)
	if err := v.change(market, resting, OpFill, f.Shares); err != nil {
		return err
	}
	if resting.open == 0 {
		v.remove(maker, resting)
	}
	o.open -= f.Shares
	shares := f.Shares
	if e.Side == exchange.Buy {
		shares = -shares
	}
	v.addFill(maker, f.Resting, shares, f.Price, market.trades|makerBit, o.symbol)
	v.addFill(taker, e.Order, -shares, f.Price, market.trades, o.symbol)
	return nil
}

// cancel applies the cancel of an account's order for a symbol, with its reason.
func (v *View) cancel(a *account, sym symbolNumber, c *exchange.Cancel, why exchange.WhyCanceled) error {
	o := a.orders.find(c.Order)
	if o == nil || o.open != c.Shares || o.symbol != sym {
		return fmt.Errorf("%s of order %d are canceled, but a different number is open", c.Shares, c.Order)
	}
	o.open = 0
	if n := v.noteResting(a, o); n != nil {
		n.Canceled, n.Withdrew = c.Shares, c.Shares
		n.Settle(why)
	}
	err := v.change(&v.markets[sym], o, OpDelete, 0)
	v.remove(a, o)
	return err
}

// cancelAll applies a record that cancels several orders of an account.
func (v *View) cancelAll(e *exchange.Event) error {
	for i := range e.Cancels {
		a, sym, err := v.find(e.Account, e.Cancels[i].Symbol)
		if err != nil {
			return err
		}
		if err := v.cancel(a, sym, &e.Cancels[i], e.Cause.Why()); err != nil {
			return err
		}
	}
	return nil
}

// replace removes the order that the order in e replaces.
func (v *View) replace(a *account, e *exchange.Event) error {
	old := &e.Amend.Old
	o := a.orders.find(old.Order)
	if o == nil || o.open != old.Shares || v.markets[o.symbol].name != e.Symbol {
		return fmt.Errorf("%s of order %d are replaced, but a different number is open", old.Shares, old.Order)
	}
	o.open = 0
	if n := v.noteResting(a, o); n != nil {
		n.Canceled, n.Withdrew = old.Shares, old.Shares
		n.State, n.By = exchange.StatusReplaced, e.Order
	}
	err := v.change(&v.markets[o.symbol], o, OpReplace, 0)
	v.remove(a, o)
	return err
}

// cloned returns a copy of a ref, because an event's ref is overwritten later.
func cloned(r exchange.Ref) exchange.Ref { return exchange.Ref(strings.Clone(string(r))) }

// reduce applies an amend that keeps the order's place in the book.
func (v *View) reduce(a *account, e *exchange.Event) error {
	o := a.orders.find(e.Order)
	if o == nil || o.open <= e.Shares || o.open-e.Shares != e.Amend.Open {
		return fmt.Errorf("order %d is reduced by %s to %s, but has a different number open", e.Order, e.Shares, e.Amend.Open)
	}
	more := v.open.with(o)
	amends := more.amended()
	if amends.newRef = cloned(e.Ref); e.Shares == 0 {
		v.noteRef(a, o)
		return nil // the amend changed nothing except that its ref is used
	}
	o.open -= e.Shares
	amends.reduced += e.Shares
	more.changed = e.Time
	if n := v.noteResting(a, o); n != nil {
		n.Less = e.Shares
	}
	return v.change(&v.markets[o.symbol], o, OpReduce, e.Shares)
}
