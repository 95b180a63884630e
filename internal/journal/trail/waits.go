package trail

import (
	"container/list"
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// waits holds the waiters for records, sorted by seq. The zero value is empty.
type waits struct {
	reached atomic.Uint64 // number of the last record that the follower has passed on; MaxUint64 after its end

	mu    sync.Mutex // guards the fields below
	all   list.List  // its values are *waiter
	ended bool
}

// waiter waits for a record.
type waiter struct {
	seq     uint64
	reached chan struct{} // closed once the follower has the record, or has ended
}

// Await returns nil once the follower has record seq or has ended; the caller checks which. The error is ctx's.
func (p *Pace) Await(ctx context.Context, seq uint64) error {
	reached, leave := p.join(seq)
	defer leave()
	p.Hurry()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Position returns the last record that the follower has passed on, as of its last chunk. After the follower's end it
// is math.MaxUint64: nothing is left to pass on.
func (w *waits) Position() uint64 { return w.reached.Load() }

// Reached ends the waits for records up to seq. The follower calls it after each look, even without new records,
// because a caller may have begun to wait just before.
func (w *waits) Reached(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.reached.Store(seq)
	}
	w.endUpTo(seq)
}

// End ends all waits, including later ones.
func (w *waits) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.reached.Store(math.MaxUint64)
	w.endUpTo(math.MaxUint64)
}

// Waited reports whether any caller waits.
func (w *waits) Waited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Len() > 0
}

// join adds a waiter. The caller calls leave when it stops waiting.
func (w *waits) join(seq uint64) (reached <-chan struct{}, leave func()) {
	one := &waiter{seq, make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		close(one.reached)
		return one.reached, func() {}
	}
	at := w.all.Back() // nearly always the right place: later callers mostly wait for later records
	for at != nil && at.Value.(*waiter).seq > seq {
		at = at.Prev()
	}
	var place *list.Element
	if at == nil {
		place = w.all.PushFront(one)
	} else {
		place = w.all.InsertAfter(one, at)
	}
	return one.reached, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all.Remove(place) // does nothing if it was removed already
	}
}

// endUpTo ends the waits for records up to seq. Its caller holds mu.
func (w *waits) endUpTo(seq uint64) {
	for e := w.all.Front(); e != nil && e.Value.(*waiter).seq <= seq; e = w.all.Front() {
		close(e.Value.(*waiter).reached)
		w.all.Remove(e)
	}
}
