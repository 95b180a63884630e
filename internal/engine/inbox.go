package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
)

const (
	// awakeMax is how many owners may keep their goroutine while they have nothing to do.
	// Above it an owner ends its goroutine as soon as it is idle, which bounds the memory of idle
	// owners to about 100 MiB.
	awakeMax = 4096

	// idleCheckEvery is the interval at which idle owners are made to end their goroutines. An owner stays for
	// one interval after its last task, so that an owner with rare tasks is not restarted for each.
	idleCheckEvery = time.Second

	// turnWork is the length of an owner's turn at one task while other tasks wait, in units of work: a command
	// is one unit, and so are fillsPerWork fills. After its turn the task goes to the end of the queue.
	turnWork = 64

	// fillsPerWork is how many fills count as one command.
	fillsPerWork = 64

	// keptMax bounds the tasks that an owner has removed from its inbox and not finished: those
	// whose turn has ended, and those that arrived between two parts of an order. A session
	// has one task at a time, so this is also a number of sessions.
	keptMax = 16_384

	// requestsMax bounds the requests, from operators and from Alive, that wait at one owner.
	requestsMax = 1024
)

var (
	// errBusy is returned to the caller of a request if requestsMax requests already wait at the owner.
	errBusy = errors.New("engine: too many requests are already waiting for this symbol")

	// errFull is returned by offer, which does not wait for room in an inbox.
	errFull = errors.New("engine: inbox is full")
)

// inbox is the queue of tasks of an owner, a shard or the registrar, and the goroutine that
// executes them. The goroutine exists while there is work and for a short time after it.
// Only that goroutine uses the owner, and an idle owner needs no memory for tasks.
//
// A caller that puts a task into the inbox of an idle owner starts the goroutine, under mu.
// The goroutine also ends under mu, and only if the inbox is empty and no caller is about
// to add a task. So no task is ever left in an inbox without a goroutine.
type inbox struct {
	engine *Engine
	owner  doer

	// mu guards the fields below. It is held briefly, and never while a goroutine waits.
	mu         sync.Mutex
	tasks      chan *task // nil while there is no goroutine; a nil task makes the owner check all its sources of work
	waiting    int        // senders that wait for room in tasks
	recentTask bool       // a task has arrived since endIdleOwners last looked
	requests   []*task    // requests, which are executed before all tasks

	hasRequests atomic.Bool  // requests is not empty
	chores      atomic.Bool  // the owner may have a chore: work that no caller waits for
	keptCount   atomic.Int64 // len(kept), readable from any goroutine

	// Only the owner's goroutine uses the fields below.
	kept     []*task // removed from tasks and not finished, oldest first; see setAside
	keptNext bool    // the next task comes from kept even if tasks has some too
	spent    int     // units of work spent in the current turn; see turnWork

	appended bool // the current command has appended a record
	work     int  // Event.Work of all records that the current command has appended
}

// doer is an owner. It executes a command without regard to its ref, which the engine handles. Only the
// inbox's goroutine calls its methods: begin before the first task, afterTask after each task, and freeMemory before
// the goroutine ends.
type doer interface {
	do(c *Request, r *exchange.Result, now int64) error
	begin()
	afterTask()
	freeMemory()
	// amendUse returns the RefUse of an amend's new ref, according to the order's shard. ok is false if the order is not
	// in memory or not the account's; then r holds the reason.
	amendUse(c *exchange.Command, r *exchange.Result) (use exchange.RefUse, ok bool)
	// reportAgain completes the result of a repeated command with the report of its first execution. An error is the
	// journal's and final, or ErrStopped.
	reportAgain(r *exchange.Result) error
	// chore does one piece of work that no caller waits for. It is called between two tasks after a call of
	// poke, and reports whether there is more. An error is the journal's and final, or ErrStopped.
	chore() (more bool, err error)
}

