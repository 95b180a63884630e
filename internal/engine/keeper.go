package engine

import (
	"container/heap"
	"sync"
	"time"

	"outcry/internal/exchange"
)

// keepEvery is the interval at which the keeper retries what the journal had no room for.
const keepEvery = 250 * time.Millisecond

// keeper does work that no client waits for, in one goroutine. It cancels an account's open orders when its dead
// man's switch fires. It retries cancels that the journal had no room for: of orders whose connection has ended,
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
	catchup  *catchup                       // remaining work of Catchup, nil once it is done
}

// catchup is the unfinished part of the work of Catchup. resume removes it from the keeper before it works on it.
type catchup struct {
	shards   []*shard // shards with open orders whose connections ended with the previous run
	accounts []canceling
}

// armedSwitch is the dead man's switch of an account.
type armedSwitch struct {
	account *exchange.Account
	due     int64 // when it fires, nanoseconds since the Unix epoch
	try     int64 // next check, by the steady clock: when it is due, or later if the last attempt found no room
	place   int   // index in the heap
}

// switchHeap is a heap with the switch that is checked next at the front.
type switchHeap []*armedSwitch

func (h switchHeap) Len() int { return len(h) }

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

// arm sets when the switch of an account fires, in nanoseconds since the Unix epoch; due 0 disarms it.
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

// nextFired returns the account of a switch that has fired, and when it was due. The switch is checked again after
// keepEvery unless arm is called first. If no switch has fired, a is nil and wait is the time until the next one
// fires or the next retry; 0 means that there is nothing to wait for.
func (k *keeper) nextFired() (a *exchange.Account, due int64, wait time.Duration) {
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

// removeRetries removes and returns everything that is to be retried.
func (k *keeper) removeRetries() (shards []*shard, blocked []*exchange.Account, c *catchup) {
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

// stepMin is how far the wall clock must fall behind to count as having been set back.
const stepMin = 250 * time.Millisecond

// steadyClock follows the wall clock, but lags real time by at most stepMin. If the wall clock is set back, or pauses
// until it reaches the time of the last record, this clock continues, so that dead man's switches fire in time. If the
// wall clock is set forward, this clock follows.
type steadyClock struct {
	wall    func() int64         // nanoseconds since the Unix epoch
	elapsed func() time.Duration // monotonic time since some moment, independent of wall

	mu    sync.Mutex
	begun bool
	shown int64         // time of this clock at its latest look at which it did not lag real time
	when  time.Duration // value of elapsed at that look
	ahead int64         // how far this clock is ahead of wall, in nanoseconds
}

// steadyClock returns the clock of an engine. If Options.Now is set, real time is ignored and the clock equals Now.
func (o *Options) steadyClock() *steadyClock {
	if o.Now != nil {
		return &steadyClock{elapsed: func() time.Duration { return 0 }}
	}
	begun := time.Now()
	return &steadyClock{elapsed: func() time.Duration { return time.Since(begun) }}
}

// now returns the time.
func (c *steadyClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look()
}

// at converts a time of the wall clock into one of this clock.
func (c *steadyClock) at(wall int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
	return wall + c.ahead
}

// look updates the clock and returns its time. Callers hold mu.
func (c *steadyClock) look() int64 {
	now, when := c.wall(), c.elapsed()
	least := c.shown + int64(when-c.when)
	switch {
	case !c.begun || now+c.ahead >= least:
		c.begun, c.shown, c.when = true, now+c.ahead, when
	case now+c.ahead < least-int64(stepMin):
		c.ahead = least - now
		c.shown, c.when = least, when
	}
	return now + c.ahead
}
