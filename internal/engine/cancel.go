package engine

import "outcry/internal/exchange"

// EndOrigin makes the shards cancel all open orders that came with OnDisconnect from a connection, and the orders that
// have replaced them. It does not wait. It must be called once the connection has ended, after its last call of
// Execute. An order of it that is accepted after that is canceled at once. Further calls do nothing, and neither does
// a call with nil.
func (e *Engine) EndOrigin(o *Origin) {
	if o == nil {
		return
	}
	o.mu.Lock()
	shards := o.shards
	o.ended, o.shards = true, nil
	o.mu.Unlock()
	for d := range shards {
		d.endedMu.Lock()
		d.ended = append(d.ended, o)
		d.endedMu.Unlock()
		d.inbox.poke()
	}
}

// chore cancels orders whose connection has ended, in one record. If the journal has no room
// for it, the keeper retries until there is.
func (d *shard) chore() (more bool, err error) {
	d.queueEnded()
	if len(d.connected.due) == 0 {
		return false, nil
	}
	defer d.afterTask()
	reason, err := d.finish()
	if err == nil && reason == exchange.OK {
		reason, err = d.cancelDue()
	}
	if err != nil {
		return false, err
	}
	if reason != exchange.OK {
		d.engine.keeper.retryChores(d)
		return false, nil
	}
	return len(d.connected.due) > 0, nil
}

// disconnectCancelsMax is the maximum number of orders that one record cancels after connections have ended: the
// amount of work that a shard does between two tasks.
const disconnectCancelsMax = 256

// cancelDue cancels the first due orders, as many as fit into one record. If the reason is not OK, it says why no
// record was appended, and nothing has changed. An error is the journal's and final.
func (d *shard) cancelDue() (exchange.RejectReason, error) {
	c := &d.connected
	for most := disconnectCancelsMax; ; most /= 2 {
		owner, taken := d.nextDue(most)
		if len(d.cancels) == 0 {
			c.due = c.due[taken:]
			return exchange.OK, nil
		}
		reason, err := d.cancelMany(owner, exchange.ByDisconnect)
		if reason == exchange.TooManyCancels && most > 1 {
			continue
		}
		if reason == exchange.OK && err == nil {
			c.due = c.due[taken:]
		}
		return reason, err
	}
}

// nextDue fills d.cancels with the first orders that are due, up to most, all of one account and sorted by id. It
// leaves out closed orders, and returns how many due orders it has processed.
func (d *shard) nextDue(most int) (owner *exchange.Account, taken int) {
	due := d.connected.due
	d.cancels = d.cancels[:0]
	for taken < len(due) && taken < most {
		next := due[taken]
		if taken > 0 && (next.owner != owner || next.order <= due[taken-1].order) {
			break
		}
		owner = next.owner
		taken++
		if o, found := d.book.Find(next.order); found && o.Open > 0 {
			d.cancels = append(d.cancels,
				exchange.Cancel{Order: o.ID, Symbol: d.symbol, Terms: o.Terms, Shares: o.Open})
		}
	}
	return owner, taken
}

// cancelMany cancels the orders in d.cancels, which rest and belong to owner, in one record. If the reason is
// NoRoomToCancel or TooManyCancels, nothing has changed; otherwise it is OK. An error is the journal's and final.
func (d *shard) cancelMany(owner *exchange.Account, cause exchange.CancelCause) (exchange.RejectReason, error) {
	e, now := d.engine, d.book.Moment(d.engine.options.Now())
	d.event = exchange.Event{Kind: exchange.OrdersCanceled, Time: now, Account: owner.ID, Cancels: d.cancels, Cause: cause}
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	var refused exchange.Result
	if ok, err := e.claimToCancel(len(d.record), &refused); !ok {
		return refused.Reason, err
	}
	seq, err := e.append(&d.event, d.record, len(d.record))
	if err != nil {
		return exchange.OK, err
	}
	e.mu.Lock()
	for i := range d.cancels {
		c := &d.cancels[i]
		e.ledger.Release(d.instrument, &exchange.Order{Account: owner, Terms: c.Terms, Canceled: c.Shares})
	}
	e.mu.Unlock()
	for i := range d.cancels {
		d.cancelOpen(d.cancels[i].Order, owner, now)
	}
	d.closeCanceled(seq, len(d.cancels))
	return exchange.OK, nil
}

// cancelOrder takes an order out of the book, appends the record, and releases its hold.
// A cancel needs no admission, as it frees more room than it uses. It is rejected for lack of
// room only once the journal's reserve is used up as well.
func (d *shard) cancelOrder(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if d.find(c.Account) == nil {
		r.Reason = exchange.UnknownAccount
		return nil
	}
	id := d.orderOf(c, r)
	if r.Reason = d.book.MayCancel(id, c.Account); r.Reason != exchange.OK {
		if r.Reason == exchange.UnknownOrder {
			e.answerAbsent(id, r) // the order was forgotten before the command reached its shard
		}
		return nil
	}
	if ok, err := e.claimToCancel(exchange.EventBytesMax, r); !ok {
		return err
	}
	o, _ := d.book.Cancel(id, c.Account, now)
	d.fillEvent(exchange.OrderCanceled, &o, o.Canceled, now)
	seq, err := d.append(exchange.EventBytesMax)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.ledger.Release(d.instrument, &o)
	e.mu.Unlock()
	d.disconnect(id)
	d.closeCanceled(seq, 1)
	r.Status, r.Seq = o.Status(), seq
	return nil
}

// cancelOpen removes a resting order from the book.
func (d *shard) cancelOpen(id exchange.OrderID, owner *exchange.Account, now int64) {
	if _, r := d.book.Cancel(id, owner.ID, now); r != exchange.OK {
		panic("engine: cannot cancel an open order: " + r.String()) // only this goroutine changes the book
	}
	d.disconnect(id)
}
