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
	// awakeMax is how many owners keep their goroutine while they have nothing to do.
	// Beyond it an owner rests at once, so that idle ones never take more than some 100 MiB.
	awakeMax = 4096

	// restEvery is how often owners without work are sent to rest: each gets one such
	// time of grace, so that one that trades now and then is not started for each task.
	restEvery = time.Second

	// turnWork is what an owner does of one task while others wait: so many commands, of
	// which 64 fills count as one more. Then the task goes behind the others.
	turnWork = 64

	// fillsPerWork is how many fills count as a command.
	fillsPerWork = 64

	// keptMax bounds the tasks that an owner has taken out of its inbox and not done: those
	// whose turn has ended, and those that came between two parts of an order. A session
	// has one task at a time, so it is as many sessions.
	keptMax = 16_384

	// requestsMax bounds the requests of operators and for signs of life that wait at one
	// owner.
	requestsMax = 1024
)

var (
	// errBusy is returned to operators if requestsMax of them wait for one owner already.
	errBusy = errors.New("engine: too much waits for this symbol already")

	// errFull is returned to callers who do not wait for room in an inbox.
	errFull = errors.New("engine: the inbox is full")
)

// inbox is where an owner, a shard or the registrar, gets its tasks, and the goroutine
// that does them. There is a goroutine while there is work, and for a short while after:
// so an owner is its goroutine's alone, and one at rest takes no memory for tasks.
//
// A caller who puts a task into the inbox of an owner at rest starts its goroutine, under mu. The
// goroutine ends under mu too, and only where nothing is in the inbox and nobody is about
// to put something there. So no task is ever left in the inbox of an owner at rest.
type inbox struct {
	engine *Engine
	owner  doer

	// mu guards what follows. It is held for a moment, and never while anybody waits.
	mu       sync.Mutex
	tasks    chan *task // nil at rest; a nil task makes the owner look what there is to do
	waiting  int        // senders that wait for room in tasks
	fresh    bool       // a task has come since the last look of restIdle
	requests []*task    // come before all others

	asked     atomic.Bool  // requests has some
	chores    atomic.Bool  // the owner has something to do that nobody waits for
	keptCount atomic.Int64 // len(kept), for anybody to read

	// The goroutine's own.
	kept  []*task // taken out of tasks and not done, oldest first; see setAside
	turn  bool    // the next task is one of kept, where tasks has some too
	spent int     // of the turn: see turnWork

	appended bool // a record, since this was last made false
}

// doer is an owner: it does a command whatever its ref. Its methods are called by the
// goroutine of its inbox alone: begin before the first task, and rest before the end.
type doer interface {
	do(c *Request, r *exchange.Result, now int64) error
	begin()
	idle() // after each task
	rest()
	// chore does a piece of what nobody waits for, between two tasks, once poke was called, and
	// reports whether there is more. An error is the journal's and final, or ErrStopped.
	chore() (more bool, err error)
}

// wake starts the owner's goroutine unless it runs. It returns false where no owner may
// begin any more. Callers hold mu.
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
	in.tasks, in.fresh = make(chan *task, e.options.InboxLen), true
	e.running.Go(in.run)
	return true
}

// rested ends the goroutine's time, where there is nothing to do. It returns false where
// there is. Owners that have just had a task stay, unless there are too many.
func (in *inbox) rested() bool {
	e := in.engine
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.kept) > 0 || len(in.tasks) > 0 || in.waiting > 0 || len(in.requests) > 0 ||
		in.chores.Load() || in.fresh && !e.crowded() {
		return false
	}
	in.owner.rest()
	in.tasks, in.kept = nil, nil
	e.awakeMu.Lock()
	delete(e.awake, in)
	e.awakeMu.Unlock()
	e.awakeCount.Add(-1)
	return true
}

// crowded reports whether owners rest as soon as they have nothing to do: there are too
// many, or the engine is being closed.
func (e *Engine) crowded() bool { return e.awakeCount.Load() > awakeMax || e.closing() }

// offer puts a task into the inbox, or says why not, and does not wait. It is the only way
// in. A request comes before all other tasks, after the command that is under way, and is
// taken in whether there is room for tasks or not. The error is errFull, ErrStopped, or
// for a request errBusy.
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
		in.asked.Store(true)
		in.nudge()
		return nil
	}
	select {
	case in.tasks <- t:
		in.fresh = true
		return nil
	default:
		return errFull
	}
}

