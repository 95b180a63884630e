package engine

import (
	"context"
	"errors"
	"time"

	"outcry/internal/exchange"
)

// Catchup cancels, at the current time, the orders that became due while the exchange was down: open orders with
// OnDisconnect, all open orders of accounts whose dead man's switch has fired, and those of blocked accounts. It is
// called after New and before clients connect. Cancels that the journal has no room for are retried in the background;
// until all are done, orders and amends are rejected as Unresumed. The error is the journal's, ErrStopped, or ctx's.
func (e *Engine) Catchup(ctx context.Context) error {
	due, of := e.dueAccounts()
	c := &catchup{accounts: due}
	for _, d := range *e.numbered.Load() {
		found := false
		if err := d.inbox.doBetween(ctx, func() { found = d.findDue(of) }); err != nil {
			return err
		}
		if found {
			c.shards = append(c.shards, d)
		}
	}
	e.unresumed.Store(true)
	return e.resume(ctx, c)
}

// dueAccounts returns the cancels that are due for whole accounts, and for each of these accounts an empty map of
// surveys to fill.
func (e *Engine) dueAccounts() (due []canceling, of map[*exchange.Account]map[*shard]*survey) {
	now := e.options.Now()
	of = make(map[*exchange.Account]map[*shard]*survey)
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range e.ledger.Ruled() {
		surveys := make(map[*shard]*survey)
		if at := a.Due(); at != 0 && at <= now {
			due = append(due, canceling{account: a.ID, cause: exchange.BySwitch, due: at, surveys: surveys})
			of[a] = surveys
		}
		if a.Rules() != nil && a.Rules().Block != nil && a.OpenOrders() > 0 {
			due = append(due, canceling{account: a.ID, cause: exchange.ByBlock, surveys: surveys})
			of[a] = surveys
		}
	}
	return due, of
}

// findDue marks as due the open orders whose connection ended with the previous run, and reports whether it found
// any. In the same pass it surveys the book for all accounts that have an entry in of. One pass for each account
// would take time proportional to accounts × orders in the book.
func (d *shard) findDue(of map[*exchange.Account]map[*shard]*survey) bool {
	c, last := &d.connected, exchange.OrderID(d.engine.lastOrder.Load())
	for o := range d.book.Orders() {
		if o.Open == 0 {
			continue
		}
		if o.OnDisconnect && c.origins[o.ID] == nil {
			c.due = append(c.due, dueCancel{o.Account, o.ID})
		}
		if surveys := of[o.Account]; surveys != nil {
			if surveys[d] == nil {
				surveys[d] = &survey{after: last}
			}
			surveys[d].found = append(surveys[d].found, o.ID)
		}
	}
	sortDue(c.due)
	return len(c.due) > 0
}

// keep is the body of the keeper's goroutine. It runs until the engine is closed.
func (e *Engine) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for again := time.Now(); ; {
		wait := e.cancelFired()
		if !e.keeper.idle() && !time.Now().Before(again) {
			e.retryCancels()
			again = time.Now().Add(keepEvery)
		}
		if timer.Stop(); wait > 0 { // not always: a running timer makes each switch of goroutines read the clock
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-e.keeper.wake:
		case <-e.stop:
			return
		}
	}
}

// cancelFired cancels the open orders of accounts whose switches have fired. It returns the time until the next
// check, 0 if none is known.
func (e *Engine) cancelFired() (wait time.Duration) {
	for {
		a, due, wait := e.keeper.nextFired()
		if a == nil || e.closing() {
			return wait
		}
		_, _ = e.cancelFor(canceling{account: a.ID, cause: exchange.BySwitch, due: due}) // on failure it stays armed
	}
}

// retryCancels retries the cancels that the journal had no room for.
func (e *Engine) retryCancels() {
	shards, blocked, catchup := e.keeper.removeRetries()
	if catchup != nil {
		_ = e.resume(context.Background(), catchup) // an error means that the engine has failed or is closing
	}
	for _, d := range shards {
		d.inbox.poke()
	}
	for _, a := range blocked {
		if e.isBlocked(a) {
			e.cancelBlocked(a)
		}
	}
}

