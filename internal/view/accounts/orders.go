package accounts

import (
	"slices"
	"sort"

	"outcry/internal/exchange"
)

// ordersChunk is the maximum number of orders in a chunk, and so of orders moved when one is added or removed.
const ordersChunk = 128

// symbolNumber identifies a symbol. It is used instead of the name because every order holds one, and names need
// more memory.
type symbolNumber uint32

// order is an open order. It is as small as it can be, because up to a million of them may be open.
type order struct {
	id      exchange.OrderID
	limit   exchange.Price // together with instructions: the order's exchange.Terms
	open    exchange.Shares
	time    int64
	account uint32 // index of the account in View.list
	symbol  symbolNumber
	more    place // of its rarely used fields in openOrders.more; 0 if all are zero

	older, newer place // neighbours in the symbol's queue

	instructions exchange.Instructions
	onDisconnect bool
	unsent       exchange.Unsent
}

// terms returns an order's terms.
func (o *order) terms() exchange.Terms { return o.instructions.Terms(o.limit) }

// side returns an order's side.
func (o *order) side() exchange.Side { return o.instructions.Side() }

// orderMore has the fields that few open orders need. It is apart from order to save memory.
type orderMore struct {
	ref      exchange.Ref
	executed exchange.Shares // shares that this order executed
	notional exchange.Cash   // notional of the executed shares
	changed  int64           // time of the newest execution or reduction; 0 if there was none
	fills    int             // number of executions
	event    uint64          // number of the account's newest event that has a change of this order; 0 if none was made
	amends   *orderAmends    // nil unless an amend changed or made this order
}

// orderAmends describes the amends of an order, and which orders it replaced.
type orderAmends struct {
	newRef          exchange.Ref
	reduced, before exchange.Shares
	replaces        exchange.OrderID
}

// amended returns the order's orderAmends, and allocates it if needed.
func (m *orderMore) amended() *orderAmends {
	if m.amends == nil {
		m.amends = new(orderAmends)
	}
	return m.amends
}

// execute counts one more execution.
func (m *orderMore) execute(s exchange.Shares, price exchange.Price, time int64) {
	m.executed, m.notional, m.changed = m.executed+s, m.notional.Add(exchange.Notional(s, price)), time
	m.fills++
}

// detail returns the current state of an open order for a symbol. m has its rarely used fields; it may be nil.
func (o *order) detail(sym exchange.Symbol, m *orderMore) exchange.OrderDetail {
	d := exchange.OrderDetail{ID: o.id, Symbol: sym, Terms: o.terms(), Unsent: o.unsent, OnDisconnect: o.onDisconnect,
		Open: o.open, Time: o.time, Changed: o.time}
	if m == nil {
		return d
	}
	d.Ref, d.Executed, d.Notional = m.ref, m.executed, m.notional
	if m.changed != 0 {
		d.Changed = m.changed
	}
	if c := m.amends; c != nil {
		d.NewRef, d.Reduced, d.Before, d.Replaces = c.newRef, c.reduced, c.before, c.replaces
	}
	return d
}

// restored returns an open order from a snapshot, and its rarely used fields.
func restored(s *exchange.OrderState, account uint32, sym symbolNumber) (o order, m orderMore) {
	o = order{id: s.ID, limit: s.Limit, instructions: s.Terms.Instructions(), open: s.Open, time: s.Time,
		account: account, symbol: sym, onDisconnect: s.OnDisconnect, unsent: s.Unsent}
	m.ref = s.Ref
	for i := range s.Executions {
		x := &s.Executions[i]
		m.execute(x.Shares, x.Price, x.Time)
	}
	if l := s.Lineage; l != nil {
		*m.amended() = orderAmends{reduced: l.Reduced, before: l.Executed, replaces: l.Replaces}
		if l.Reduced > 0 {
			m.changed = max(m.changed, l.ReducedAt)
		}
	}
	if s.NewRef != "" { // an amend may have used a ref without changing anything else
		m.amended().newRef = s.NewRef
	}
	return o, m
}

// orders are the open orders of an account, by id. The zero value has none.
//
// Invariants: no chunk is empty or longer than ordersChunk; ids rise within a chunk and from
// chunk to chunk.
type orders struct {
	chunks [][]place
	all    *openOrders
}

// spareOrders is a pool of chunks, from accounts that have no open order any more for accounts that get their first.
// Most accounts have at most one open order at a time, so this saves allocations. The chunks are small, because
// orders.remove has already shrunk them.
type spareOrders [][][]place

// spareOrdersMax is the maximum number of entries in the pool.
const spareOrdersMax = 1024

// take returns one empty chunk in a list, from the pool or newly allocated.
func (s *spareOrders) take() [][]place {
	if len(*s) == 0 {
		return make([][]place, 1)
	}
	last := len(*s) - 1
	chunks := (*s)[last]
	*s = (*s)[:last]
	return chunks
}

