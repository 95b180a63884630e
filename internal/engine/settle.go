package engine

// settle moves cash and shares for d.fills. It releases the holds of the shares of d.order that were canceled at
// once, and of the orders that self-trade prevention has canceled. The record of d.order must be in the journal.
func (d *shard) settle() {
	d.engine.mu.Lock()
	d.engine.ledger.Settle(d.instrument, &d.order, d.fills)
	d.releaseOwn()
	d.engine.mu.Unlock()
}

// releaseOwn releases the holds of the orders that self-trade prevention has canceled for d.order. Callers hold mu.
func (d *shard) releaseOwn() {
	if own := d.book.Own(); own != nil {
		d.engine.ledger.ReleaseOwn(d.instrument, d.order.Account, own)
	}
}

// countFills updates the counters and the queue of closed orders after a record of d.order. opened is the number of
// orders that the record opened, and closed the number that it replaced, each 0 or 1.
func (d *shard) countFills(seq uint64, opened, closed int) {
	if d.order.Open == 0 {
		closed++
	}
	for i := range d.fills {
		if d.fills[i].Closed {
			closed++
			d.disconnect(d.fills[i].Resting)
		}
	}
	own := d.book.Own()
	if own != nil {
		for i := range own {
			d.disconnect(own[i].Order)
		}
		closed += len(own)
		d.activity.cancels.Add(int64(len(own)))
	}
	n := &d.engine.counters
	d.inbox.spent += (len(d.fills) + len(own)) / fillsPerWork
	d.activity.fill(d.fills)
	if opened != closed {
		n.openOrders.Add(int64(opened - closed))
	}
	if closed > 0 {
		d.close(seq, closed)
	}
}

// closeCanceled updates the counters after record seq has canceled a number of orders.
func (d *shard) closeCanceled(seq uint64, orders int) {
	d.engine.counters.openOrders.Add(int64(-orders))
	d.activity.cancels.Add(int64(orders))
	d.close(seq, orders)
}

// close adds to the queue of closed orders that record seq closed this many orders, at least one.
func (d *shard) close(seq uint64, orders int) {
	d.closed.Push(closing{seq, orders})
	d.closedCount.Add(int64(orders))
	d.engine.counters.closedOrders.Add(int64(orders))
}
