package engine

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"outcry/internal/exchange"
)

// keepEvery is how often the keeper tries again what there was no room for.
const keepEvery = 250 * time.Millisecond

// keeper does what no client waits for, in one goroutine: it cancels what an account has open
// when its dead man's switch passes, and tries again what the journal had no room for: cancels
// of orders whose connection has ended, of accounts that are blocked, and at the start. It is bounded by
// symbols and accounts.
type keeper struct {
	wake  chan struct{} // holds one value: there is something new
	clock *steadyClock

	// mu guards what follows. It is held for a moment.
	mu       sync.Mutex
	switches switchHeap
	armed    map[*exchange.Account]*armedSwitch
	shards   map[*shard]struct{}            // whose chores found no room
	blocked  map[*exchange.Account]struct{} // whose orders found no room to be canceled
	catchup  *catchup                       // what is left of Catchup, nil if nothing is
}

// armedSwitch is the dead man's switch of an account.
type armedSwitch struct {
	account *exchange.Account
	due     int64 // when it passes, nanoseconds since the Unix epoch
	try     int64 // when it is looked at by the steady clock: when it is due, or later if there was no room
	place   int   // in the heap
}

// switchHeap has the switch that is looked at next in front.
type switchHeap []*armedSwitch

func (h switchHeap) Len() int           { return len(h) }
func (h switchHeap) Less(i, j int) bool { return h[i].try < h[j].try }
func (h switchHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push and Pop are for container/heap.
func (h *switchHeap) Push(x any) {
	s := x.(*armedSwitch)
	s.place = len(*h)
	*h = append(*h, s)
}

// Pop is described with Push.
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

// later has the chores of a shard tried again.
func (k *keeper) later(d *shard) {
	k.mu.Lock()
	k.shards[d] = struct{}{}
	k.mu.Unlock()
	k.nudge()
}

// laterBlocked has the cancel of what a blocked account has open tried again.
func (k *keeper) laterBlocked(a *exchange.Account) {
	k.mu.Lock()
	k.blocked[a] = struct{}{}
	k.mu.Unlock()
	k.nudge()
}

// arm sets when the switch of an account passes; due 0 disarms it.
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

// passed returns the account whose switch is to be looked at next, if it has passed, and has
// it looked at again after keepEvery unless arm is called. Otherwise wait says how long it is until
// then, or until what there was no room for is tried again; 0 if there is nothing to wait for.
func (k *keeper) passed() (a *exchange.Account, due int64, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hasLater() {
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

// nudge has the goroutine look again.
func (k *keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// takeLater returns what is to be tried again.
func (k *keeper) takeLater() (shards []*shard, blocked []*exchange.Account, c *catchup) {
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

// idle reports whether nothing is to be tried again.
func (k *keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.hasLater()
}

// hasLater reports whether something is to be tried again. Callers hold mu.
func (k *keeper) hasLater() bool { return len(k.shards)+len(k.blocked) > 0 || k.catchup != nil }

// keep is the keeper's goroutine. It runs until the engine is closed.
func (e *Engine) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for again := time.Now(); ; {
		wait := e.passSwitches()
		if !e.keeper.idle() && !time.Now().Before(again) {
			e.tryAgain()
			again = time.Now().Add(keepEvery)
		}
		if timer.Stop(); wait > 0 { // one that is set costs each switch of goroutines a look at the clock
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

// passSwitches cancels what accounts have open whose switches have passed, and returns how long it is until
// there is something to do, 0 if nobody knows of anything.
func (e *Engine) passSwitches() (wait time.Duration) {
	for {
		a, due, wait := e.keeper.passed()
		if a == nil || e.closing() {
			return wait
		}
		_, _ = e.cancelFor(canceling{account: a.ID, cause: exchange.BySwitch, due: due}) // it stays armed unless it was done
	}
}

// cancelFor cancels all for somebody who does not wait for the result. An error is the journal's and final,
// ErrStopped or errBusy.
func (e *Engine) cancelFor(what canceling) (exchange.RejectReason, error) {
	c, err := e.cancelAll(context.Background(), what)
	if err != nil {
		return exchange.OK, err
	}
	return c.result.Reason, nil
}

// cancelBlocked cancels what a blocked account has open, and tries again until there is room for it.
func (e *Engine) cancelBlocked(a *exchange.Account) {
	if reason, err := e.cancelFor(canceling{account: a.ID, cause: exchange.ByBlock}); err != nil || reason != exchange.OK {
		e.keeper.laterBlocked(a)
	}
}

// tryAgain does what there was no room for before.
func (e *Engine) tryAgain() {
	shards, blocked, catchup := e.keeper.takeLater()
	if catchup != nil {
		_ = e.resume(context.Background(), catchup) // an error is the end of the engine
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
