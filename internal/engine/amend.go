package engine

import (
	"fmt"

	"outcry/internal/exchange"
)

// amendOrder changes an open order, in place or by a replacement in one record. If the amend is
// rejected, the order is unchanged. An error is the journal's and final, errAgain, or ErrStopped.
func (d *shard) amendOrder(c *Request, r *exchange.Result, now int64) error {
	o, found := d.findAmended(&c.Command, r)
	if !found {
		return nil
	}
	if r.Reason = d.book.MayCancel(o.ID, c.Account); r.Reason != exchange.OK {
		return nil
	}
	if r.Reason = d.engine.mayPlace(); r.Reason != exchange.OK {
		return nil
	}
	if d.engine.refuseUnreadable(r) || refuseBlocked(orNoRules(d.engine.rulesOf(o.Account)), r) {
		return nil
	}
	d.old = o
	if c.More != nil && c.More.Open {
		if c = d.totalOf(c, r); c == nil {
			return nil
		}
	}
	total, limit, ok := d.newAmount(&c.Command, r)
	if !ok {
		return nil
	}
	r.Order = o.ID
	switch open := total - o.ChainExecuted(); {
	case c.Lags && (limit != o.Limit || open > o.Open):
		c.exceedsRate(r)
		return nil
	case limit != o.Limit || open > o.Open:
		return d.replace(c, r, total, limit, now)
	case open < o.Open:
		return d.reduce(c, r, o.Open-open, now)
	case newRef(&c.Command) == "":
		r.Amended = &exchange.Amended{Open: o.Open}
		return nil
	}
	return d.reduce(c, r, 0, now) // nothing changes, except that the use of the ref must be recorded
}

// exceedsRate rejects a command whose client is above a limit of rates.
func (c *Request) exceedsRate(r *exchange.Result) {
	if r.Reason = exchange.RateExceeded; c.Lags {
		r.Details = &exchange.RejectDetails{
			Bound: "records, fills and cancels that account views and market data have still to process"}
	}
}

// totalOf converts an amend that gives the open amount of d.old into one that gives the total. It returns nil if
// the total is too large; then r holds the reason. It uses the amount executed by now, so it may be called again
// for the same c.
func (d *shard) totalOf(c *Request, r *exchange.Result) *Request {
	executed, total := d.old.ChainExecuted(), *c
	if c.Shares >= exchange.OrderSharesMax-executed {
		r.Reason, r.Details = exchange.OrderTooLarge, &exchange.RejectDetails{
			Bound: fmt.Sprintf("together with the %s executed shares they must be below %s", executed, exchange.OrderSharesMax)}
		return nil
	}
	total.Shares += executed
	return &total
}

// newAmount returns the new total and limit of d.old. ok is false if they are not valid; then r holds the reason.
func (d *shard) newAmount(
	c *exchange.Command, r *exchange.Result,
) (total exchange.Shares, limit exchange.Price, ok bool) {
	o, symbol := &d.old, d.book.Rules()
	executed := o.ChainExecuted()
	if total, limit = executed+o.Open, o.Limit; c.Limit != 0 {
		limit = c.Limit
	}
	if c.Shares != 0 {
		total = c.Shares
	}
	switch {
	case c.Shares != 0 && c.Side != o.Side:
		r.Reason = exchange.AmountSide
	case total <= executed:
		r.Reason, r.Details = exchange.AmountExecuted, &exchange.RejectDetails{Executed: executed}
	case limit != o.Limit && !symbol.OnTick(limit):
		r.Reason, r.Details = exchange.OffTick, &exchange.RejectDetails{Rules: symbol}
	case total != executed+o.Open && !symbol.OnLot(total) && !d.sellsAll(o, total-executed, o.Open):
		r.Reason, r.Details = exchange.OffLot, &exchange.RejectDetails{Rules: symbol}
	}
	return total, limit, r.Reason == exchange.OK
}

// reduce reduces d.old by off shares; it keeps its place in the book. An error is the journal's and final.
func (d *shard) reduce(c *Request, r *exchange.Result, off exchange.Shares, now int64) error {
	e, o := d.engine, &d.old
	d.event.Note(exchange.OrderReduced, o, d.symbol, off, now)
	d.event.Amend = o.Amendment(exchange.OrderReduced, c.Shares, c.Limit, off)
	d.event.Ref = newRef(&c.Command)
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	bytes := len(d.record)
	if ok, err := e.claim(bytes, r); !ok {
		return err
	}
	if off > 0 {
		if _, reason := d.book.Reduce(o.ID, c.Account, off, now); reason != exchange.OK {
			panic("engine: cannot reduce an open order: " + reason.String()) // only this goroutine changes the book
		}
	}
	seq, err := d.append(bytes)
	if err != nil {
		return err
	}
	r.Seq = seq
	r.Amended = &exchange.Amended{Open: o.Open - off}
	if off > 0 {
		e.mu.Lock()
		e.ledger.ReleaseReduced(d.instrument, o, off)
		e.mu.Unlock()
		r.Amended.Reduced, r.Amended.Time = off, now
		d.activity.amends.Add(1)
	}
	if c.Report {
		r.Status.Open = r.Amended.Open
	}
	return nil
}

// replace cancels the open shares of d.old and enters a new order instead. An error is that of amendOrder.
func (d *shard) replace(
	c *Request, r *exchange.Result, total exchange.Shares, limit exchange.Price, now int64,
) error {
	replacement := d.old.Replacement(total, limit)
	d.unsettled = false
	var err error
	if h := d.book.Halted(); h != nil {
		r.Reason, r.Details = exchange.Halted, &exchange.RejectDetails{Halt: h}
	} else {
		err = d.placeInstead(c, r, &replacement, now)
	}
	switch {
	case err != nil:
		return err
	case d.unsettled:
		return errAgain
	case r.Reason != exchange.OK:
		d.addAsked(c.Account, &replacement, r)
	}
	return nil
}

