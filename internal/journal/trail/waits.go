package trail

import (
	"container/list"
	"context"
	"math"
	"sync"
)

// waits are those that wait until a follower has a record, by seq. The zero value has none.
type waits struct {
	mu    sync.Mutex // guards what follows
	all   list.List  // of *waiter
	ended bool
}

// waiter waits for a record.
type waiter struct {
	seq     uint64
	reached chan struct{} // closed once it is there, or will never be
}

// Await returns nil once the follower has record seq, or has ended: its caller looks which. The error is ctx's.
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

// Reached ends the wait of those that wait for a record up to seq. The follower calls it after each look, also if
// there was nothing new: somebody may have begun to wait just before.
func (w *waits) Reached(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endUpTo(seq)
}

// End ends every wait, also of those to come.
func (w *waits) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.endUpTo(math.MaxUint64)
}

// Waited reports whether somebody waits.
func (w *waits) Waited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Len() > 0
}

// join adds a waiter. leave is to be called once it does not wait any more.
func (w *waits) join(seq uint64) (reached <-chan struct{}, leave func()) {
	one := &waiter{seq, make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		close(one.reached)
		return one.reached, func() {}
	}
	at := w.all.Back() // nearly always: who asks later waits for a later record
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
		w.all.Remove(place) // nothing if it is out already
	}
}

// endUpTo is Reached for callers who hold mu.
func (w *waits) endUpTo(seq uint64) {
	for e := w.all.Front(); e != nil && e.Value.(*waiter).seq <= seq; e = w.all.Front() {
		close(e.Value.(*waiter).reached)
		w.all.Remove(e)
	}
}
