package engine

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"outcry/internal/exchange"
)

// keepEvery is the interval at which the keeper retries what the journal had no room for.
const keepEvery = 250 * time.Millisecond

// keeper does work that no client waits for, in one goroutine. It cancels an account's open orders when its dead
// man's switch passes. It retries cancels that the journal had no room for: of orders whose connection has ended,
// of blocked accounts, and of Catchup. Its memory is bounded by the number of
// symbols and accounts.
type keeper struct {
	wake  chan struct{} // capacity 1; a value makes the goroutine look for work
	clock *steadyClock

	// mu guards the fields below. It is held briefly.
	mu       sync.Mutex
	switches switchHeap
	armed    map[*exchange.Account]*armedSwitch
	shards   map[*shard]struct{}            // shards whose chores found no room
	blocked  map[*exchange.Account]struct{} // blocked accounts with orders that could not be canceled yet
	catchup  *catchup                       // remaining work of Catchup, nil if there is none
}

// armedSwitch is the dead man's switch of an account.
type armedSwitch struct {
	account *exchange.Account
	due     int64 // when it passes, nanoseconds since the Unix epoch
	try     int64 // next check, by the steady clock: when it is due, or later after a try that found no room
	place   int   // index in the heap
}

// switchHeap is a heap with the switch that is checked next at the front.
type switchHeap []*armedSwitch

func (h switchHeap) Len() int           { return len(h) }
func (h switchHeap) Less(i, j int) bool { return h[i].try < h[j].try }
func (h switchHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push appends a switch. It is for container/heap.
func (h *switchHeap) Push(x any) {
	s := x.(*armedSwitch)
	s.place = len(*h)
	*h = append(*h, s)
}

// Pop removes the last switch. It is for container/heap.
func (h *switchHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

func (k *keeper) init(clock *steadyClock) {
	k.wake, k.clock = make(chan struct{}, 1), clock
	k.armed = make(map[*exchange.Account]*armedSwitch)
	k.shards = make(map[*shard]struct{})
	k.blocked = make(map[*exchange.Account]struct{})
}

// retryChores has the keeper retry the chores of a shard.
func (k *keeper) retryChores(d *shard) {
	k.mu.Lock()
	k.shards[d] = struct{}{}
	k.mu.Unlock()
	k.nudge()
}

// retryBlocked has the keeper retry the cancel of a blocked account's open orders.
func (k *keeper) retryBlocked(a *exchange.Account) {
	k.mu.Lock()
	k.blocked[a] = struct{}{}
	k.mu.Unlock()
	k.nudge()
}

// arm sets when the switch of an account passes, in nanoseconds since the Unix epoch; due 0 disarms it.
func (k *keeper) arm(a *exchange.Account, due int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	try := k.clock.at(due)
	s := k.armed[a]
	switch {
	case s == nil && due == 0:
		return
	case due == 0:
		heap.Remove(&k.switches, s.place)
		delete(k.armed, a)
	case s == nil:
		s = &armedSwitch{account: a, due: due, try: try}
		k.armed[a] = s
		heap.Push(&k.switches, s)
	default:
		s.due, s.try = due, try
		heap.Fix(&k.switches, s.place)
	}
	k.nudge()
}

// count returns how many switches are armed.
func (k *keeper) count() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(len(k.armed))
}

// nextPassed returns the account whose switch is checked next and when it was due, if it has passed. That switch is
// checked again after keepEvery unless arm is called first. If no switch has passed, a is nil and wait is the time
// until the next one passes or the next retry; 0 means that there is nothing to wait for.
func (k *keeper) nextPassed() (a *exchange.Account, due int64, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hasRetries() {
		wait = keepEvery
	}
	if len(k.switches) == 0 {
		return nil, 0, wait
	}
	s, now := k.switches[0], k.clock.now()
	if first := time.Duration(s.try - now); first > 0 {
		if wait == 0 || first < wait {
			wait = first
		}
		return nil, 0, wait
	}
	s.try = now + int64(keepEvery)
	heap.Fix(&k.switches, 0)
	return s.account, s.due, 0
}

// nudge makes the keeper's goroutine look for work.
func (k *keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// takeRetries removes and returns everything that is to be retried.
func (k *keeper) takeRetries() (shards []*shard, blocked []*exchange.Account, c *catchup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, k.catchup = k.catchup, nil
	for d := range k.shards {
		shards = append(shards, d)
	}
	for a := range k.blocked {
		blocked = append(blocked, a)
	}
	clear(k.shards)
	clear(k.blocked)
	return shards, blocked, c
}

// idle reports whether nothing is to be retried.
func (k *keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.hasRetries()
}

// hasRetries reports whether something is to be retried. Callers hold mu.
func (k *keeper) hasRetries() bool { return len(k.shards)+len(k.blocked) > 0 || k.catchup != nil }

// keep is the body of the keeper's goroutine. It runs until the engine is closed.
func (e *Engine) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for again := time.Now(); ; {
		wait := e.passSwitches()
		if !e.keeper.idle() && !time.Now().Before(again) {
			e.retryCancels()
			again = time.Now().Add(keepEvery)
		}
		if timer.Stop(); wait > 0 { // not always: a running timer makes each switch of goroutines read the clock
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-e.keeper.wake:
		case <-e.stop:
			return
		}
	}
}

// passSwitches cancels the open orders of accounts whose switches have passed. It returns how long it is until
// the next work, 0 if none is known.
func (e *Engine) passSwitches() (wait time.Duration) {
	for {
		a, due, wait := e.keeper.nextPassed()
		if a == nil || e.closing() {
			return wait
		}
		_, _ = e.cancelFor(canceling{account: a.ID, cause: exchange.BySwitch, due: due}) // on failure it stays armed
	}
}

// cancelFor cancels all for a cause without a waiting client. An error is the journal's and final,
// ErrStopped or errBusy.
func (e *Engine) cancelFor(what canceling) (exchange.RejectReason, error) {
	c, err := e.cancelAll(context.Background(), what)
	if err != nil {
		return exchange.OK, err
	}
	return c.result.Reason, nil
}

// cancelBlocked cancels the open orders of a blocked account. If that fails, the keeper retries it.
func (e *Engine) cancelBlocked(a *exchange.Account) {
	if reason, err := e.cancelFor(canceling{account: a.ID, cause: exchange.ByBlock}); err != nil || reason != exchange.OK {
		e.keeper.retryBlocked(a)
	}
}

// retryCancels retries what the journal had no room for before.
func (e *Engine) retryCancels() {
	shards, blocked, catchup := e.keeper.takeRetries()
	if catchup != nil {
		_ = e.resume(context.Background(), catchup) // an error means that the engine has failed or is closing
	}
	for _, d := range shards {
		d.inbox.poke()
	}
	for _, a := range blocked {
		if e.isBlocked(a) {
			e.cancelBlocked(a)
		}
	}
}
