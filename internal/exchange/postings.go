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

// Postings ranges over the changes that e makes to the cash and shares of accounts, as Posting returns them. It
// allocates nothing.
func (e *Event) Postings() iter.Seq[Posting] {
	return func(yield func(Posting) bool) {
		var p Posting
		for i := 0; e.Posting(i, &p) && yield(p); i++ {
		}
	}
}

// Posting sets p to posting number i of e, counted from 0. The first postings are those of the owners of resting
// orders, one for each fill. The next one is that of e's own account: what its order reserves, executes and releases,
// and what an order that it replaces releases. The last ones are those of other orders that e cancels, one each. An
// account may have several postings; a record that moves no cash and no shares has none. ok is false if e has no
// posting i.
//
// Only readers of the journal use it. The Ledger settles by its own arithmetic, so that the two can be compared:
// replay, Audit and the checks in internal/lab must not use postings.
func (e *Event) Posting(i int, p *Posting) (ok bool) {
	*p = Posting{Account: e.Account, Symbol: e.Symbol}
	switch e.Kind {
	case AccountOpened:
		p.Cash = e.Balance
		return i == 0
	case SharesDeposited:
		p.Shares = e.Deposited
		return i == 0
	case OrderAccepted, OrderReplaced, OrderContinued:
		switch own := i - len(e.Fills); {
		case own < 0:
			e.postFill(&e.Fills[i], p)
		case own == 0:
			e.postOwn(p)
		case own <= len(e.Own):
			e.postCancel(&e.Own[own-1], p)
		default:
			return false
		}
		return true
	case OrderCanceled, OrderReduced:
		p.hold(&e.Terms, -e.Shares)
		return i == 0 && e.Shares > 0
	case OrdersCanceled:
		if i < len(e.Cancels) {
			e.postCancel(&e.Cancels[i], p)
			return true
		}
	case SymbolMade, SymbolHalted, SymbolResumed, AccountRuled, SymbolRuled, SwitchSet:
	}
	return false
}

// postFill sets p to the posting of the owner of the resting order that e filled.
func (e *Event) postFill(f *Fill, p *Posting) {
	p.Account = f.Account
	paid, shares := Notional(f.Shares, f.Price), f.Shares.Position()
	if e.Side == Buy {
		p.Cash, p.HeldShares = paid, Position{}.Sub(shares)
	} else {
		p.HeldCash, p.Shares = Cash{}.Sub(paid), shares // the price is the resting order's limit
	}
}

// postOwn adds to p what e's account gains and pays in the fills, and how e changes what its orders hold.
func (e *Event) postOwn(p *Posting) {
	for i := range e.Fills {
		f := &e.Fills[i]
		paid, shares := Notional(f.Shares, f.Price), f.Shares.Position()
		if e.Side == Buy {
			p.Cash, p.Shares = p.Cash.Sub(paid), p.Shares.Add(shares)
		} else {
			p.Cash, p.Shares = p.Cash.Add(paid), p.Shares.Sub(shares)
		}
	}
	e.addOrder(p)
}

// postCancel adds to p what an order of e's account that e canceled releases.
func (e *Event) postCancel(c *Cancel, p *Posting) {
	if c.Symbol != "" { // a Cancel of Own has the symbol of its event
		p.Symbol = c.Symbol
	}
	p.hold(&c.Terms, -c.Shares)
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
