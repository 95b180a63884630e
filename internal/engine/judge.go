package engine

import "outcry/internal/exchange"

// mayPlace returns OK if the exchange accepts orders and amends now, otherwise NoRoom, DatabaseBehind
// or Unresumed.
func (e *Engine) mayPlace() exchange.RejectReason {
	if r := e.admit(); r != exchange.OK || !e.unresumed.Load() {
		return r
	}
	return exchange.Unresumed
}

// rulesOf returns the rules of an account, nil if it has none. It locks the ledger only if some account has rules.
func (e *Engine) rulesOf(a *exchange.Account) *exchange.AccountRules {
	if !e.ruled.Load() {
		return nil
	}
	return e.rulesNow(a)
}

// rulesNow is rulesOf without the shortcut: it always locks the ledger.
func (e *Engine) rulesNow(a *exchange.Account) *exchange.AccountRules {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Rules()
}

// noRules is used as the rules of an account without rules.
var noRules exchange.AccountRules

// orNoRules returns rules, or noRules if they are nil.
func orNoRules(rules *exchange.AccountRules) *exchange.AccountRules {
	if rules == nil {
		return &noRules
	}
	return rules
}

// refuseBlocked reports whether an account is blocked, and then rejects its order or amend in r.
func refuseBlocked(rules *exchange.AccountRules, r *exchange.Result) bool {
	if rules.Block == nil {
		return false
	}
	r.Reason, r.Details = exchange.Blocked, &exchange.RejectDetails{Reason: rules.Block.Reason}
	return true
}

// judge fills d.order from c, with the defaults of its symbol and account, and reports whether the book and the rules
// allow it; if not, r holds the reason. It is called before each attempt to reserve the hold, and never after the hold
// is reserved. For an order without instructions, in a symbol and account without rules, it costs one comparison.
func (d *shard) judge(
	c *exchange.Command, a *exchange.Account, rules *exchange.AccountRules, r *exchange.Result,
) bool {
	o, symbol := &d.order, d.book.Rules()
	c.Begin(o, a)
	if rules == nil {
		if o.Plain() && symbol == (exchange.SymbolRules{}) {
			return !d.engine.refuseTooSmall(c, r)
		}
		rules = &noRules
	}
	d.judged = judged{}
	if o.STP == exchange.TradeWithSelf && rules.STP != exchange.TradeWithSelf {
		o.STP, d.judged.unsent = rules.STP, d.judged.unsent|exchange.UnsentSTP
	}
	if !o.Plain() && d.engine.refuseUnreadable(r) || refuseBlocked(rules, r) {
		return false
	}
	if c.Limit != 0 && !symbol.OnTick(c.Limit) {
		r.Reason, r.Details = exchange.OffTick, &exchange.RejectDetails{Rules: symbol}
		return false
	}
	if !symbol.OnLot(o.Shares) && !d.sellsAll(o, o.Shares, 0) {
		r.Reason, r.Details = exchange.OffLot, &exchange.RejectDetails{Rules: symbol}
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

// refuseTooSmall reports whether an order is worth less than the minimum, and then rejects it in r.
func (e *Engine) refuseTooSmall(c *exchange.Command, r *exchange.Result) bool {
	least := e.limits.orderValue.Load()
	if least == nil || exchange.Notional(c.Shares, c.Limit).Cmp(*least) >= 0 {
		return false
	}
	r.Reason, r.Details = exchange.OrderTooSmall, &exchange.RejectDetails{Least: least}
	return true
}

// judgePrice is the part of judge that needs the limit. Amends use it as well.
func (d *shard) judgePrice(rules *exchange.AccountRules, r *exchange.Result) bool {
	o := &d.order
	if bound, outside := d.book.Rules().Outside(o.Side, o.Limit, d.book.Last()); outside {
		r.Reason, r.Details = exchange.OutsideBand, &exchange.RejectDetails{Best: bound, Bound: bound.String()}
		return false
	}
	if (o.TIF == exchange.FOK || o.Type == exchange.Market) && !d.quote(r) {
		return false
	}
	if could := d.judged.quote.Shares; o.TIF == exchange.FOK && could < o.Shares {
		r.Reason, r.Details = exchange.CannotFill, &exchange.RejectDetails{Could: could}
		return false
	}
	if best, meets := d.book.Meets(o.Side, o.Limit); o.Post && meets {
		r.Reason, r.Details = exchange.WouldExecute, &exchange.RejectDetails{Best: best}
		return false
	}
	return d.judgeSize(rules, r)
}

// quote calculates what d.order would execute now. The walk over the book stops and the order is rejected once a
// market buy costs more than the account has, so the account's cash bounds the length of the walk.
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
	// The quote covers only part of the cost, so it must not be used as the hold, even if cash has arrived since.
	e.mu.Lock()
	defer e.mu.Unlock()
	r.Reason = exchange.InsufficientFunds
	d.addHoldings(r)
	d.unsettled = d.unsettled || e.canceling == o.Account || r.CashHave.Cmp(q.Cost) >= 0
	return false
}

// judgeSize rejects an order worth less than the minimum, or larger than its account's rules allow.
func (d *shard) judgeSize(rules *exchange.AccountRules, r *exchange.Result) bool {
	o := &d.order
	if least := d.engine.limits.orderValue.Load(); least != nil && d.notional().Cmp(*least) < 0 {
		r.Reason, r.Details = exchange.OrderTooSmall, &exchange.RejectDetails{Needs: d.notional(), Least: least}
		return false
	}
	if most := rules.SharesMax; most != 0 && o.Shares > most {
		r.Reason, r.Details = exchange.OrderTooLarge, &exchange.RejectDetails{Bound: most.String()}
		return false
	}
	if most := rules.NotionalMax; most.Sign() > 0 {
		if worth := d.notional(); worth.Cmp(most) > 0 {
			r.Reason, r.Details = exchange.NotionalExceeded, &exchange.RejectDetails{Needs: worth, Bound: most.String()}
			return false
		}
	}
	return true
}

// notional returns amount × limit of d.order, or for a market order without a limit the cost of its fills.
func (d *shard) notional() exchange.Cash {
	if d.judged.unsent&exchange.UnsentLimit != 0 {
		return d.judged.quote.Cost
	}
	return exchange.Notional(d.order.Shares, d.order.Limit)
}

// sellsAll reports whether shares equals the free shares of o's account plus own, the open shares of the order that o
// replaces. It is false for buys.
func (d *shard) sellsAll(o *exchange.Order, shares, own exchange.Shares) bool {
	if o.Side != exchange.Sell {
		return false
	}
	d.engine.mu.Lock()
	free, _ := d.instrument.Position(o.Account)
	d.engine.mu.Unlock()
	return free.Add(own.Position()) == shares.Position()
}
