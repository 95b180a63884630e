package engine

import "outcry/internal/exchange"

// mayPlace reports whether the exchange takes orders and amends at this moment: OK, NoRoom, DatabaseBehind
// or Unresumed.
func (e *Engine) mayPlace() exchange.RejectReason {
	if r := e.admit(); r != exchange.OK || !e.unresumed.Load() {
		return r
	}
	return exchange.Unresumed
}

// rulesOf returns the rules of an account, nil for none. It takes the ledger's lock only if any account has some.
func (e *Engine) rulesOf(a *exchange.Account) *exchange.AccountRules {
	if !e.ruled.Load() {
		return nil
	}
	return e.rulesNow(a)
}

// rulesNow is rulesOf under the lock.
func (e *Engine) rulesNow(a *exchange.Account) *exchange.AccountRules {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Rules()
}

// noRules are those of an account for which nothing is set.
var noRules exchange.AccountRules

// blocked refuses an order, or an amend, of an account that is blocked.
func blocked(rules *exchange.AccountRules, r *exchange.Result) bool {
	if rules.Block == nil {
		return false
	}
	r.Reason, r.More = exchange.Blocked, &exchange.ResultMore{Reason: rules.Block.Reason}
	return true
}

// judged is what was found out about an order while it was judged.
type judged struct {
	unsent exchange.Unsent
	quote  exchange.Quote // of an FOK, and of an order at market
}

// judge makes d.order, which c asks for, what it is in this symbol and of this account, and refuses it where
// the book or the rules say so. It is judged each time before its hold is taken, and never afterwards. An order
// without instructions, for which no rules are set, pays for one comparison.
func (d *shard) judge(
	c *exchange.Command, a *exchange.Account, rules *exchange.AccountRules, r *exchange.Result,
) bool {
	o, symbol := &d.order, d.book.Rules()
	c.Begin(o, a)
	if rules == nil {
		if o.Plain() && symbol == (exchange.SymbolRules{}) {
			return !d.engine.tooSmall(c, r)
		}
		rules = &noRules
	}
	d.judged = judged{}
	if o.STP == exchange.TradeWithSelf && rules.STP != exchange.TradeWithSelf {
		o.STP, d.judged.unsent = rules.STP, d.judged.unsent|exchange.UnsentSTP
	}
	if !o.Plain() && d.engine.unreadable(r) || blocked(rules, r) {
		return false
	}
	if c.Limit != 0 && !symbol.OnTick(c.Limit) {
		r.Reason, r.More = exchange.OffTick, &exchange.ResultMore{Rules: symbol}
		return false
	}
	if !symbol.OnLot(o.Shares) && !d.sellsAll(o, o.Shares, 0) {
		r.Reason, r.More = exchange.OffLot, &exchange.ResultMore{Rules: symbol}
		return false
	}
	best, _ := d.book.Meets(o.Side, 0)
	if o.Type == exchange.Market && best == 0 {
		r.Reason = exchange.NobodyOpposite
		return false
	}
	if c.Limit == 0 {
		o.Limit, d.judged.unsent = symbol.Protection(o.Side, best, d.book.Last()), d.judged.unsent|exchange.UnsentLimit
	}
	return d.judgePrice(rules, r)
}

// judgePrice is judge for what has a limit, also in an amend.
func (d *shard) judgePrice(rules *exchange.AccountRules, r *exchange.Result) bool {
	o := &d.order
	if bound, outside := d.book.Rules().Outside(o.Side, o.Limit, d.book.Last()); outside {
		r.Reason, r.More = exchange.OutsideBand, &exchange.ResultMore{Best: bound, Bound: bound.String()}
		return false
	}
	if (o.TIF == exchange.FOK || o.Type == exchange.Market) && !d.quote(r) {
		return false
	}
	if could := d.judged.quote.Shares; o.TIF == exchange.FOK && could < o.Shares {
		r.Reason, r.More = exchange.CannotFill, &exchange.ResultMore{Could: could}
		return false
	}
	if best, meets := d.book.Meets(o.Side, o.Limit); o.Post && meets {
		r.Reason, r.More = exchange.WouldExecute, &exchange.ResultMore{Best: best}
		return false
	}
	return d.judgeSize(rules, r)
}

// quote finds out what d.order would come to. A market buy is refused once it is known to cost too much: nobody makes
// the shard look at many more orders than he can pay for.
func (d *shard) quote(r *exchange.Result) bool {
	if !d.affords(r) {
		return false
	}
	e, o, q := d.engine, &d.order, &d.judged.quote
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		e.mu.Lock()
		cash, _ := o.Account.Balance()
		e.mu.Unlock()
		*q = d.book.QuoteWithin(o, cash)
	} else {
		*q = d.book.Quote(o)
	}
	d.inbox.spent += q.Orders / fillsPerWork
	if !q.Cut {
		return true
	}
	// Its cost is only the first part: it must not be taken as the hold, whatever has come meanwhile.
	e.mu.Lock()
	defer e.mu.Unlock()
	r.Reason = exchange.InsufficientFunds
	d.noteMissing(r)
	d.unsettled = d.unsettled || e.canceling == o.Account || r.CashHave.Cmp(q.Cost) >= 0
	return false
}

// judgeSize refuses an order that is larger than its account may place.
func (d *shard) judgeSize(rules *exchange.AccountRules, r *exchange.Result) bool {
	o := &d.order
	if least := d.engine.limits.orderValue.Load(); least != nil && d.worth().Cmp(*least) < 0 {
		r.Reason, r.More = exchange.OrderTooSmall, &exchange.ResultMore{Needs: d.worth(), Least: least}
		return false
	}
	if most := rules.SharesMax; most != 0 && o.Shares > most {
		r.Reason, r.More = exchange.OrderTooLarge, &exchange.ResultMore{Bound: most.String()}
		return false
	}
	if most := rules.NotionalMax; most.Sign() > 0 {
		if worth := d.worth(); worth.Cmp(most) > 0 {
			r.Reason, r.More = exchange.NotionalExceeded, &exchange.ResultMore{Needs: worth, Bound: most.String()}
			return false
		}
	}
	return true
}

// worth returns what d.order is worth: amount × limit, and at market without a limit what its fills are.
func (d *shard) worth() exchange.Cash {
	if d.judged.unsent&exchange.UnsentLimit != 0 {
		return d.judged.quote.Cost
	}
	return exchange.Notional(d.order.Shares, d.order.Limit)
}

// sellsAll reports whether so many shares are all that the account of o, a sell, has free, and what is open of
// the order that it replaces.
func (d *shard) sellsAll(o *exchange.Order, shares, own exchange.Shares) bool {
	if o.Side != exchange.Sell {
		return false
	}
	d.engine.mu.Lock()
	free, _ := d.instrument.Position(o.Account)
	d.engine.mu.Unlock()
	return free.Add(own.Position()) == shares.Position()
}
