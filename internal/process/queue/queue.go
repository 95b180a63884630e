// Package queue has a first-in-first-out queue in memory.
package queue

import "unsafe"

// keepBytes bounds the memory that an empty queue keeps for its next items.
const keepBytes = 4 << 10

// Queue holds items in the order of Push. Its zero value is empty. It has no bound and no lock: its owner limits
// what it pushes, and guards the queue together with what else that limit depends on. Push and Pop cost the same
// however long the queue is, on average over many calls.
type Queue[T any] struct {
	items []T
	head  int // index of the oldest item; items before it are zero
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push appends an item.
func (q *Queue[T]) Push(v T) {
	// Items are moved only if that frees at least half of the memory. So each Pop pays for at most one move.
	if len(q.items) == cap(q.items) && 2*q.head >= len(q.items) && q.head > 0 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// Front returns the oldest item, which the caller may change, or nil if the queue is empty. It is valid until the
// next call of Push or Pop.
func (q *Queue[T]) Front() *T {
	if q.head == len(q.items) {
		return nil
	}
	return &q.items[q.head]
}

// Pop removes the oldest item and returns it. ok is false if the queue is empty.
func (q *Queue[T]) Pop() (v T, ok bool) {
	if q.head == len(q.items) {
		return v, false
	}
	var zero T
	v, q.items[q.head] = q.items[q.head], zero
	if q.head++; q.head == len(q.items) {
		if q.items, q.head = q.items[:0], 0; cap(q.items)*int(unsafe.Sizeof(zero)) > keepBytes {
			q.items = nil
		}
	}
	return v, true
}

// Items returns all items, the oldest first. They are valid until the next call of Push or Pop.
func (q *Queue[T]) Items() []T { return q.items[q.head:] }

// Shrink frees the memory of an empty queue.
func (q *Queue[T]) Shrink() {
	if q.Len() == 0 {
		*q = Queue[T]{}
	}
}
