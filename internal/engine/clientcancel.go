package engine

import (
	"context"
	"errors"
	"sync"

	"outcry/internal/exchange"
)

// cancelAllsMax is how often an account may cancel all within a second: each holds all symbols in
// which the account has open orders.
const cancelAllsMax = 10

// cancelAllRates knows when accounts have canceled all. It is bounded by accounts, and by those that did within
// the last two seconds in which anybody did. An account is refused for what it did itself alone.
//
// It has two generations, so that nobody has to search for what is old: all that older has is older than begun.
type cancelAllRates struct {
	mu           sync.Mutex
	newer, older map[*exchange.Account]*cancelAllTimes
	begun        int64 // when the first was entered into newer
}

// cancelAllTimes are the times of the last ones, a ring.
type cancelAllTimes struct {
	at   [cancelAllsMax]int64
	next int // the oldest
}

// take counts one at now, or returns false if it is one too many. Refused ones do not count.
func (c *cancelAllRates) take(a *exchange.Account, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(a, now)
	if now-t.at[t.next] < exchange.Second {
		return false
	}
	t.at[t.next] = now
	t.next = (t.next + 1) % cancelAllsMax
	return true
}

// of returns the times of an account, in the newer generation. Callers hold mu.
func (c *cancelAllRates) of(a *exchange.Account, now int64) *cancelAllTimes {
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

// cancelAllOf does the next command of a task, which is a CancelAll, in its caller's goroutine: no owner
// waits for others. An error is that of cancelAll.
func (e *Engine) cancelAllOf(ctx context.Context, t *task) error {
	command, r := &t.commands[t.next].Command, &t.results[t.next]
	t.appended = false
	account := e.account(command.Account)
	switch {
	case e.interrupted.Load():
		return ErrStopped
	case account == nil:
		r.Reason = exchange.UnknownAccount
	case e.unreadable(r):
	case !e.cancelAlls.take(account, e.keeper.clock.now()):
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
