package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/internal/exchange"
)

// Execute executes the commands in order and fills results, which has the same
// length. The caller must not send any byte of the results, not even of rejects and
// queries, before Durable has returned nil for the mark.
//
// If a query or a cancel is for an order that is no longer in memory, only in the
// database, its result is pending as InHistory, and Recall completes it. Executions in
// results belong to the exchange and must not be written to.
//
// An error means that the exchange has failed or is stopping, or that ctx ended
// before an inbox accepted a command. Some commands may then have been executed and
// others not, and no result may be sent. If the error is ctx's, commands and results are
// not used any more, and the results of commands that were not executed are zero.
func (e *Engine) Execute(ctx context.Context, commands []Request, results []exchange.Result) (Mark, error) {
	clock := e.newStageClock()
	clear(results)
	if err := e.pace(ctx); err != nil {
		return Mark{}, err
	}
	t := e.tasks.Get().(*task)
	t.commands, t.results, t.next, t.err, t.clock, t.appended = commands, results, 0, nil, clock, false
	if hasRefs(commands) {
		t.refs = e.lookUp(ctx, commands)
	}
	if reusable, err := e.executeAll(ctx, t); err != nil {
		if reusable {
			e.recycle(t)
		}
		return Mark{}, err
	}
	e.reportStages(&t.clock)
	appended := t.appended
	e.recycle(t)
	if e.failed.Load() {
		// A book may have changes that are in no record, even if the journal's last record still becomes durable: so no
		// result may be sent any more.
		return Mark{}, fmt.Errorf("engine: %w", e.log.Err())
	}
	return e.mark(appended), nil
}

// paceDelayMax is how long a call of Execute waits when the projection is
// BacklogMax or more records behind.
const paceDelayMax = 100 * time.Millisecond

// pace delays a session while Postgres lags by more than half of BacklogMax: the closer the lag is to BacklogMax,
// the longer the delay. Orders then arrive as fast as Postgres accepts them, instead of being refused in bursts.
func (e *Engine) pace(ctx context.Context) error {
	half := uint64(e.limits.backlog.Load()) / 2
	lag := e.lag()
	if lag <= half {
		return nil
	}
	over := min(float64(lag-half)/float64(half+1), 1)
	timer := time.NewTimer(time.Duration(over * float64(paceDelayMax)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stop:
		return ErrStopped
	}
}

// executeAll executes all commands of a task: through their owners, or in this goroutine if a command has no
// owner. After an error, reusable reports whether it is certain that no owner still holds the task.
func (e *Engine) executeAll(ctx context.Context, t *task) (reusable bool, err error) {
	for retries := 0; ; {
		in := e.nextOwner(t)
		if in == nil && t.next == len(t.commands) {
			return true, nil
		}
		at := t.next
		if in == nil {
			reusable, err = true, e.cancelAllOf(ctx, t)
		} else {
			reusable, err = e.hand(ctx, in, t)
		}
		if err == nil && t.retryLater {
			if t.retryLater = false; t.next > at {
				retries = 0
			}
			err = e.pause(ctx, retries)
			retries++
		}
		if err != nil {
			return reusable, err
		}
	}
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
			r.Answer, r.Seq, r.Work = &exchange.Answer{Canceled: count}, c.seq, uint32(c.work)
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

// hand passes a task to an owner and waits until the owner returns it with some of its commands executed. After an
// error, reusable reports whether it is certain that no owner still holds the task.
func (e *Engine) hand(ctx context.Context, in *inbox, t *task) (reusable bool, err error) {
	if err := in.send(ctx, t); err != nil {
		return true, err
	}
	// A task that was sent before Close began is returned before its owner ends.
	if e.closing() {
		return false, ErrStopped
	}
	<-t.done
	return true, t.err
}

// A session pauses before it passes a command to an owner again, longer each time, within these bounds.
const (
	againMin = 50 * time.Microsecond
	againMax = 50 * time.Millisecond
)

// pause waits before a task is handed over again; n counts the attempts since the last progress, from 0. The
// error is ctx's, the journal's, or ErrStopped.
func (e *Engine) pause(ctx context.Context, n int) error {
	timer := time.NewTimer(min(againMin<<min(n, 20), againMax))
	defer timer.Stop()
	select {
	case <-timer.C:
		if e.failed.Load() { // orders that are not settled now never will be
			return fmt.Errorf("engine: %w", e.log.Err())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stop:
		return ErrStopped
	}
}

// recycle returns a task to the pool.
func (e *Engine) recycle(t *task) {
	t.commands, t.results, t.refs = nil, nil, lookup{}
	e.tasks.Put(t)
}
