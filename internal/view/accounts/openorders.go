package accounts

import (
	"outcry/internal/exchange"
)

// Sizes of a chunk of a symbol's open orders: the maximum number of orders, and the minimum capacity.
const (
	openChunk = 1024
	openLeast = 4
)

// openOrder identifies an open order by its account and id. It is no pointer, because orders move in memory.
type openOrder struct {
	id      exchange.OrderID
	account uint32 // index in View.list
}

// openOrders is the open orders of a symbol, unsorted. With it, a new listener to a symbol costs no search through
// the orders of all other symbols. The zero value is empty. Adding and removing need constant time: the last order
// moves to the place of the removed one.
//
// Invariants: order.place is an order's index; all chunks but the last are full; the last is empty only if it is
// the only one. An order is in this list exactly while it is in the orders of its account.
type openOrders struct{ chunks [][]openOrder }

// len returns the number of orders.
func (l *openOrders) len() int {
	last := len(l.chunks) - 1
	if last < 0 {
		return 0
	}
	return last*openChunk + len(l.chunks[last])
}

// at returns the order at a place.
func (l *openOrders) at(place uint32) *openOrder { return &l.chunks[place/openChunk][place%openChunk] }

// add adds an order. Its place is the previous len.
func (l *openOrders) add(o openOrder) {
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last]) == openChunk {
		l.chunks = append(l.chunks, nil)
		last++
	}
	chunk := l.chunks[last]
	if n := len(chunk); n == cap(chunk) {
		chunk = append(make([]openOrder, 0, max(2*n, openLeast)), chunk...)
	}
	l.chunks[last] = append(chunk, o)
}

// remove removes the order at a place. It returns the order that moved to that place, nil if none did.
func (l *openOrders) remove(place uint32) (moved *openOrder) {
	last := len(l.chunks) - 1
	chunk := l.chunks[last]
	n := len(chunk) - 1
	if int(place) != last*openChunk+n {
		moved = l.at(place)
		*moved = chunk[n]
	}
	switch chunk = chunk[:n]; {
	case n == 0 && last > 0:
		l.chunks = remove(l.chunks, last)
		return moved
	case n <= cap(chunk)/4 && cap(chunk) > openLeast:
		chunk = append(make([]openOrder, 0, cap(chunk)/2), chunk...)
	}
	l.chunks[last] = chunk
	return moved
}
