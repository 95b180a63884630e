package engine

import (
	"context"
	"errors"

	"outcry/internal/exchange"
)

// errUnresumed is returned by Refusing until Catchup has canceled everything that was due while the exchange was down.
var errUnresumed = errors.New("engine: orders due for cancellation since the exchange was down are still open: " +
	"the journal has no room for their cancels")

// catchup is the part of the work of Catchup that is not done yet. resume removes it from
// the keeper before it works on it.
type catchup struct {
	shards   []*shard // shards with open orders whose connections ended with the previous run
	accounts []canceling
}

// Catchup cancels what became due while the exchange was down, with the present time: open orders with
// OnDisconnect, all open orders of accounts whose dead man's switch has passed, and those of blocked
// accounts. It is called after New and before clients connect. What the journal has no room for is
// tried again in the background; until all is done, orders and amends are rejected as Unresumed. The error
// is the journal's, ErrStopped, or ctx's.
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

// resume does the work in c. It leaves to the keeper what the journal has no room for.
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

// findDue marks the open orders as due whose connection ended with the previous run, and reports whether it found
// any. In the same pass it surveys the book for all accounts in of. One pass for each account would take
// time proportional to accounts × orders in the book.
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
