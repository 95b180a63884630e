package engine

import (
	"context"
	"errors"
	"sync"

	"outcry/internal/exchange"
)

// cancelAllsMax is how many times an account may cancel all within a second: each time holds all shards in
// which the account has open orders.
const cancelAllsMax = 10

// cancelAllRates limits how often an account may cancel all. It remembers the recent times of each account. An
// account is never refused because of other accounts.
//
// It has two generations, so that old entries are dropped without a search: newer replaces older when it is a second
// old. So only accounts that were active in the last two generations take memory.
type cancelAllRates struct {
	mu           sync.Mutex
	newer, older map[*exchange.Account]*cancelAllTimes
	begun        int64 // when newer was created
}

// cancelAllTimes is a ring of the times of an account's last cancelAllsMax cancels of all.
type cancelAllTimes struct {
	at   [cancelAllsMax]int64
	next int // index of the oldest
}

// allow counts one cancel of all at now. It returns false, and does not count it, if the account is above its limit.
func (c *cancelAllRates) allow(a *exchange.Account, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.timesOf(a, now)
	if now-t.at[t.next] < exchange.Second {
		return false
	}
	t.at[t.next] = now
	t.next = (t.next + 1) % cancelAllsMax
	return true
}

// timesOf returns the times of an account, after moving them to the newer generation. Callers hold mu.
func (c *cancelAllRates) timesOf(a *exchange.Account, now int64) *cancelAllTimes {
	if c.newer == nil || now-c.begun >= exchange.Second {
		c.newer, c.older, c.begun = make(map[*exchange.Account]*cancelAllTimes), c.newer, now
	}
	t := c.newer[a]
	if t == nil {
		if t = c.older[a]; t == nil {
			t = &cancelAllTimes{}
			for i := range t.at {
				t.at[i] = now - exchange.Second
			}
		}
		c.newer[a] = t
	}
	return t
}

// cancelAllOf executes the next command of a task, a CancelAll, in the session's goroutine, because an owner
// never waits for other owners. An error is that of cancelAll.
func (e *Engine) cancelAllOf(ctx context.Context, t *task) error {
	command, r := &t.commands[t.next].Command, &t.results[t.next]
	t.appended = false
	account := e.account(command.Account)
	switch {
	case e.interrupted.Load():
		return ErrStopped
	case account == nil:
		r.Reason = exchange.UnknownAccount
	case e.refuseUnreadable(r):
	case !e.cancelAlls.allow(account, e.keeper.clock.now()):
		r.Reason = exchange.TooManyCancelAlls
	default:
		c, err := e.cancelAllOnce(ctx, canceling{account: command.Account, symbol: command.Symbol, cause: exchange.ByClient})
		if err != nil {
			return err
		}
		count := 0
		for _, in := range c.result.Symbols {
			count += in.Orders
		}
		if r.Reason = c.result.Reason; r.Reason == exchange.OK {
			r.More, r.Seq = &exchange.ResultMore{Count: count}, c.seq
		}
		t.appended = c.seq != 0 && r.Reason == exchange.OK
	}
	t.next++
	return nil
}

// cancelAllOnce is cancelAll for a client: while it fails with errBusy it waits and tries again.
func (e *Engine) cancelAllOnce(ctx context.Context, what canceling) (*cancelAll, error) {
	for n := 0; ; n++ {
		c, err := e.cancelAll(ctx, what)
		if !errors.Is(err, errBusy) {
			return c, err
		}
		if err := e.pause(ctx, n); err != nil {
			return c, err
		}
	}
}

// inView leaves a command to the view of accounts, which answers it once it has applied all records appended by now.
func (e *Engine) inView(c *exchange.Command, r *exchange.Result) {
	if _, made := e.shards.Load(c.Symbol); c.Symbol != "" && !made {
		r.Reason = exchange.UnknownSymbol
		return
	}
	r.Reason, r.Pending, r.AsOf = exchange.ViewUnavailable, exchange.InView, e.log.Appended()
}
