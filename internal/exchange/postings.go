package exchange

import "iter"

// Posting is the change that a record makes to the cash of an account and to its shares of one symbol. A negative
// amount is a decrease.
type Posting struct {
	Account            AccountID
	Symbol             Symbol   // symbol of the shares; "" if an account is opened
	Cash, HeldCash     Cash     // free cash, and cash held by open buys
	Shares, HeldShares Position // free shares, and shares held by open sells
}

// Postings ranges over the changes that e makes to the cash and shares of accounts. The first postings are those of
// the owners of resting orders, one for each fill. The next one is that of e's own account: what its order reserves,
// executes and releases, and what an order that it replaces releases. The last ones are those of other orders that e
// cancels, one each. An account may have several postings; a record that moves no cash and no shares has none.
// Postings allocates nothing.
//
// Only readers of the journal use it. The Ledger settles by its own arithmetic, so that the two can be compared:
// replay, Audit and the checks in internal/lab must not use Postings.
func (e *Event) Postings() iter.Seq[Posting] {
	return func(yield func(Posting) bool) { e.post(yield) }
}

// post calls yield for each posting until it returns false.
func (e *Event) post(yield func(Posting) bool) {
	p := Posting{Account: e.Account, Symbol: e.Symbol}
	switch e.Kind {
	case AccountOpened:
		p.Cash = e.Balance
		yield(p)
	case SharesDeposited:
		p.Shares = e.Deposited
		yield(p)
	case OrderAccepted, OrderReplaced, OrderContinued:
		if e.postFills(&p, yield) {
			e.addOrder(&p)
			_ = yield(p) && e.postCancels(e.Own, yield)
		}
	case OrderCanceled, OrderReduced:
		if e.Shares > 0 {
			p.hold(&e.Terms, -e.Shares)
			yield(p)
		}
	case OrdersCanceled:
		e.postCancels(e.Cancels, yield)
	case SymbolMade, SymbolHalted, SymbolResumed, AccountRuled, SymbolRuled, SwitchSet:
	}
}

// postFills calls yield for the owner of each resting order that e filled, and adds to p what e's account gains and
// pays in the fills, ignoring what its order held for them. It returns false if yield did.
func (e *Event) postFills(p *Posting, yield func(Posting) bool) bool {
	for i := range e.Fills {
		f := &e.Fills[i]
		owner := Posting{Account: f.Account, Symbol: e.Symbol}
		paid, shares := Notional(f.Shares, f.Price), f.Shares.Position()
		if e.Side == Buy {
			owner.Cash, owner.HeldShares = paid, Position{}.Sub(shares)
			p.Cash, p.Shares = p.Cash.Sub(paid), p.Shares.Add(shares)
		} else {
			owner.HeldCash, owner.Shares = Cash{}.Sub(paid), shares // the price is the resting order's limit
			p.Cash, p.Shares = p.Cash.Add(paid), p.Shares.Sub(shares)
		}
		if !yield(owner) {
			return false
		}
	}
	return true
}

// addOrder adds to p the change that e makes to the holds of its account's own orders. p already includes the fills.
func (e *Event) addOrder(p *Posting) {
	open := e.Open() // open shares of the order after e
	if e.Kind == OrderContinued {
		open -= e.Shares // the order held for this many shares before
	}
	if p.hold(&e.Terms, open); e.marketBuy() {
		held := e.Hold
		if e.Kind == OrderContinued { // an earlier record has put the cost of the fills on hold
			held = p.Cash
		}
		p.Cash, p.HeldCash = p.Cash.Sub(held), p.HeldCash.Add(held)
	}
	if e.Amend != nil { // e is an OrderReplaced
		p.hold(&e.Amend.Old.Terms, -e.Amend.Old.Shares)
	}
}

// postCancels calls yield for each of some orders of e's account that e canceled. It returns false if yield did.
func (e *Event) postCancels(cancels []Cancel, yield func(Posting) bool) bool {
	for i := range cancels {
		c := &cancels[i]
		p := Posting{Account: e.Account, Symbol: c.Symbol}
		if c.Symbol == "" { // a Cancel of Own has the symbol of its event
			p.Symbol = e.Symbol
		}
		if p.hold(&c.Terms, -c.Shares); !yield(p) {
			return false
		}
	}
	return true
}

// hold moves an order's hold for the given open shares from free to held, or back if shares is negative. It does
// nothing for a market buy, which holds the cost of its fills instead.
func (p *Posting) hold(t *Terms, shares Shares) {
	if t.Side == Sell {
		p.Shares, p.HeldShares = p.Shares.Sub(shares.Position()), p.HeldShares.Add(shares.Position())
		return
	}
	if t.Type == Market {
		return
	}
	cash := Notional(max(shares, -shares), t.Limit)
	if shares < 0 {
		cash = Cash{}.Sub(cash)
	}
	p.Cash, p.HeldCash = p.Cash.Sub(cash), p.HeldCash.Add(cash)
}
