package engine

import "outcry/internal/exchange"

// placeOrder places an order: it judges, reserves, matches, appends, settles and fills in the result.
func (d *shard) placeOrder(c *Request, r *exchange.Result, now int64) error {
	if r.Reason = d.engine.mayPlace(); r.Reason != exchange.OK {
		return nil
	}
	return d.place(c, r, now)
}

// place is placeOrder after the check that orders are accepted. An order that replaces another one is placed by the
// same steps (replace).
func (d *shard) place(c *Request, r *exchange.Result, now int64) error {
	var claim orderClaim
	for {
		if !d.reserve(&c.Command, r) {
			d.forgo(&claim)
			return nil
		}
		wait, ok, err := d.claimOrder(&claim, r)
		if ok {
			break
		}
		d.withdraw(&d.order)
		if wait == nil {
			return err
		}
		if err := d.awaitRoom(wait); err != nil {
			return err
		}
	}
	d.submit(&c.Command, d.recordTime(&claim, now))
	seq, err := d.appendFirst(&claim)
	if err != nil {
		return err
	}
	d.settle()
	d.countFills(seq, 1, 0)
	if r.Seq, err = d.executeRest(&c.Command, &claim, seq); err != nil {
		return err
	}
	d.answerPlaced(c, r)
	return nil
}

// reserve fills d.order from a command, judges it, and reserves what it may cost. It reports whether it succeeded; if
// not, r holds the reason or d.unsettled is set.
func (d *shard) reserve(c *exchange.Command, r *exchange.Result) bool {
	account := d.find(c.Account)
	if account == nil {
		r.Reason = exchange.UnknownAccount
		return false
	}
	if h := d.book.Halted(); h != nil {
		r.Reason, r.Details = exchange.Halted, &exchange.RejectDetails{Halt: h}
		return false
	}
	for rules := d.engine.rulesOf(account); ; {
		if !d.judge(c, account, rules, r) {
			return false
		}
		now, reserved := d.hold(rules, r)
		if now == rules {
			return reserved
		}
		rules = now // the rules changed while the order was judged: judge it again
	}
}

// submit sets d.order's id, makes the book match it, and fills d.event with the result.
func (d *shard) submit(c *exchange.Command, now int64) {
	o := &d.order
	o.ID = exchange.OrderID(d.engine.lastOrder.Add(1))
	d.fills = d.book.Submit(o, now, d.fills[:0])
	d.fillEvent(exchange.OrderAccepted, o, o.Shares, now)
	d.event.Ref, d.event.Fills = c.Ref, d.fills
}

// answerPlaced fills the result of a PlaceOrder that has placed d.order.
func (d *shard) answerPlaced(c *Request, r *exchange.Result) {
	o := &d.order
	r.Order = o.ID
	if !o.Plain() {
		d.activity.instructed(&o.Terms, o.OnDisconnect)
	}
	d.answerEntered(c, c.Origin, r)
}

// answerEntered fills the part of the result that new orders and replacements share. If d.order is to be canceled when
// its connection ends, it records the connection.
func (d *shard) answerEntered(c *Request, origin *Origin, r *exchange.Result) {
	o := &d.order
	if c.Report {
		r.Status = report(o.Status())
	}
	if o.OnDisconnect && o.Open > 0 {
		d.connect(o.Account, o.ID, origin)
	}
}
