package engine

import (
	"context"
	"errors"

	"outcry/internal/exchange"
)

// task is what one call of Execute asks. It goes from owner to owner: each does the
// commands that are its own and passes the task on, and the last one gives it back to
// the session. So a frame for many symbols costs one switch of goroutines for each,
// not two. It has one holder at a time.
type task struct {
	commands []exchange.Command
	results  []exchange.Result
	next     int // the first command that is not done
	err      error
	refs     lookup        // of the refs of the commands
	work     func() error  // what the first owner does instead of commands; nil mostly
	done     chan struct{} // holds one value: the session holds the task again
	clock    stageClock
}

// recycle keeps a task for later use.
func (e *Engine) recycle(t *task) {
	t.commands, t.results, t.refs = nil, nil, lookup{}
	e.tasks.Put(t)
}

// onward answers the commands that come next and have no owner, and returns the inbox
// of the first that has one, nil at the end.
func (e *Engine) onward(t *task) chan *task {
	for t.next < len(t.commands) {
		if inbox := e.route(&t.commands[t.next], &t.results[t.next], &t.refs); inbox != nil {
			return inbox
		}
		t.next++
	}
	return nil
}

// hand gives a task to an owner and waits until it comes back, with some commands
// done. After an error reusable tells whether no owner can have the task any more.
func (e *Engine) hand(ctx context.Context, inbox chan<- *task, t *task) (reusable bool, err error) {
	select {
	case inbox <- t: // mostly, and at a third of the cost of waiting for three things
	default:
		select {
		case inbox <- t:
		case <-ctx.Done():
			return true, ctx.Err()
		case <-e.stop:
			return true, ErrStopped
		}
	}
	// A task that was sent before Close began is done before its owner ends.
	if e.stopped() {
		return false, ErrStopped
	}
	<-t.done
	return true, t.err
}

// own is an owner goroutine: it does its commands of each task, lets the next owner
// or the session go on, then does what can wait. A nil task ends it.
func (e *Engine) own(inbox chan *task, owner doer, after func()) {
	for t := <-inbox; t != nil; t = <-inbox {
		t.clock.take()
		next := inbox
		if t.work != nil {
			t.err = t.work()
		}
		for now := e.options.Now(); next == inbox && t.err == nil && t.next < len(t.commands); {
			if t.err = e.execute(owner, t, now); t.err == nil {
				if t.next++; t.next < len(t.commands) {
					next = e.owner(&t.commands[t.next], &t.results[t.next], &t.refs)
				}
			}
		}
		if t.err != nil && !errors.Is(t.err, ErrStopped) { // which an order in parts returns between two
			e.giveUp()
		}
		t.clock.give()
		if !e.pass(t, next) {
			t.done <- struct{}{}
		}
		after()
	}
}

// execute does the next command of a task.
func (e *Engine) execute(owner doer, t *task, now int64) error {
	c, r := &t.commands[t.next], &t.results[t.next]
	if c.Ref != "" && c.Kind.Makes() {
		return e.once(owner, c, r, &t.refs, now)
	}
	return owner.do(c, r, now)
}

// pass gives a task to the owner of its next command, whose inbox is known unless it
// is nil. It does not wait, so that owners cannot wait for each other (but see
// cancelAll): it returns false where that inbox is full, and where there is nothing to
// pass on.
func (e *Engine) pass(t *task, inbox chan *task) bool {
	if t.err != nil || t.next == len(t.commands) || e.stopped() {
		return false
	}
	if inbox == nil {
		if inbox = e.onward(t); inbox == nil {
			return false
		}
	}
	select {
	case inbox <- t:
		return true
	default:
		return false
	}
}

// stopped tells whether Close has begun.
func (e *Engine) stopped() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// endOwners ends the registrar and the desks, once Close has begun. What an owner does
// with a task in its inbox comes before its end; so none may be sent after the nil.
// Sessions see that the engine is stopped. Owners that pass tasks on may have looked
// before it was: each is asked for a sign that it has come to a later task.
func (e *Engine) endOwners() {
	e.sign(e.registrar.inbox) // it makes desks; those that it makes now are born knowing
	e.eachDesk(func(d *desk) { e.sign(d.inbox) })
	e.registrar.inbox <- nil
	e.registering.Wait()
	e.eachDesk(func(d *desk) { d.inbox <- nil })
}

// sign waits until an owner has done everything that is in its inbox now.
func (e *Engine) sign(inbox chan<- *task) {
	t := &task{done: make(chan struct{}, 1)}
	inbox <- t
	<-t.done
}

func (e *Engine) eachDesk(f func(*desk)) {
	e.desks.Range(func(_, d any) bool {
		f(d.(*desk))
		return true
	})
}
