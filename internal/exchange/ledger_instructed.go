package exchange

import "iter"

// ReserveMarket is Reserve for a market buy, which holds exactly what it costs: Book.Quote says that, and nothing
// happens to the book between. It is followed by Settle or WithdrawMarket.
func (l *Ledger) ReserveMarket(in *Instrument, o *Order, cost Cash) RejectReason {
	if !o.Account.hold(cost) {
		return InsufficientFunds
	}
	l.openOrder(in, o.Account)
	o.Account.unsettled++
	return OK
}

// WithdrawMarket is Withdraw for what ReserveMarket has reserved.
func (l *Ledger) WithdrawMarket(in *Instrument, o *Order, cost Cash) {
	o.Account.unsettled--
	o.Account.release(cost)
	l.closeOrder(in, o.Account)
}

// ReleaseOwn gives back what resting orders of a held that self-trade prevention has canceled (Book.Own). It is called
// after the Settle, SettleMore or SettleInstead of the order that met them.
func (l *Ledger) ReleaseOwn(in *Instrument, a *Account, own []Cancel) {
	for i := range own {
		c := &own[i]
		l.Release(in, &Order{ID: c.Order, Account: a, Terms: c.Terms, Shares: c.Shares, Canceled: c.Shares})
	}
}

// ReleaseReduced gives back what o held for shares that an amend has taken off in place.
func (l *Ledger) ReleaseReduced(in *Instrument, o *Order, shares Shares) { in.giveBack(o, shares) }

// ReserveInstead sets aside what o could spend beyond what the open order old, which o is to replace, holds. It returns
// OK, InsufficientFunds or InsufficientShares, and in the latter cases l is unchanged. It is followed by SettleInstead
// or WithdrawInstead. o takes the place of old among the open orders.
func (l *Ledger) ReserveInstead(in *Instrument, old, o *Order) RejectReason {
	if o.Side == Buy {
		if more := costMore(old, o); more.Sign() > 0 && !o.Account.hold(more) {
			return InsufficientFunds
		}
	} else if more := sharesMore(old, o); more > 0 {
		h, s := in.find(o.Account), more.Position()
		if h == nil || h.shares.Cmp(s) < 0 {
			return InsufficientShares
		}
		h.shares, h.held = h.shares.Sub(s), h.held.Add(s)
	}
	o.Account.unsettled++
	return OK
}

// WithdrawInstead takes back what ReserveInstead has reserved: old stays as it was.
func (l *Ledger) WithdrawInstead(in *Instrument, old, o *Order) {
	o.Account.unsettled--
	if o.Side == Buy {
		if more := costMore(old, o); more.Sign() > 0 {
			o.Account.release(more)
		}
	} else if more := sharesMore(old, o); more > 0 {
		in.giveBack(o, more)
	}
}

// SettleInstead gives back what old held and o does not need, and is Settle for o and its fills. old is as it was
// before Book.Replace.
func (l *Ledger) SettleInstead(in *Instrument, old, o *Order, fills []Fill) {
	if o.Side == Buy {
		if more := costMore(old, o); more.Sign() < 0 {
			o.Account.release(Cash{}.Sub(more))
		}
	} else if more := sharesMore(old, o); more < 0 {
		in.giveBack(o, -more)
	}
	l.Settle(in, o, fills)
}

// costMore returns what o, a buy, could cost beyond what old holds; it may be negative.
func costMore(old, o *Order) Cash {
	return Notional(o.Shares, o.Limit).Sub(Notional(old.Open, old.Limit))
}

// sharesMore is costMore for a sell.
func sharesMore(old, o *Order) Shares { return o.Shares - old.Open }

// hold sets cash aside. It returns false, and changes nothing, if a has less.
func (a *Account) hold(cost Cash) bool {
	if a.balance.Cmp(cost) < 0 {
		return false
	}
	a.balance, a.held = a.balance.Sub(cost), a.held.Add(cost)
	return true
}

// release gives back cash that was set aside.
func (a *Account) release(cost Cash) {
	a.held = use(a.held, cost)
	a.balance = a.balance.Add(cost)
}

// accountMore is what few accounts have.
type accountMore struct {
	rules *AccountRules
	due   int64
}

// Rules returns what an operator has set for the account, nil for nothing. It does not change once it is returned.
func (a *Account) Rules() *AccountRules {
	if a.more == nil {
		return nil
	}
	return a.more.rules
}

// Due returns when the account's dead man's switch passes, nanoseconds since the Unix epoch, 0 if it is off.
func (a *Account) Due() int64 {
	if a.more == nil {
		return 0
	}
	return a.more.due
}

// SetRules makes other rules hold for an account. The zero rules are none. Nobody writes to them any more.
func (l *Ledger) SetRules(a *Account, r *AccountRules) {
	if r != nil && *r == (AccountRules{}) {
		r = nil
	}
	a.setMore(accountMore{r, a.Due()})
}

// SetSwitch arms an account's dead man's switch, or disarms it with 0.
func (l *Ledger) SetSwitch(a *Account, due int64) { a.setMore(accountMore{a.Rules(), due}) }

func (a *Account) setMore(m accountMore) {
	if a.more = nil; m != (accountMore{}) {
		a.more = &m
	}
}

// Ruled ranges over the accounts that have rules or an armed switch. It looks at all accounts.
func (l *Ledger) Ruled() iter.Seq[*Account] {
	return func(yield func(*Account) bool) {
		for a := range l.accounts.all() {
			if a.more != nil && !yield(a) {
				return
			}
		}
	}
}