// send is offer for callers who wait for room. The error is ctx's, ErrStopped, or errBusy.
func (in *inbox) send(ctx context.Context, t *task) (err error) {
	if err = in.offer(t); !errors.Is(err, errFull) {
		return err
	}
	in.mu.Lock()
	if !in.wake() {
		in.mu.Unlock()
		return ErrStopped
	}
	tasks := in.tasks // the owner stays while somebody waits
	in.waiting++
	in.fresh = true
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
		in.nudge() // it may have stayed for this sender alone
	}
	return err
}

// nudge has the owner look what there is to do, where it waits for a task. Callers hold mu.
func (in *inbox) nudge() {
	if in.tasks != nil {
		select {
		case in.tasks <- nil:
		default: // it has tasks, and looks before it waits
		}
	}
}

// poke has the owner do its chores soon. It does not wait, and takes no room: however often it
// is called, there is one thing to do.
func (in *inbox) poke() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.wake() {
		in.chores.Store(true)
		in.nudge()
	}
}

// doChore does a piece of the owner's chores, and reports whether there was one.
func (in *inbox) doChore() bool {
	if !in.chores.Load() || !in.chores.Swap(false) {
		return false
	}
	if in.engine.interrupted.Load() {
		return true // the next start does them; the owner looks again whether it can rest
	}
	more, err := in.owner.chore()
	if err != nil && !errors.Is(err, ErrStopped) {
		in.engine.giveUp()
	} else if more && err == nil {
		in.chores.Store(true)
	}
	return true
}

// run is the owner's goroutine.
func (in *inbox) run() {
	in.owner.begin()
	for stays := false; ; {
		if in.doRequests() || in.doChore() {
			stays = false
		}
		if t := in.next(stays); t != nil {
			in.serve(t)
			stays = false
		} else if stays = !in.rested(); !stays {
			return
		}
	}
}

// next returns the next task, oldest first, but one of kept and one of tasks in turns. It
// waits for one, and returns nil where the owner is to look what there is to do: if there
// are too many owners it does not wait, unless this one stays, as something is about to come.
func (in *inbox) next(stays bool) *task {
	if in.turn = !in.turn; len(in.kept) > 0 && (in.turn || len(in.tasks) == 0) {
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

// keep takes a task that is not done out of the way of others. It returns false where
// there are no others, or too many.
func (in *inbox) keep(t *task) bool {
	if len(in.tasks) == 0 && len(in.kept) == 0 || len(in.kept) >= keptMax {
		return false
	}
	in.setAside(t)
	return true
}

// setAside puts a task behind those that are kept.
func (in *inbox) setAside(t *task) {
	in.kept = append(in.kept, t)
	in.keptCount.Add(1)
}

// doRequests does the requests that there are, and reports whether there was one. It is
// called between two commands.
func (in *inbox) doRequests() (some bool) {
	for in.asked.Load() {
		in.mu.Lock()
		t := in.requests[0] // the others stay where giveWay finds them
		in.requests = slices.Delete(in.requests, 0, 1)
		in.asked.Store(len(in.requests) > 0)
		in.mu.Unlock()
		in.doRequest(t)
		t.done <- struct{}{}
		some = true
	}
	return some
}

func (in *inbox) doRequest(t *task) {
	if in.engine.interrupted.Load() {
		t.err = ErrStopped // a book may have an order that is not finished
		return
	}
	if t.err = t.request.do(); t.err != nil && !errors.Is(t.err, ErrStopped) {
		in.engine.giveUp()
	}
}

// restIdle sends owners to rest that have had nothing to do for a while. It runs until
// the engine is closed.
func (e *Engine) restIdle() {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, in := range e.awakeNow() {
				in.mu.Lock()
				if !in.fresh {
					in.nudge()
				}
				in.fresh = false
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

// Interrupt makes all commands that have not begun end with ErrStopped, and an order that
// is executed in parts stay as it is after the present one: the next start finishes it.
// Execute then returns after little work. It is for a stop whose time is over; Close does
// it too.
func (e *Engine) Interrupt() { e.interrupted.Store(true) }

// endOwners ends all owners once Close has begun. What is in their inboxes is given back
// before: sessions may wait for it. None begins any more: wake finds out whether Close
// has begun under the same lock as awakeNow.
func (e *Engine) endOwners() {
	for _, in := range e.awakeNow() {
		in.mu.Lock()
		in.nudge()
		in.mu.Unlock()
	}
}
