package engine

import (
	"errors"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/process/stopwatch"
)

// task is the work of one call of Execute. It moves from owner to owner: each executes the
// commands that belong to it and passes the task on, and the last one returns it to
// the session. So a frame for n symbols costs about n goroutine switches instead of 2n.
// A task has one holder at a time.
type task struct {
	commands   []Request
	results    []exchange.Result
	next       int // index of the first command that is not executed
	err        error
	refs       lookup        // what the session found out about the refs of the commands
	retryLater bool          // the next command depends on one in progress: hand the task over again later
	request    request       // executed instead of commands; nil for most tasks
	done       chan struct{} // capacity 1; receives a value when the session holds the task again
	clock      stageClock
	appended   bool // the last executed command appended its record, and nothing was read after that
}

// request is work for an owner that is not a command, such as a liveness check or an operator's change.
// The owner's goroutine calls its methods.
type request interface {
	// do executes the request between two commands. An error is the log's and final, or ErrStopped.
	do() error
	// answerMidOrder is called between two parts of an order, when nothing of the symbol may change. It reports whether
	// it answered the request. If not, do is called after the order is finished.
	answerMidOrder() bool
}

// serve executes the commands of a task that belong to this owner, passes the task to the next owner or
// back to the session, and then does deferred work. If other tasks wait it may stop at the end of its turn.
func (in *inbox) serve(t *task) {
	e, next := in.engine, in
	t.clock.startWork()
	in.spent = 0
	for now := e.options.Now(); next == in && t.err == nil && t.next < len(t.commands); {
		if in.spent >= turnWork {
			if in.spent = 0; in.endTurn(t) {
				t.clock.stopWork()
				in.owner.afterTask()
				return
			}
		}
		if in.hasRequests.Load() {
			in.doRequests()
		}
		if e.interrupted.Load() {
			t.err = ErrStopped
			break
		}
		in.spent++
		in.appended, in.work = false, 0
		if t.err = e.execute(in.owner, t, now); t.err == nil {
			r := &t.results[t.next]
			t.appended = in.appended && r.Reason == exchange.OK
			r.Work = uint32(in.work)
			if t.next++; t.next < len(t.commands) {
				next = in.ownerOfNext(t)
			}
		}
	}
	switch {
	case t.err == nil:
	case errors.Is(t.err, errAgain):
		t.err, t.retryLater = nil, true
		t.results[t.next] = exchange.Result{}
	case !errors.Is(t.err, ErrStopped):
		e.setFailed()
	}
	t.clock.stopWork()
	if !e.pass(t, next) {
		t.done <- struct{}{}
	}
	in.owner.afterTask()
}

// ownerOfNext returns the same as Engine.owner for the next command of a task, right after this owner has
// executed one. It has a short cut for consecutive orders of one symbol, which are common.
func (in *inbox) ownerOfNext(t *task) *inbox {
	done, c := &t.commands[t.next-1], &t.commands[t.next]
	if c.Kind == exchange.PlaceOrder && done.Kind == c.Kind && done.Symbol == c.Symbol {
		return in
	}
	return in.engine.owner(&c.Command, &t.results[t.next], &t.refs)
}

// execute executes the next command of a task.
func (e *Engine) execute(owner doer, t *task, now int64) error {
	c, r := &t.commands[t.next], &t.results[t.next]
	if (c.Ref != "" || c.More != nil) && newRef(&c.Command) != "" {
		return e.executeOnce(owner, c, r, &t.refs, now)
	}
	return owner.do(c, r, now)
}

// errAgain is returned for a command that depends on another one still in progress at an owner. An owner never waits
// for another owner, so the session waits and passes the command on again.
var errAgain = errors.New("engine: command depends on one in progress: retry")

// pass gives a task to the owner of its next command; in is that owner's inbox, or nil if it is not
// known yet. It does not wait, so that owners never wait for each other. It returns false
// if that inbox is full, or if there is no next owner.
func (e *Engine) pass(t *task, in *inbox) bool {
	if t.err != nil || t.retryLater || t.next == len(t.commands) || e.closing() {
		return false
	}
	if in == nil {
		if in = e.nextOwner(t); in == nil {
			return false
		}
	}
	return in.offer(t) == nil
}

// stageClock measures for one call of Execute how long owners worked on its task, and how long the task waited for
// them or was in transit between them. Only the holder of the task uses it.
type stageClock struct {
	stopwatch.Watch
	waited, worked time.Duration
}

// newStageClock returns the clock of a new call. A random choice decides whether the call is measured.
func (e *Engine) newStageClock() (c stageClock) {
	if e.options.OnStages != nil {
		c.Start()
	}
	return c
}

// startWork records that an owner starts to work on the task, stopWork that it has stopped.
func (c *stageClock) startWork() { c.waited += c.Lap() }

func (c *stageClock) stopWork() { c.worked += c.Lap() }

// reportStages reports the stages of a measured call to OnStages.
func (e *Engine) reportStages(c *stageClock) {
	if c.Measures() {
		e.options.OnStages(c.waited+c.Lap(), c.worked)
	}
}
