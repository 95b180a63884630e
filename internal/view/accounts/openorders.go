package accounts

import "outcry/internal/exchange"

// How many open orders of a symbol a chunk holds: at the most, and room for how many it has at least.
const (
	openChunk = 1024
	openLeast = 4
)

// openOrder says whose an open order is. Where the order is in memory changes.
type openOrder struct {
	id      exchange.OrderID
	account uint32 // its place in View.list
}

// openOrders are the open orders of a symbol, in no order: those who begin to listen to a symbol need not have the
// orders of all others looked through. The zero value has none. One comes or goes with the same work however many there
// are: the last one takes the place of the one that goes.
//
// Invariants: order.place is where an order is; all chunks but the last are full; the last is empty only if it is the
// only one. An order is here exactly while it is among those of its account.
type openOrders struct{ chunks [][]openOrder }

// len returns how many there are.
func (l *openOrders) len() int {
	last := len(l.chunks) - 1
	if last < 0 {
		return 0
	}
	return last*openChunk + len(l.chunks[last])
}

// at returns the one at a place.
func (l *openOrders) at(place uint32) *openOrder { return &l.chunks[place/openChunk][place%openChunk] }

// add adds one, at the place len.
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

// remove takes out the one at a place, and returns the one that is there then, nil if none is.
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

// insert adds an open order of an account. It returns false if the account has one of its id.
func (v *View) insert(a *account, o order) bool {
	open := &v.markets[o.symbol].open
	o.place = uint32(open.len())
	if !a.orders.insert(o) {
		return false
	}
	open.add(openOrder{o.id, a.number})
	return true
}

// remove drops an order of an account, which is open no more. Pointers to orders of the account are invalid then.
func (v *View) remove(a *account, o *order) {
	if moved := v.markets[o.symbol].open.remove(o.place); moved != nil {
		v.list[moved.account].orders.find(moved.id).place = o.place
	}
	a.orders.remove(o.id)
}

// openOf returns the open orders of a symbol. They are valid until one comes or goes.
func (v *View) openOf(n symbolNumber) []*order {
	open := &v.markets[n].open
	all := make([]*order, 0, open.len())
	for _, chunk := range open.chunks {
		for _, o := range chunk {
			all = append(all, v.list[o.account].orders.find(o.id))
		}
	}
	return all
}
