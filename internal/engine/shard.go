package engine

import "outcry/internal/exchange"

// String returns the shard's name for errors.
func (d *shard) String() string { return "the shard of " + string(d.symbol) }

func (d *shard) begin() { d.scratch = new(scratch) }

func (d *shard) afterTask() {
	d.forget()
	if cap(d.record) > scratchKeep {
		*d.scratch = scratch{}
	}
}

// scratchKeep is the capacity of the record buffer, in bytes, above which a shard drops its
// scratch memory after a task.
const scratchKeep = 4 << 10

// forget drops closed orders from memory, longest closed first, while memory holds more than
// its limit. Only orders whose rows are committed in Postgres are dropped.
func (d *shard) forget() {
	e := d.engine
	most := e.limits.closedOrders.Load()
	over := e.counters.closedOrders.Load() - most
	if e.options.Projection == nil || over <= 0 {
		return
	}
	seq := e.options.Projection.Applied()
	if over > most {
		over -= most // above twice the limit, drop the excess whatever its age
	} else {
		seq = min(seq, e.longAgo())
	}
	forgotten := int64(0)
	for ; forgotten < min(over, forgetMax) && d.closed.pop(seq); forgotten++ {
		d.book.Forget()
	}
	if forgotten > 0 {
		d.closedCount.Add(-forgotten)
		e.counters.closedOrders.Add(-forgotten)
	}
}

// longAgo returns the seq up to which closed orders are forgotten first. Clients mostly query and cancel orders
// that closed later. While memory holds at most twice its limit, a shard keeps those later orders: less active
// shards hold older ones, which the sweeper removes.
func (e *Engine) longAgo() uint64 {
	appended := e.log.Appended()
	return appended - min(appended, uint64(e.limits.closedOrders.Load()))
}

// freeMemory frees memory that the next task can allocate again.
func (d *shard) freeMemory() {
	d.scratch = nil
	d.closed.Shrink()
	d.connected.shrink()
	d.book.Shrink()
}

// do executes one command. An error is the journal's and final, errAgain, or ErrStopped.
func (d *shard) do(c *Request, r *exchange.Result, now int64) error {
	switch c.Kind {
	case exchange.QueryOrder:
		d.queryOrder(c, r)
		return nil
	case exchange.ShowOrder:
		d.showOrder(&c.Command, r)
		return nil
	case exchange.MakeSymbol:
		d.refuseOtherRules(&c.Command, r)
		return nil // the symbol exists already
	case exchange.OpenAccount, exchange.DepositShares, exchange.PlaceOrder, exchange.CancelOrder, exchange.AmendOrder,
		exchange.CancelAll, exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	if d.book.Unfinished() != 0 {
		reason, err := d.finish()
		if r.Reason = reason; c.Kind == exchange.CancelOrder {
			r.Reason = reasonForCancel(reason)
		}
		if err != nil || reason != exchange.OK {
			return err
		}
	}
	now = d.book.Moment(now)
	switch c.Kind {
	case exchange.PlaceOrder:
		d.unsettled = false
		if err := d.placeOrder(c, r, now); err != nil || !d.unsettled {
			return err
		}
		return errAgain
	case exchange.CancelOrder:
		return d.cancelOrder(&c.Command, r, now)
	case exchange.DepositShares:
		return d.placeShares(&c.Command, r, now)
	case exchange.AmendOrder:
		return d.amendOrder(c, r, now)
	case exchange.OpenAccount, exchange.MakeSymbol, exchange.QueryOrder, exchange.ShowOrder, exchange.CancelAll,
		exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	panic("engine: a shard cannot execute a command of kind " + c.Kind.String())
}

// placeShares checks, claims room, appends, and only then makes the shares visible. No other
// goroutine deposits shares of this symbol, so the check still holds after the append.
func (d *shard) placeShares(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if r.Reason = e.admit(); r.Reason != exchange.OK {
		return nil
	}
	if d.refuseOtherRules(c, r); r.Reason != exchange.OK {
		return nil
	}
	e.mu.Lock()
	r.Reason = e.ledger.MayDeposit(d.instrument, c.Account, c.Deposited)
	e.mu.Unlock()
	if r.Reason != exchange.OK {
		return nil
	}
	if ok, err := e.claim(exchange.EventBytesMax, r); !ok {
		return err
	}
	d.event = exchange.Event{Kind: exchange.SharesDeposited, Time: now, Symbol: d.symbol, Account: c.Account,
		Deposited: c.Deposited, Ref: c.Ref}
	seq, err := d.append(exchange.EventBytesMax)
	if err != nil {
		return err
	}
	r.Seq = seq
	e.mu.Lock()
	e.ledger.Deposit(d.instrument, c.Account, c.Deposited)
	e.mu.Unlock()
	return nil
}

// refuseOtherRules rejects a MakeSymbol or DepositShares in r if the symbol exists with another tick or lot than the
// command has. A command without tick or lot accepts any.
func (d *shard) refuseOtherRules(c *exchange.Command, r *exchange.Result) {
	sent, rules := sentRules(c), d.book.Rules()
	if sent.Tick != 0 && sent.Tick != max(rules.Tick, 1) || sent.Lot != 0 && sent.Lot != max(rules.Lot, 1) {
		r.Reason, r.Details = exchange.RulesDiffer, &exchange.RejectDetails{Rules: rules}
	}
}

// reportAgain fills in the report of a repeated command with the original report, which depends only on the records of
// its order, which is finished first if it has further parts. If memory no longer has the order, the result is pending
// and Recall completes it. An error is that of finish.
func (d *shard) reportAgain(r *exchange.Result) (err error) {
	id := r.Order
	if a := r.Amended; a != nil {
		if id = a.By; id == 0 {
			r.Status.Open = a.Open
			return nil
		}
	}
	if d.book.Unfinished() == id {
		if r.Reason, err = d.finish(); err != nil || r.Reason != exchange.OK {
			return err
		}
	}
	if o, found := d.book.Find(id); found {
		if s, known := o.AtFirst(); known {
			r.Status = report(s)
			return nil
		}
		r.AsOf = d.engine.log.Appended() // the order is still in memory, so the history may lack some of its records
	}
	if r.Reason = exchange.HistoryUnavailable; d.engine.options.History != nil {
		r.Pending = exchange.InHistory
	}
	return nil
}