// call has an owner call work right after the command in progress, before everything else that waits
// for the owner, and waits until work has returned. If the error is ErrStopped, errBusy or ctx's,
// work was not called; any other error is that of work.
func (e *Engine) call(ctx context.Context, in *inbox, work func() error) error {
	c := &call{work: work}
	t := &task{request: c, done: make(chan struct{}, 1)}
	err := in.offer(t)
	if err != nil {
		return err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.stop:
		err = ErrStopped
	}
	if c.begun.CompareAndSwap(false, true) {
		return err
	}
	<-t.done // work has begun: wait for its end
	return t.err
}

// call is a request to run the function work between two commands, unless the caller has given up by then.
type call struct {
	begun atomic.Bool // work has begun, or the caller has given up
	work  func() error
}

func (c *call) do() error {
	if !c.begun.CompareAndSwap(false, true) {
		return nil
	}
	return c.work()
}

func (c *call) answerMidOrder() bool { return false }

// doBetween calls work between two commands of an owner. If the owner is idle, work runs in this goroutine and
// the owner stays idle. The error is that of Engine.call.
func (in *inbox) doBetween(ctx context.Context, work func()) error {
	in.mu.Lock()
	if in.tasks == nil { // the owner's goroutine cannot start while this holds mu
		defer in.mu.Unlock()
		work()
		return nil
	}
	in.mu.Unlock()
	return in.engine.call(ctx, in, func() error { work(); return nil })
}

// offer puts a task into the inbox without waiting, or returns why it cannot. Every task enters
// through offer or send. A request is executed right after the command in progress, before all tasks,
// and is accepted even if there is no room for tasks. The error is errFull, ErrStopped, or,
// for a request, errBusy.
func (in *inbox) offer(t *task) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.wake() {
		return ErrStopped
	}
	if t.request != nil {
		if len(in.requests) >= requestsMax {
			return errBusy
		}
		in.requests = append(in.requests, t)
		in.hasRequests.Store(true)
		in.nudge()
		return nil
	}
	select {
	case in.tasks <- t:
		in.recentTask = true
		return nil
	default:
		return errFull
	}
}

// send is offer for callers that wait for room. The error is ctx's, ErrStopped or errBusy.
func (in *inbox) send(ctx context.Context, t *task) (err error) {
	if err = in.offer(t); !errors.Is(err, errFull) {
		return err
	}
	in.mu.Lock()
	if !in.wake() {
		in.mu.Unlock()
		return ErrStopped
	}
	tasks := in.tasks // the owner keeps its goroutine while waiting is above 0
	in.waiting++
	in.recentTask = true
	in.mu.Unlock()
	select {
	case tasks <- t:
		err = nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-in.engine.stop:
		err = ErrStopped
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiting--; in.engine.crowded() {
		in.nudge() // the owner may have stayed only for this sender
	}
	return err
}

// poke makes the owner do its chores soon. It does not wait and needs no room in the inbox: any number of
// calls sets the same flag.
func (in *inbox) poke() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.wake() {
		in.chores.Store(true)
		in.nudge()
	}
}

// nudge wakes an owner that waits for a task, so that it checks all its sources of work. Callers hold mu.
func (in *inbox) nudge() {
	if in.tasks != nil {
		select {
		case in.tasks <- nil:
		default: // the queue is full: the owner checks before it next waits
		}
	}
}

// wake starts the owner's goroutine unless it runs already. It returns false if the engine is
// closing, so that no goroutine may start. Callers hold mu.
func (in *inbox) wake() bool {
	if in.tasks != nil {
		return true
	}
	e := in.engine
	e.awakeMu.Lock()
	defer e.awakeMu.Unlock()
	if e.closing() {
		return false
	}
	e.awake[in] = struct{}{}
	e.awakeCount.Add(1)
	in.tasks, in.recentTask = make(chan *task, e.options.InboxLen), true
	e.running.Go(in.run)
	return true
}

// run is the body of the owner's goroutine: it executes requests, chores and tasks until the owner is idle.
func (in *inbox) run() {
	in.owner.begin()
	for stays := false; ; {
		if in.doRequests() || in.doChore() {
			stays = false
		}
		if t := in.next(stays); t != nil {
			in.serve(t)
			stays = false
		} else if stays = !in.endIfIdle(); !stays {
			return
		}
	}
}

