package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/internal/exchange"
)

// task is what one call of Execute asks. It goes from owner to owner: each does the
// commands that are its own and passes the task on, and the last one gives it back to
// the session. So a frame for many symbols costs one switch of goroutines for each,
// not two. It has one holder at a time.
type task struct {
	commands []Request
	results  []exchange.Result
	next     int // the first command that is not done
	err      error
	refs     lookup        // of the refs of the commands
	again    bool          // the next command hangs on another one: hand it over later
	request  request       // what an owner is asked instead of commands; nil mostly
	done     chan struct{} // holds one value: the session holds the task again
	clock    stageClock
	appended bool // the last command that was done has appended its record, and read nothing since
}

// request is what an owner is asked besides commands: for a sign of life, or by operators.
// Its methods are called by the owner's goroutine.
type request interface {
	// do does it, between two commands. An error is the log's and final, or ErrStopped.
	do() error
	// amid is called in the middle of an order, where nothing of the symbol may change. It
	// reports whether the request is answered by that; otherwise do follows.
	amid() bool
}

// recycle keeps a task for later use.
func (e *Engine) recycle(t *task) {
	t.commands, t.results, t.refs = nil, nil, lookup{}
	e.tasks.Put(t)
}

// onward answers the commands that come next and have no owner, and returns the inbox
// of the first that has one. It returns nil at the end, and before a CancelAll: that waits for
// owners, so the session does it (cancelAllOf).
func (e *Engine) onward(t *task) *inbox {
	for t.next < len(t.commands) && t.commands[t.next].Kind != exchange.CancelAll {
		if in := e.route(&t.commands[t.next].Command, &t.results[t.next], &t.refs); in != nil {
			return in
		}
		t.appended = false
		t.next++
	}
	return nil
}

// hand gives a task to an owner and waits until it comes back, with some commands
// done. After an error reusable reports whether no owner can have the task any more.
func (e *Engine) hand(ctx context.Context, in *inbox, t *task) (reusable bool, err error) {
	if err := in.send(ctx, t); err != nil {
		return true, err
	}
	// A task that was sent before Close began is given back before its owner ends.
	if e.closing() {
		return false, ErrStopped
	}
	<-t.done
	return true, t.err
}

// serve does an owner's commands of a task, lets the next owner or the session go on, then
// does what can wait. While others wait it does a part of the task at a time.
func (in *inbox) serve(t *task) {
	e, next := in.engine, in
	t.clock.take()
	in.spent = 0
	for now := e.options.Now(); next == in && t.err == nil && t.next < len(t.commands); {
		if in.spent >= turnWork {
			if in.spent = 0; in.keep(t) {
				t.clock.give()
				in.owner.idle()
				return
			}
		}
		if in.asked.Load() {
			in.doRequests()
		}
		if e.interrupted.Load() {
			t.err = ErrStopped
			break
		}
		in.spent++
		in.appended = false
		if t.err = e.execute(in.owner, t, now); t.err == nil {
			t.appended = in.appended && t.results[t.next].Reason == exchange.OK
			if t.next++; t.next < len(t.commands) {
				next = in.ownerOfNext(t)
			}
		}
	}
	switch {
	case t.err == nil:
	case errors.Is(t.err, errAgain):
		t.err, t.again = nil, true
		t.results[t.next] = exchange.Result{}
	case !errors.Is(t.err, ErrStopped):
		e.giveUp()
	}
	t.clock.give()
	if !e.pass(t, next) {
		t.done <- struct{}{}
	}
	in.owner.idle()
}

// ownerOfNext is Engine.owner for the next command of a task, behind one that in has done: many are orders of the
// same symbol.
func (in *inbox) ownerOfNext(t *task) *inbox {
	done, c := &t.commands[t.next-1], &t.commands[t.next]
	if c.Kind == exchange.PlaceOrder && done.Kind == c.Kind && done.Symbol == c.Symbol {
		return in
	}
	return in.engine.owner(&c.Command, &t.results[t.next], &t.refs)
}

// errAgain says that a command hangs on another one that an owner is in the middle of. An
// owner never waits for another: the session does, and hands the command over again.
var errAgain = errors.New("engine: once more")

// A session pauses before it hands a command over again, for longer each time.
const (
	againMin = 50 * time.Microsecond
	againMax = 50 * time.Millisecond
)

// pause waits before a task is handed over again for the n-th time. The error is ctx's,
// the journal's, or ErrStopped.
func (e *Engine) pause(ctx context.Context, n int) error {
	timer := time.NewTimer(min(againMin<<min(n, 20), againMax))
	defer timer.Stop()
	select {
	case <-timer.C:
		if e.failed.Load() { // what is not settled stays so
			return fmt.Errorf("engine: %w", e.log.Err())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stop:
		return ErrStopped
	}
}

// execute does the next command of a task.
func (e *Engine) execute(owner doer, t *task, now int64) error {
	c, r := &t.commands[t.next], &t.results[t.next]
	if (c.Ref != "" || c.More != nil) && newRef(&c.Command) != "" {
		return e.once(owner, c, r, &t.refs, now)
	}
	return owner.do(c, r, now)
}

// pass gives a task to the owner of its next command, whose inbox is known unless it
// is nil. It does not wait, so that owners never wait for each other: it returns false
// where that inbox is full, and where there is nothing to pass on.
func (e *Engine) pass(t *task, in *inbox) bool {
	if t.err != nil || t.again || t.next == len(t.commands) || e.closing() {
		return false
	}
	if in == nil {
		if in = e.onward(t); in == nil {
			return false
		}
	}
	return in.offer(t) == nil
}

// closing reports whether Close has begun.
func (e *Engine) closing() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}
