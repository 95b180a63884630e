package engine

import "outcry/internal/exchange"

// record appends one record of all cancels and releases the holds, all at once. If it cannot,
// the result holds the reason, and nothing changes. A cancel in pieces may need
// several records, of which the last ones may be refused.
func (c *cancelAll) record() error {
	e := c.engine
	var all []exchange.Cancel
	c.event = exchange.Event{Kind: exchange.OrdersCanceled, Time: e.options.Now(), Account: c.owner.ID}
	for _, h := range c.held {
		if h.err != nil || h.refused != exchange.OK {
			c.result.Reason = reasonForCancel(h.refused)
			return h.err
		}
		c.event.Time = h.shard.book.Moment(c.event.Time)
		all = append(all, h.open...)
	}
	done, err := c.append(all)
	if err != nil {
		e.giveUp()
		return err
	}
	c.result.Time = c.event.Time
	for _, h := range c.held {
		n := min(len(h.open), done)
		h.open = h.open[:n]
		if done -= n; n > 0 {
			c.result.Symbols = append(c.result.Symbols, h.sum())
		}
	}
	if c.result.Reason != exchange.OK && len(c.result.Symbols) == 0 {
		c.result.Time = 0
	}
	return nil
}

// append appends the records of the cancels in all, and returns how many orders these records cover.
func (c *cancelAll) append(all []exchange.Cancel) (done int, err error) {
	e := c.engine
	if c.cause == exchange.BySwitch {
		e.switchMu.Lock()
		defer e.switchMu.Unlock()
		if e.dueOf(c.owner) != c.due {
			return 0, nil // the switch was armed again, or disarmed, while the shards were being held
		}
	} else if len(all) == 0 {
		return 0, nil
	}
	for most := len(all); ; {
		n := min(most, len(all)-done)
		ok, err := c.appendPiece(all[done:done+n], done+n == len(all))
		switch {
		case err != nil:
			return done, err
		case ok:
			if done += n; done == len(all) {
				return done, nil
			}
		case c.result.Reason == exchange.TooManyCancels && c.inPieces() && n > 1:
			c.result.Reason, most = exchange.OK, n/2
		default:
			return done, nil
		}
	}
}

// appendPiece appends one record and then releases all holds of its orders under one lock. If the journal
// refuses the record, ok is false and the result holds the reason.
func (c *cancelAll) appendPiece(piece []exchange.Cancel, last bool) (ok bool, err error) {
	e := c.engine
	c.event.Cancels, c.event.Cause = piece, c.cause
	if c.cause == exchange.BySwitch && !last {
		c.event.Cause = exchange.ByClient // a record BySwitch disarms the switch, which only the last one may do
	}
	record := exchange.AppendEvent(nil, &c.event)
	var refused exchange.Result
	if ok, err = e.claimToCancel(len(record), &refused); !ok {
		c.result.Reason = refused.Reason
		return false, err
	}
	if c.seq, err = e.append(record, len(record)); err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var in *exchange.Instrument
	for i := range piece {
		o := &piece[i]
		if in == nil || in.Symbol != o.Symbol {
			in = e.ledger.Instrument(o.Symbol)
		}
		e.ledger.Release(in, &exchange.Order{Account: c.owner, Terms: o.Terms, Canceled: o.Shares})
	}
	if c.event.Cause == exchange.BySwitch {
		e.ledger.SetSwitch(c.owner, 0)
		e.keeper.arm(c.owner, 0)
	}
	return true, nil
}