// resume does the work in c. It leaves work to the keeper if the journal has no room for it, or if its owner is too
// busy.
func (e *Engine) resume(ctx context.Context, c *catchup) error {
	left := &catchup{}
	for _, d := range c.shards {
		more := false
		err := e.call(ctx, &d.inbox, func() (err error) { more, err = d.cancelAllDue(); return err })
		if err != nil && !errors.Is(err, errBusy) {
			return err
		}
		if more || err != nil {
			left.shards = append(left.shards, d)
		}
	}
	for _, what := range c.accounts {
		done, err := e.cancelAll(ctx, what)
		if err != nil && !errors.Is(err, errBusy) {
			return err
		}
		if err != nil || done.result.Reason != exchange.OK {
			left.accounts = append(left.accounts, what)
		}
	}
	if len(left.shards)+len(left.accounts) == 0 {
		e.unresumed.Store(false)
		return nil
	}
	e.keeper.mu.Lock()
	e.keeper.catchup = left
	e.keeper.mu.Unlock()
	e.keeper.nudge()
	return nil
}

// cancelAllDue cancels all orders that are due. It reports whether some are left because the journal has no room.
// An error is the journal's and final, or ErrStopped.
func (d *shard) cancelAllDue() (left bool, err error) {
	for more := true; more; {
		if more, err = d.chore(); err != nil {
			return true, err
		}
	}
	return len(d.connected.due) > 0, nil
}

// isBlocked reports whether an account is blocked.
func (e *Engine) isBlocked(a *exchange.Account) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Rules() != nil && a.Rules().Block != nil
}

// cancelBlocked cancels the open orders of a blocked account. If that fails, the keeper retries it.
func (e *Engine) cancelBlocked(a *exchange.Account) {
	if reason, err := e.cancelFor(canceling{account: a.ID, cause: exchange.ByBlock}); err != nil || reason != exchange.OK {
		e.keeper.retryBlocked(a)
	}
}

// cancelFor cancels all orders for a cause without a waiting client. An error is the journal's and final,
// ErrStopped or errBusy.
func (e *Engine) cancelFor(what canceling) (exchange.RejectReason, error) {
	c, err := e.cancelAll(context.Background(), what)
	if err != nil {
		return exchange.OK, err
	}
	return c.result.Reason, nil
}

// sweepEvery is the interval at which the sweeper looks for idle shards that hold closed
// orders.
const sweepEvery = time.Second

// sweep runs until the engine is closed. A shard forgets closed orders only after its tasks;
// without the sweeper a shard that was busy and then gets no more tasks would keep them for ever.
func (e *Engine) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for e.counters.closedOrders.Load() > e.limits.closedOrders.Load() && e.sweepOnce() {
			}
			if e.options.History != nil {
				e.refs.sweep(&e.mu, e.options.RefsMax, e.log.Appended, e.options.Projection.Applied)
			}
		case <-e.stop:
			return
		}
	}
}

// sweepOnce sends every shard with closed orders tasks without commands, while memory holds too many
// and the shard still forgets some. It reports whether memory holds fewer closed orders than before.
func (e *Engine) sweepOnce() bool {
	before := e.counters.closedOrders.Load()
	for _, d := range *e.numbered.Load() {
		for held := d.closedCount.Load(); held > 0; {
			if e.counters.closedOrders.Load() <= e.limits.closedOrders.Load() {
				return false
			}
			if _, err := e.hand(context.Background(), &d.inbox, &task{done: make(chan struct{}, 1)}); err != nil {
				return false // the engine is being closed
			}
			left := d.closedCount.Load()
			if left >= held {
				break
			}
			held = left
		}
	}
	return e.counters.closedOrders.Load() < before
}
