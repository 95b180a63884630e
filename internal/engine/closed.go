package engine

import "outcry/internal/process/queue"

// closing is a journal record that closed orders which are still in memory.
type closing struct {
	seq    uint64
	orders int // orders that the record closed and that are not forgotten yet
}

// closedQueue lists the records that closed orders which the book can forget, oldest
// record first. The book forgets the orders in the same order.
type closedQueue struct{ queue.Queue[closing] }

// pop removes one order if the oldest record in the queue is at or before seq, and reports whether it did.
func (q *closedQueue) pop(seq uint64) bool {
	c := q.Front()
	if c == nil || c.seq > seq {
		return false
	}
	if c.orders--; c.orders == 0 {
		q.Pop()
	}
	return true
}

// forgetMax is how many closed orders a shard forgets after one task: more than a
// task usually closes, so that memory shrinks, but few enough not to stall the shard.
const forgetMax = 256

// standbyClosed lists, for all books, the records that closed orders that can be forgotten, oldest record first. Each
// book forgets its own orders in the same order.
type standbyClosed struct {
	queue.Queue[closedIn]
	orders int // orders in the queue
}

// closedIn is a record that closed orders of a book, given by its number.
type closedIn struct {
	book int
	closing
}

func (q *standbyClosed) add(c closedIn) {
	q.Push(c)
	q.orders += c.orders
}

// pop removes one order if the oldest record in the queue is at or before seq, and returns the number of its book.
func (q *standbyClosed) pop(seq uint64) (book int, ok bool) {
	c := q.Front()
	if c == nil || c.seq > seq {
		return 0, false
	}
	book = c.book
	q.orders--
	if c.orders--; c.orders == 0 {
		q.Pop()
	}
	return book, true
}