// placeInstead places the replacement of d.old by the steps of place: it judges, reserves, matches, appends, settles
// and fills in the result. An error is that of place.
func (d *shard) placeInstead(c *Request, r *exchange.Result, replacement *exchange.Order, now int64) error {
	var claim orderClaim
	for {
		if !d.reserveInstead(replacement, r) {
			d.forgo(&claim)
			return nil
		}
		wait, ok, err := d.claimOrder(&claim, r)
		if ok {
			break
		}
		d.withdrawInstead()
		if wait == nil {
			return err
		}
		if err := d.awaitRoom(wait); err != nil {
			return err
		}
	}
	d.submitInstead(&c.Command, d.recordTime(&claim, now))
	seq, err := d.appendFirst(&claim)
	if err != nil {
		return err
	}
	d.settleInstead()
	d.countFills(seq, 1, 1)
	if r.Seq, err = d.executeRest(&c.Command, &claim, seq); err != nil {
		return err
	}
	r.Amended = &exchange.Amended{By: d.order.ID}
	d.activity.amends.Add(1)
	d.answerEntered(c, d.disconnect(d.old.ID), r)
	return nil
}

// reserveInstead sets d.order to the replacement of d.old, judges it, and reserves what it needs beyond the hold of
// d.old. It reports whether it succeeded; if not, r holds the reason or d.unsettled is set.
func (d *shard) reserveInstead(replacement *exchange.Order, r *exchange.Result) bool {
	e := d.engine
	for rules := e.rulesOf(d.old.Account); ; {
		d.order, d.judged = *replacement, judged{} // judging may change d.order
		if refuseBlocked(orNoRules(rules), r) || !d.judgePrice(orNoRules(rules), r) {
			return false
		}
		e.mu.Lock()
		now := d.old.Account.Rules()
		if now == rules {
			if d.unsettled = e.canceling == d.old.Account; !d.unsettled {
				r.Reason = e.ledger.ReserveInstead(d.instrument, &d.old, &d.order)
				d.addHoldings(r)
			}
			e.mu.Unlock()
			return r.Reason == exchange.OK && !d.unsettled
		}
		e.mu.Unlock()
		rules = now // the rules changed while the order was judged: judge it again
	}
}

// withdrawInstead releases what reserveInstead has reserved, if the journal has no room for the replacement.
func (d *shard) withdrawInstead() {
	d.engine.mu.Lock()
	d.engine.ledger.WithdrawInstead(d.instrument, &d.old, &d.order)
	d.engine.withdrawn++
	d.engine.mu.Unlock()
}

// submitInstead sets d.order's id, makes the book match it in place of d.old, and fills d.event with the result.
func (d *shard) submitInstead(c *exchange.Command, now int64) {
	o := &d.order
	o.ID = exchange.OrderID(d.engine.lastOrder.Add(1))
	d.fills = d.book.Replace(o, now, d.fills[:0])
	d.fillEvent(exchange.OrderReplaced, o, o.Shares, now)
	d.event.Ref, d.event.Fills = newRef(c), d.fills
	d.event.Amend = d.old.Amendment(exchange.OrderReplaced, c.Shares, c.Limit, 0)
}

// settleInstead is settle for an order that replaces d.old.
func (d *shard) settleInstead() {
	d.engine.mu.Lock()
	d.engine.ledger.SettleInstead(d.instrument, &d.old, &d.order, d.fills)
	d.releaseOwn()
	d.engine.mu.Unlock()
}

// addAsked adds the complete replacement order to a rejection: an amend itself names only what changes.
func (d *shard) addAsked(id exchange.AccountID, o *exchange.Order, r *exchange.Result) {
	var details exchange.RejectDetails
	if r.Details != nil {
		details = *r.Details
	}
	details.Asked = &exchange.Command{Kind: exchange.AmendOrder, Account: id, Symbol: d.symbol, Terms: o.Terms,
		Shares: o.Shares, Order: d.old.ID}
	r.Details = &details
}

// amendUse returns the use of an amend's ref. It includes the first order of the amended chain, which only the
// order's shard knows. ok is false if the order is not in memory or not the account's; then r holds the reason.
func (d *shard) amendUse(c *exchange.Command, r *exchange.Result) (use exchange.RefUse, ok bool) {
	o, found := d.findAmended(c, r)
	if !found {
		return use, false
	}
	use = c.Use()
	use.Symbol, use.Amend.First = d.symbol, o.First()
	if c.More != nil && c.More.Open { // the command gives the open amount, but the record holds the total
		use.Quantity = exchange.Int128(o.ChainExecuted().Position().Add(c.Shares.Position()))
	}
	return use, true
}

// findAmended returns the order that an amend names. found is false if it is not in memory or belongs to another
// account; then r holds the reason.
func (d *shard) findAmended(c *exchange.Command, r *exchange.Result) (o exchange.Order, found bool) {
	if d.find(c.Account) == nil {
		r.Reason = exchange.UnknownAccount
		return o, false
	}
	id := d.orderOf(c, r)
	if o, found = d.book.Find(id); !found {
		d.engine.answerAbsent(id, r) // the order was forgotten before the command reached its shard
		return o, false
	}
	if o.Account.ID != c.Account {
		r.Reason = exchange.ForeignOrder
		return o, false
	}
	return o, true
}
