package engine

import (
	"strconv"

	"outcry/internal/exchange"
)

// hold reserves what d.order, which was judged by rules, may cost. now is the account's present rules: if they
// differ from rules, nothing was done. If reserved is false, r holds the reason or d.unsettled is set.
func (d *shard) hold(rules *exchange.AccountRules, r *exchange.Result) (now *exchange.AccountRules, reserved bool) {
	e, o := d.engine, &d.order
	account := o.Account
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := account.Rules(); now != rules {
		return now, false
	}
	if d.unsettled = e.canceling == account; d.unsettled {
		return rules, false // the record of the account's cancelAll comes first
	}
	if o.TIF == exchange.GTC && e.refuseTooManyOpen(account, rules, r) {
		return rules, false
	}
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		r.Reason = e.ledger.ReserveMarket(d.instrument, o, d.judged.quote.Cost)
	} else {
		r.Reason = e.ledger.Reserve(d.instrument, o)
	}
	if r.Reason != exchange.OK {
		d.addHoldings(r)
		return rules, false
	}
	return rules, true
}

// refuseTooManyOpen reports whether the account of an order that may rest, or the whole exchange, is at its limit of
// open orders, and then rejects the order in r. Callers hold mu, so that the limits are exact.
func (e *Engine) refuseTooManyOpen(a *exchange.Account, rules *exchange.AccountRules, r *exchange.Result) bool {
	if rules != nil && rules.OpenMax > 0 && int64(a.OpenOrders()) >= rules.OpenMax {
		r.Reason, r.Most = exchange.AccountOrdersExceeded, rules.OpenMax
		r.Details = &exchange.RejectDetails{Bound: strconv.FormatInt(rules.OpenMax, 10)}
	} else if most := e.limits.accountOpenOrders.Load(); int64(a.OpenOrders()) >= most {
		r.Reason, r.Most = exchange.AccountOrdersExceeded, most
	} else if most := e.limits.openOrders.Load(); int64(e.ledger.OpenOrders()) >= most {
		r.Reason, r.Most = exchange.OpenOrdersExceeded, most
	}
	return r.Reason != exchange.OK
}

// affords reports whether the account of d.order has enough for what the order may spend; if not, r and d.unsettled
// are set as by hold. It is called before the walk over the book, so that the book is not walked for orders that the
// account cannot pay for. It is always true for a market buy, because its cost is known only after that walk.
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
		d.addHoldings(r)
		return false
	}
	e.ledger.Withdraw(d.instrument, o)
	return true
}

// addHoldings adds the holdings of d.order's account to an InsufficientFunds or InsufficientShares in r. Callers hold
// mu.
func (d *shard) addHoldings(r *exchange.Result) {
	account := d.order.Account
	//exhaustive:ignore only these two reasons are about what the account has
	switch r.Reason {
	case exchange.InsufficientFunds:
		// The missing cash may be held by an order that is not in the journal yet. If the process died now, the order would
		// be lost, and this rejection would contradict the journal. So the command is retried once that order is settled.
		d.unsettled = account.Unsettled()
		r.CashHave, _ = account.Balance()
		if d.order.Type == exchange.Market {
			r.Details = &exchange.RejectDetails{Needs: d.judged.quote.Cost, OrMore: d.judged.quote.Cut}
		}
	case exchange.InsufficientShares:
		r.SharesHave, _ = d.instrument.Position(account)
	}
}

// withdraw releases the hold of o because the journal has no room for its record.
func (d *shard) withdraw(o *exchange.Order) {
	e := d.engine
	e.mu.Lock()
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		e.ledger.WithdrawMarket(d.instrument, o, d.judged.quote.Cost)
	} else {
		e.ledger.Withdraw(d.instrument, o)
	}
	e.withdrawn++
	e.mu.Unlock()
}
