package accounts

import (
	"container/list"
	"math"
	"sync"
)

// waiters are those that wait until the view has a record, by seq.
type waiters struct {
	wake chan struct{} // one is new

	mu    sync.Mutex // guards what follows
	all   list.List  // of *waiter
	ended bool
}

// waiter waits for a record.
type waiter struct {
	seq     uint64
	reached chan struct{} // closed once it is there, or will never be
}

func (w *waiters) init() {
	w.wake = make(chan struct{}, 1)
	w.all.Init()
}

// any reports whether there are some.
func (w *waiters) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Len() > 0
}

// join adds a waiter. leave is to be called once it does not wait any more.
func (w *waiters) join(seq uint64) (reached <-chan struct{}, leave func()) {
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
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return one.reached, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all.Remove(place) // nothing if it is out already
	}
}

// reached ends the wait of those that wait for a record up to seq.
func (w *waiters) reached(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endUpTo(seq)
}

// endUpTo is reached for callers who hold mu.
func (w *waiters) endUpTo(seq uint64) {
	for e := w.all.Front(); e != nil && e.Value.(*waiter).seq <= seq; e = w.all.Front() {
		close(e.Value.(*waiter).reached)
		w.all.Remove(e)
	}
}

// end ends every wait, also of those to come.
func (w *waiters) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.endUpTo(math.MaxUint64)
}