// endIfIdle lets the owner's goroutine end if there is nothing to do, and reports whether it
// does. An owner that had a task recently stays unless there are too many owners.
func (in *inbox) endIfIdle() bool {
	e := in.engine
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.kept) > 0 || len(in.tasks) > 0 || in.waiting > 0 || len(in.requests) > 0 ||
		in.chores.Load() || in.recentTask && !e.crowded() {
		return false
	}
	in.owner.freeMemory()
	in.tasks, in.kept = nil, nil
	e.awakeMu.Lock()
	delete(e.awake, in)
	e.awakeMu.Unlock()
	e.awakeCount.Add(-1)
	return true
}

// crowded reports whether owners must end their goroutines as soon as they are idle: too many
// have one, or the engine is closing.
func (e *Engine) crowded() bool { return e.awakeCount.Load() > awakeMax || e.closing() }

// doRequests executes the waiting requests, and reports whether there were any. It is
// called between two commands.
func (in *inbox) doRequests() (some bool) {
	for in.hasRequests.Load() {
		in.mu.Lock()
		t := in.requests[0] // the others stay in in.requests, where serveReads can find them
		in.requests = slices.Delete(in.requests, 0, 1)
		in.hasRequests.Store(len(in.requests) > 0)
		in.mu.Unlock()
		in.doRequest(t)
		t.done <- struct{}{}
		some = true
	}
	return some
}

func (in *inbox) doRequest(t *task) {
	if in.engine.interrupted.Load() {
		t.err = ErrStopped // the book may have an unfinished order, which the next start finishes
		return
	}
	if t.err = t.request.do(); t.err != nil && !errors.Is(t.err, ErrStopped) {
		in.engine.setFailed()
	}
}

// doChore does one piece of the owner's chores, and reports whether it had one.
func (in *inbox) doChore() bool {
	if !in.chores.Load() || !in.chores.Swap(false) {
		return false
	}
	if in.engine.interrupted.Load() {
		return true // the next start does the chores; true makes the owner check again whether it can end
	}
	more, err := in.owner.chore()
	if err != nil && !errors.Is(err, ErrStopped) {
		in.engine.setFailed()
	} else if more && err == nil {
		in.chores.Store(true)
	}
	return true
}

// next returns the next task, oldest first, alternating between kept and tasks. It waits until there is one. It
// returns nil if the owner must check its other sources of work instead. If there are too many owners it does not
// wait, unless stays is set: stays means that a task is about to arrive.
func (in *inbox) next(stays bool) *task {
	if in.keptNext = !in.keptNext; len(in.kept) > 0 && (in.keptNext || len(in.tasks) == 0) {
		t := in.kept[0]
		in.kept[0] = nil
		in.kept = in.kept[1:]
		in.keptCount.Add(-1)
		return t
	}
	if len(in.tasks) == 0 && (in.chores.Load() || !stays && in.engine.crowded()) {
		return nil
	}
	return <-in.tasks
}

// endTurn sets an unfinished task aside so that others get their turn. It returns false if no other task
// waits, or if too many are set aside already.
func (in *inbox) endTurn(t *task) bool {
	if len(in.tasks) == 0 && len(in.kept) == 0 || len(in.kept) >= keptMax {
		return false
	}
	in.setAside(t)
	return true
}

// setAside appends a task to kept.
func (in *inbox) setAside(t *task) {
	in.kept = append(in.kept, t)
	in.keptCount.Add(1)
}

// endIdleOwners wakes owners that have been idle for a full interval, so that they end their goroutines. It
// runs until the engine is closed.
func (e *Engine) endIdleOwners() {
	tick := time.NewTicker(idleCheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, in := range e.awakeNow() {
				in.mu.Lock()
				if !in.recentTask {
					in.nudge()
				}
				in.recentTask = false
				in.mu.Unlock()
			}
		case <-e.stop:
			return
		}
	}
}

// awakeNow returns the inboxes whose owners have a goroutine.
func (e *Engine) awakeNow() []*inbox {
	e.awakeMu.Lock()
	defer e.awakeMu.Unlock()
	all := make([]*inbox, 0, len(e.awake))
	for in := range e.awake {
		all = append(all, in)
	}
	return all
}
