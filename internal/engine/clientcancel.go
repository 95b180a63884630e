package engine

import (
	"context"
	"errors"
	"sync"

	"outcry/internal/exchange"
)

const (
	// cancelAllsMax is how often an account may cancel all within a second: each holds all symbols in
	// which the account has open orders.
	cancelAllsMax = 10

	// cancelAllAccountsMax is of how many accounts the engine remembers that they have canceled all
	// within the last second. If there are more, those that come are refused.
	cancelAllAccountsMax = 4096
)

// cancelAllRates knows when accounts have canceled all.
type cancelAllRates struct {
	mu    sync.Mutex
	times map[exchange.AccountID]*cancelAllTimes
}

// cancelAllTimes are the times of the last ones, a ring.
type cancelAllTimes struct {
	at   [cancelAllsMax]int64
	next int // the oldest
}

// take counts one at now, or returns false if it is one too many. Refused ones do not count.
func (c *cancelAllRates) take(id exchange.AccountID, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.times[id]
	if t == nil {
		if c.times == nil {
			c.times = make(map[exchange.AccountID]*cancelAllTimes)
		}
		if len(c.times) >= cancelAllAccountsMax && !c.sweep(now) {
			return false
		}
		t = &cancelAllTimes{}
		for i := range t.at {
			t.at[i] = now - exchange.Second
		}
		c.times[id] = t
	}
	if now-t.at[t.next] < exchange.Second {
		return false
	}
	t.at[t.next] = now
	t.next = (t.next + 1) % cancelAllsMax
	return true
}

// sweep drops the accounts that have not canceled all within the last second, and reports whether there were any.
func (c *cancelAllRates) sweep(now int64) bool {
	before := len(c.times)
	for id, t := range c.times {
		if newest := t.at[(t.next+cancelAllsMax-1)%cancelAllsMax]; now-newest >= exchange.Second {
			delete(c.times, id)
		}
	}
	return len(c.times) < before
}

// cancelAllOf does the next command of a task, which is a CancelAll, in its caller's goroutine: no owner
// waits for others. An error is that of cancelAll.
func (e *Engine) cancelAllOf(ctx context.Context, t *task) error {
	command, r := &t.commands[t.next].Command, &t.results[t.next]
	t.appended = false
	switch {
	case e.interrupted.Load():
		return ErrStopped
	case !e.known(command.Account):
		r.Reason = exchange.UnknownAccount
	case e.unreadable(r):
	case !e.cancelAlls.take(command.Account, e.keeper.clock.now()):
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

// cancelAllOnce is cancelAll for a client, who waits if too many others do.
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

// inView answers a command that the view of accounts answers, once it has all that was appended by now.
func (e *Engine) inView(c *exchange.Command, r *exchange.Result) {
	if _, made := e.shards.Load(c.Symbol); c.Symbol != "" && !made {
		r.Reason = exchange.UnknownSymbol
		return
	}
	r.Reason, r.More = exchange.InView, &exchange.ResultMore{View: e.log.Appended()}
}
