package accounts

import (
	"slices"
	"sort"

	"outcry/internal/exchange"
)

// ordersChunk is how many orders a chunk holds at the most: what is moved when one comes or goes.
const ordersChunk = 128

// order is an open order.
type order struct {
	id exchange.OrderID
	exchange.Terms
	open         exchange.Shares
	executed     exchange.Shares // by it and by those that it replaced
	time         int64
	symbol       symbolNumber
	onDisconnect bool
}

// orders are the open orders of an account, by id. The zero value has none.
//
// Invariants: no chunk is empty or longer than ordersChunk; ids rise within a chunk and from
// chunk to chunk.
type orders struct {
	chunks [][]order
}

// search returns where an order is or belongs, chunk and place. found is false if it is not there.
func (l *orders) search(id exchange.OrderID) (c, i int, found bool) {
	last := len(l.chunks) - 1
	if last < 0 {
		return 0, 0, false
	}
	if l.chunks[last][0].id <= id {
		c = last
	} else {
		c = max(0, sort.Search(last, func(c int) bool { return l.chunks[c][0].id > id })-1)
	}
	chunk := l.chunks[c]
	i = sort.Search(len(chunk), func(i int) bool { return chunk[i].id >= id })
	return c, i, i < len(chunk) && chunk[i].id == id
}

// find returns an order, nil if it is not there. It is valid until one comes or goes.
func (l *orders) find(id exchange.OrderID) *order {
	if c, i, found := l.search(id); found {
		return &l.chunks[c][i]
	}
	return nil
}

// insert adds an order. It returns false if the order is there already.
func (l *orders) insert(o order) bool {
	c, i, found := l.search(o.id)
	if found {
		return false
	}
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, nil)
	}
	if chunk := l.chunks[c]; len(chunk) == ordersChunk {
		// Ids mostly rise, so the chunk stays nearly full, and those to come go to a new one.
		at := ordersChunk / 2
		if i == ordersChunk {
			at = ordersChunk - 1
		}
		l.chunks = slices.Insert(l.chunks, c+1, slices.Clone(chunk[at:]))
		l.chunks[c] = chunk[:at]
		if i > at {
			c, i = c+1, i-at
		}
	}
	l.chunks[c] = slices.Insert(l.chunks[c], i, o)
	return true
}

// remove drops an order. It returns false if the order is not there.
func (l *orders) remove(id exchange.OrderID) bool {
	c, i, found := l.search(id)
	if !found {
		return false
	}
	if l.chunks[c] = remove(l.chunks[c], i); len(l.chunks[c]) == 0 {
		l.chunks = remove(l.chunks, c)
		return true
	}
	if !l.join(c) {
		l.join(c - 1)
	}
	return true
}

// join puts chunk c and the next one together, if both are there and small.
func (l *orders) join(c int) bool {
	if c < 0 || c+1 >= len(l.chunks) || len(l.chunks[c])+len(l.chunks[c+1]) > ordersChunk/2 {
		return false
	}
	l.chunks[c] = append(l.chunks[c], l.chunks[c+1]...)
	l.chunks = remove(l.chunks, c+1)
	return true
}

// after calls f for the orders after an id, until f returns false.
func (l *orders) after(id exchange.OrderID, f func(*order) bool) {
	c, i, found := l.search(id)
	if found {
		i++
	}
	for ; c < len(l.chunks); c, i = c+1, 0 {
		for ; i < len(l.chunks[c]); i++ {
			if !f(&l.chunks[c][i]) {
				return
			}
		}
	}
}