// put returns chunks to the pool, unless it is full.
func (s *spareOrders) put(chunks [][]place) {
	if len(*s) < spareOrdersMax {
		*s = append(*s, chunks)
	}
}

// search returns the chunk and the index of an order, or where to insert it. found is false if the order is not in the
// list.
func (l *orders) search(id exchange.OrderID) (c, i int, found bool) {
	last := len(l.chunks) - 1
	if last < 0 {
		return 0, 0, false
	}
	if l.all.at(l.chunks[last][0]).id <= id {
		c = last
	} else {
		c = max(0, sort.Search(last, func(c int) bool { return l.all.at(l.chunks[c][0]).id > id })-1)
	}
	// A binary search by hand: sort.Search calls a function for each step. The newest and the oldest order are the
	// usual cases.
	chunk := l.chunks[c]
	end := len(chunk)
	switch {
	case l.all.at(chunk[end-1]).id < id:
		return c, end, false
	case l.all.at(chunk[0]).id == id:
		return c, 0, true
	}
	for i < end {
		if mid := (i + end) / 2; l.all.at(chunk[mid]).id < id {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return c, i, l.all.at(chunk[i]).id == id
}

// len returns the number of orders.
func (l *orders) len() (n int) {
	for _, chunk := range l.chunks {
		n += len(chunk)
	}
	return n
}

// find returns an order, or nil if it is not in the list. The pointer is valid until the order is removed.
func (l *orders) find(id exchange.OrderID) *order {
	if c, i, found := l.search(id); found {
		return l.all.at(l.chunks[c][i])
	}
	return nil
}

// insert adds the order with an id, which is at a place. It returns false if there already is one of that id.
func (l *orders) insert(id exchange.OrderID, p place) bool {
	c, i, found := l.search(id)
	if found {
		return false
	}
	if len(l.chunks) == 0 {
		l.chunks = l.all.spare.take()
	}
	if chunk := l.chunks[c]; len(chunk) == ordersChunk {
		// Ids mostly rise. If the new order is the last, it goes to a new chunk, and the old one stays full.
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
	chunk := withRoom(l.chunks[c], ordersChunk)
	if i == len(chunk) { // the usual case
		l.chunks[c] = append(chunk, p)
		return true
	}
	l.chunks[c] = slices.Insert(chunk, i, p)
	return true
}

// remove removes the order with the given id, which must exist, and returns its place.
func (l *orders) remove(id exchange.OrderID) place {
	c, i, _ := l.search(id)
	p := l.chunks[c][i]
	if len(l.chunks) == 1 && len(l.chunks[0]) == 1 {
		l.chunks[0] = l.chunks[0][:0]
		l.all.spare.put(l.chunks)
		l.chunks = nil
		return p
	}
	if l.chunks[c] = remove(l.chunks[c], i); len(l.chunks[c]) == 0 {
		l.chunks = remove(l.chunks, c)
		return p
	}
	if !l.join(c) {
		l.join(c - 1)
	}
	return p
}

// moved records the new place of the order with the given id, which must exist.
func (l *orders) moved(id exchange.OrderID, p place) {
	c, i, _ := l.search(id)
	l.chunks[c][i] = p
}

// join merges chunk c with the next one if both exist and are small. It reports whether it did.
func (l *orders) join(c int) bool {
	if c < 0 || c+1 >= len(l.chunks) || len(l.chunks[c])+len(l.chunks[c+1]) > ordersChunk/2 {
		return false
	}
	l.chunks[c] = append(l.chunks[c], l.chunks[c+1]...)
	l.chunks = remove(l.chunks, c+1)
	return true
}

// after calls f for the orders with ids above id, in order, until f returns false.
func (l *orders) after(id exchange.OrderID, f func(*order) bool) {
	c, i, found := l.search(id)
	if found {
		i++
	}
	for ; c < len(l.chunks); c, i = c+1, 0 {
		for ; i < len(l.chunks[c]); i++ {
			if !f(l.all.at(l.chunks[c][i])) {
				return
			}
		}
	}
}

// withRoom returns all with room for at least one more entry. A full slice grows by half, to at most most entries.
// Accounts mostly have few entries each, and these lists use most of the memory; append would double them.
func withRoom[T any](all []T, most int) []T {
	n := len(all)
	if n < cap(all) {
		return all
	}
	return append(make([]T, 0, min(n+max(1, n/2), most)), all...)
}

// remove removes the i-th entry of all. It reallocates if most of the memory is unused, so that a list that was once
// long does not keep its memory forever.
func remove[T any](all []T, i int) []T {
	all = slices.Delete(all, i, i+1)
	switch n := len(all); {
	case n == 0:
		return nil
	case n <= cap(all)/4:
		return append(make([]T, 0, 2*n), all...)
	}
	return all
}
