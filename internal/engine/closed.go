package engine

// closing is a journal record that closed orders which are still in memory.
type closing struct {
	seq    uint64
	orders int // orders that the record closed and that are not forgotten yet
}

// closedQueue lists the records that closed orders which the book can forget, oldest
// record first. The book forgets the orders in the same order.
type closedQueue struct {
	closings []closing
	first    int // index of the first entry that is not forgotten
}

func (q *closedQueue) push(c closing) {
	if q.first > len(q.closings)/2 && q.first > forgetMax {
		q.closings = append(q.closings[:0], q.closings[q.first:]...)
		q.first = 0
	}
	q.closings = append(q.closings, c)
}

// shrink frees the memory of an empty queue.
func (q *closedQueue) shrink() {
	if q.first == len(q.closings) {
		*q = closedQueue{}
	}
}

// pop removes one order if the oldest record in the queue is at or before seq, and reports whether it did.
func (q *closedQueue) pop(seq uint64) bool {
	if q.first == len(q.closings) || q.closings[q.first].seq > seq {
		return false
	}
	c := &q.closings[q.first]
	if c.orders--; c.orders == 0 {
		q.first++
	}
	return true
}

// forgetMax is how many closed orders a shard forgets after one task: more than a
// task usually closes, so that memory shrinks, but few enough not to stall the shard.
const forgetMax = 256

// standbyClosed lists the records that closed orders which can be forgotten, of all
// books, oldest record first. Each book forgets its own orders in the same order.
type standbyClosed struct {
	closings []closedIn
	first    int // index of the first entry that is not forgotten
	orders   int // orders in the queue
}

// closedIn is a record that closed orders of a book, given by its number.
type closedIn struct {
	book int
	closing
}

func (q *standbyClosed) push(c closedIn) {
	if q.first > len(q.closings)/2 && q.first > forgetMax {
		q.closings = append(q.closings[:0], q.closings[q.first:]...)
		q.first = 0
	}
	q.closings = append(q.closings, c)
	q.orders += c.orders
}

// pop removes one order if the oldest record in the queue is at or before seq, and returns the number of its book.
func (q *standbyClosed) pop(seq uint64) (book int, ok bool) {
	if q.first == len(q.closings) || q.closings[q.first].seq > seq {
		return 0, false
	}
	c := &q.closings[q.first]
	q.orders--
	if c.orders--; c.orders == 0 {
		q.first++
	}
	return c.book, true
}

// left returns the entries that are not forgotten.
func (q *standbyClosed) left() []closedIn { return q.closings[q.first:] }
