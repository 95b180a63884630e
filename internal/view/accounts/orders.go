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

// order is an open order.
type order struct {
	id     exchange.OrderID
	Limit  exchange.Price // together with traits: the order's exchange.Terms
	open   exchange.Shares
	time   int64
	more   *orderMore // rarely used fields; nil if all are zero
	event  uint64     // number of the account's newest event that has a change of this order; 0 if none was made
	symbol symbolNumber
	place  uint32 // index in the symbol's openOrders
	traits
	onDisconnect bool
	unsent       exchange.Unsent
}

// traits is exchange.Terms without the limit. As a struct apart from the limit, it adds no padding to an order.
type traits struct {
	Side exchange.Side
	TIF  exchange.TimeInForce
	Post bool
	Type exchange.OrderType
	STP  exchange.SelfTrade
}

// traitsOf returns the traits of some terms.
func traitsOf(t *exchange.Terms) traits { return traits{t.Side, t.TIF, t.Post, t.Type, t.STP} }

// terms returns an order's terms.
func (o *order) terms() exchange.Terms {
	return exchange.Terms{Side: o.Side, TIF: o.TIF, Post: o.Post, Type: o.Type, STP: o.STP, Limit: o.Limit}
}

// orderMore has the fields that few open orders need. It is apart from order to save memory.
type orderMore struct {
	ref      exchange.Ref
	executed exchange.Shares // shares that this order executed
	notional exchange.Cash   // notional of the executed shares
	changed  int64           // time of the newest execution or reduction; 0 if there was none
	fills    int             // number of executions
	amends   *orderAmends    // nil unless an amend changed or made this order
}

// orderAmends is what amends did to an order, and which orders it replaced.
type orderAmends struct {
	newRef          exchange.Ref
	reduced, before exchange.Shares
	replaces        exchange.OrderID
}

// with returns the order's orderMore, and allocates it if needed.
func (o *order) with() *orderMore {
	if o.more == nil {
		o.more = new(orderMore)
	}
	return o.more
}

// amended returns the order's orderAmends, and allocates it if needed.
func (o *order) amended() *orderAmends {
	m := o.with()
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

// detail returns the current state of an open order for a symbol.
func (o *order) detail(sym exchange.Symbol) exchange.OrderDetail {
	d := exchange.OrderDetail{ID: o.id, Symbol: sym, Terms: o.terms(), Unsent: o.unsent, OnDisconnect: o.onDisconnect,
		Open: o.open, Time: o.time, Changed: o.time}
	m := o.more
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

// restored returns an open order from a snapshot.
func restored(s *exchange.OrderState, sym symbolNumber) order {
	o := order{id: s.ID, Limit: s.Limit, traits: traitsOf(&s.Terms), open: s.Open, time: s.Time, symbol: sym,
		onDisconnect: s.OnDisconnect, unsent: s.Unsent}
	if s.Ref != "" {
		o.with().ref = s.Ref
	}
	for i := range s.Executions {
		x := &s.Executions[i]
		o.with().execute(x.Shares, x.Price, x.Time)
	}
	if l := s.Lineage; l != nil {
		*o.amended() = orderAmends{reduced: l.Reduced, before: l.Executed, replaces: l.Replaces}
		if l.Reduced > 0 {
			o.more.changed = max(o.more.changed, l.ReducedAt)
		}
	}
	if s.NewRef != "" { // an amend may have used a ref without changing anything else
		o.amended().newRef = s.NewRef
	}
	return o
}

// orders are the open orders of an account, by id. The zero value has none.
//
// Invariants: no chunk is empty or longer than ordersChunk; ids rise within a chunk and from
// chunk to chunk.
type orders struct {
	chunks [][]order
	spare  *spareOrders // pool that chunks come from and return to; nil without a pool
}

// spareOrders is a pool of chunks, from accounts that have no open order any more for accounts that get their first.
// Most accounts have at most one open order at a time, so this saves allocations. The chunks are small, because
// orders.remove has already shrunk them.
type spareOrders [][][]order

// spareOrdersMax is the maximum number of entries in the pool.
const spareOrdersMax = 1024

// take returns one empty chunk in a list, from the pool or newly allocated.
func (s *spareOrders) take() [][]order {
	if s == nil || len(*s) == 0 {
		return make([][]order, 1)
	}
	last := len(*s) - 1
	chunks := (*s)[last]
	*s = (*s)[:last]
	return chunks
}

// put returns chunks to the pool, unless it is full.
func (s *spareOrders) put(chunks [][]order) {
	if s != nil && len(*s) < spareOrdersMax {
		*s = append(*s, chunks)
	}
}

// search returns the chunk and the index of an order, or where to insert it. found is false if it is not there.
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

// len returns the number of orders.
func (l *orders) len() (n int) {
	for _, chunk := range l.chunks {
		n += len(chunk)
	}
	return n
}

// find returns an order, nil if it is not there. The pointer is valid until an order is added or removed.
func (l *orders) find(id exchange.OrderID) *order {
	if c, i, found := l.search(id); found {
		return &l.chunks[c][i]
	}
	return nil
}

// insert adds an order. It returns false if there already is one of that id.
func (l *orders) insert(o order) bool {
	c, i, found := l.search(o.id)
	if found {
		return false
	}
	if len(l.chunks) == 0 {
		l.chunks = l.spare.take()
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
	l.chunks[c] = slices.Insert(withRoom(l.chunks[c], ordersChunk), i, o)
	return true
}

// remove removes an order. It returns false if the order is not there.
func (l *orders) remove(id exchange.OrderID) bool {
	c, i, found := l.search(id)
	if !found {
		return false
	}
	if len(l.chunks) == 1 && len(l.chunks[0]) == 1 {
		l.chunks[0] = slices.Delete(l.chunks[0], 0, 1)
		l.spare.put(l.chunks)
		l.chunks = nil
		return true
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
			if !f(&l.chunks[c][i]) {
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

// remove removes the i-th entry of all. It reallocates if most of the memory is unused, so that a list that was long
// once does not keep its memory for ever.
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
