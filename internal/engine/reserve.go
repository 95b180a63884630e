package engine

import "outcry/internal/exchange"

// reserve makes d.order of a command, judges it, and takes its hold, or says in r why not.
func (d *shard) reserve(c *exchange.Command, r *exchange.Result) bool {
	if d.amending != nil {
		return d.reserveInstead(r)
	}
	account := d.find(c.Account)
	if account == nil {
		r.Reason = exchange.UnknownAccount
		return false
	}
	if h := d.book.Halted(); h != nil {
		r.Reason, r.More = exchange.Halted, &exchange.ResultMore{Halt: h}
		return false
	}
	for rules := d.engine.rulesOf(account); ; {
		if !d.judge(c, account, rules, r) {
			return false
		}
		now, reserved := d.take(rules, r)
		if now == rules {
			return reserved
		}
		rules = now // they were changed while it was judged
	}
}

// take takes the hold of d.order, which was judged by these rules of its account, or says in r why not. If there
// are others by now, it returns them, and does nothing.
func (d *shard) take(rules *exchange.AccountRules, r *exchange.Result) (now *exchange.AccountRules, reserved bool) {
	e, o := d.engine, &d.order
	account := o.Account
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := account.Rules(); now != rules {
		return now, false
	}
	if d.unsettled = e.canceling == account; d.unsettled {
		return rules, false // the record of a cancel of all comes first
	}
	if o.TIF == exchange.GTC && e.tooManyOpen(account, rules, r) {
		return rules, false
	}
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		r.Reason = e.ledger.ReserveMarket(d.instrument, o, d.judged.quote.Cost)
	} else {
		r.Reason = e.ledger.Reserve(d.instrument, o)
	}
	if r.Reason != exchange.OK {
		d.noteMissing(r)
		return rules, false
	}
	return rules, true
}

// affords reports whether the account of d.order has what the order may spend; if not, r is as take would leave it.
// It is asked before the book is walked for the order: who cannot pay for it has nothing walked. What a market
// buy costs only that walk tells.
func (d *shard) affords(r *exchange.Result) bool {
	e, o := d.engine, &d.order
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.unsettled = e.canceling == o.Account; d.unsettled {
		return false
	}
	if r.Reason = e.ledger.Reserve(d.instrument, o); r.Reason != exchange.OK {
		d.noteMissing(r)
		return false
	}
	e.ledger.Withdraw(d.instrument, o)
	return true
}

// noteMissing says in r what the account of d.order has, if that is too little. Callers hold mu.
func (d *shard) noteMissing(r *exchange.Result) {
	account := d.order.Account
	//exhaustive:ignore these two say what there is
	switch r.Reason {
	case exchange.InsufficientFunds:
		// What is missing may be held by an order that has no place in the journal
		// yet. If the process died now it would never have been, and this
		// refusal could not be explained: once more, when that is settled.
		d.unsettled = account.Unsettled()
		r.CashHave, _ = account.Balance()
		if d.order.Type == exchange.Market {
			r.More = &exchange.ResultMore{Needs: d.judged.quote.Cost, OrMore: d.judged.quote.Cut}
		}
	case exchange.InsufficientShares:
		r.SharesHave, _ = d.instrument.Position(account)
	}
}

// withdraw takes back the hold of an order that finds no room.
func (d *shard) withdraw(o *exchange.Order) {
	e := d.engine
	e.mu.Lock()
	if d.amending != nil {
		e.ledger.WithdrawInstead(d.instrument, &d.old, o)
	} else if o.Type == exchange.Market && o.Side == exchange.Buy {
		e.ledger.WithdrawMarket(d.instrument, o, d.judged.quote.Cost)
	} else {
		e.ledger.Withdraw(d.instrument, o)
	}
	e.withdrawn++
	e.mu.Unlock()
}

// settle moves what d.fills say, and gives back what d.order's record has taken back. It has
// its place in the journal.
func (d *shard) settle() {
	d.engine.mu.Lock()
	if d.amending != nil {
		d.engine.ledger.SettleInstead(d.instrument, &d.old, &d.order, d.fills)
	} else {
		d.engine.ledger.Settle(d.instrument, &d.order, d.fills)
	}
	if own := d.book.Own(); own != nil {
		d.engine.ledger.ReleaseOwn(d.instrument, d.order.Account, own)
	}
	d.engine.mu.Unlock()
}
