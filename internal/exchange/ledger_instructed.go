package exchange

import "iter"

// ReserveMarket is Reserve for a market buy. It holds cost, which must be the cost from Book.Quote; the book must not
// change between Quote and Submit. It is followed by Settle or WithdrawMarket.
func (l *Ledger) ReserveMarket(in *Instrument, o *Order, cost Cash) RejectReason {
	if !o.Account.hold(cost) {
		return InsufficientFunds
	}
	l.openOrder(in, o.Account)
	o.Account.unsettled++
	return OK
}

// WithdrawMarket is Withdraw for a reservation made by ReserveMarket.
func (l *Ledger) WithdrawMarket(in *Instrument, o *Order, cost Cash) {
	o.Account.unsettled--
	o.Account.release(cost)
	l.closeOrder(in, o.Account)
}

// ReleaseOwn releases the holds of account a's resting orders that self-trade prevention canceled (Book.Own). It is
// called after the Settle, SettleMore or SettleInstead of the order that met them.
func (l *Ledger) ReleaseOwn(in *Instrument, a *Account, own []Cancel) {
	for i := range own {
		c := &own[i]
		l.Release(in, &Order{ID: c.Order, Account: a, Terms: c.Terms, Shares: c.Shares, Canceled: c.Shares})
	}
}

// ReleaseReduced releases the hold of o for the shares by which an amend reduced it in place.
func (l *Ledger) ReleaseReduced(in *Instrument, o *Order, shares Shares) { in.giveBack(o, shares) }

// ReserveInstead reserves what o could spend beyond what old holds, the open order that o will replace. It returns
// OK, InsufficientFunds or InsufficientShares; unless it returns OK, l is unchanged. It is followed by SettleInstead
// or WithdrawInstead. The number of open orders does not change.
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

// WithdrawInstead releases what ReserveInstead reserved; old does not change.
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

// SettleInstead releases the part of old's hold that o does not need, and then settles o and its fills like Settle.
// old is the order before Book.Replace.
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

// costMore returns by how much the possible cost of o, a buy, exceeds the hold of old; it may be negative.
func costMore(old, o *Order) Cash {
	return Notional(o.Shares, o.Limit).Sub(Notional(old.Open, old.Limit))
}

// sharesMore is costMore for a sell.
func sharesMore(old, o *Order) Shares { return o.Shares - old.Open }

// hold sets cash aside. If a has too little, it returns false and changes nothing.
func (a *Account) hold(cost Cash) bool {
	if a.balance.Cmp(cost) < 0 {
		return false
	}
	a.balance, a.held = a.balance.Sub(cost), a.held.Add(cost)
	return true
}

// release makes cash available again that hold set aside.
func (a *Account) release(cost Cash) {
	a.held = use(a.held, cost)
	a.balance = a.balance.Add(cost)
}

// accountMore holds the rarely used state of an account.
type accountMore struct {
	rules *AccountRules
	due   int64
}

// Rules returns the rules that an operator has set for the account, or nil. They must not be modified.
func (a *Account) Rules() *AccountRules {
	if a.more == nil {
		return nil
	}
	return a.more.rules
}

// Due returns when the account's dead man's switch fires, nanoseconds since the Unix epoch, or 0 if it is off.
func (a *Account) Due() int64 {
	if a.more == nil {
		return 0
	}
	return a.more.due
}

// SetRules replaces the rules of an account; zero rules remove them. r must not be modified afterwards.
func (l *Ledger) SetRules(a *Account, r *AccountRules) {
	if r != nil && *r == (AccountRules{}) {
		r = nil
	}
	a.setMore(accountMore{r, a.Due()})
}

// SetSwitch arms an account's dead man's switch to fire at due, or disarms it if due is 0.
func (l *Ledger) SetSwitch(a *Account, due int64) { a.setMore(accountMore{a.Rules(), due}) }

func (a *Account) setMore(m accountMore) {
	if a.more = nil; m != (accountMore{}) {
		a.more = &m
	}
}

// Ruled ranges over the accounts with rules or an armed switch. It visits all accounts.
func (l *Ledger) Ruled() iter.Seq[*Account] {
	return func(yield func(*Account) bool) {
		for a := range l.accounts.all() {
			if a.more != nil && !yield(a) {
				return
			}
		}
	}
}
