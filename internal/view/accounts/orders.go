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
	id     exchange.OrderID
	Limit  exchange.Price // with traits its exchange.Terms
	open   exchange.Shares
	time   int64
	more   *orderMore // nil if it has nothing of that
	event  uint64     // the number of the account's newest event that was made of a change of it; 0 if none was
	symbol symbolNumber
	place  uint32 // in the symbol's openOrders
	traits
	onDisconnect bool
	unsent       exchange.Unsent
}

// traits are exchange.Terms without the limit, apart from which they take no room of their own in an order.
type traits struct {
	Side exchange.Side
	TIF  exchange.TimeInForce
	Post bool
	Type exchange.OrderType
	STP  exchange.SelfTrade
}

// traitsOf returns those of some terms.
func traitsOf(t *exchange.Terms) traits { return traits{t.Side, t.TIF, t.Post, t.Type, t.STP} }

// terms returns an order's terms.
func (o *order) terms() exchange.Terms {
	return exchange.Terms{Side: o.Side, TIF: o.TIF, Post: o.Post, Type: o.Type, STP: o.STP, Limit: o.Limit}
}

// orderMore is what few open orders have: so most of them take less memory.
type orderMore struct {
	ref      exchange.Ref
	executed exchange.Shares // by this order
	notional exchange.Cash   // of that
	changed  int64           // by its newest execution or reduction; 0 if there was none
	fills    int             // how many executions it had
	amends   *orderAmends    // nil if no amend has to do with it
}

// orderAmends is what amends did to an order, and what it comes from.
type orderAmends struct {
	newRef          exchange.Ref
	reduced, before exchange.Shares
	replaces        exchange.OrderID
}

// with returns what few orders have, to be changed.
func (o *order) with() *orderMore {
	if o.more == nil {
		o.more = new(orderMore)
	}
	return o.more
}

// amended is with for what amends did.
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

// total returns what an amend's amount names: what is open and what was executed, also by those that it replaced.
func (o *order) total() exchange.Shares {
	total := o.open
	if m := o.more; m != nil {
		if total += m.executed; m.amends != nil {
			total += m.amends.before
		}
	}
	return total
}

// detail returns an order for the symbol as it stands, which is open.
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

// restored returns an open order as a snapshot has it.
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
	if s.NewRef != "" { // which an amend may have used that did nothing else
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
	spare  *spareOrders // where they are from, and go to; nil if nowhere
}

// spareOrders are the chunks of accounts whose last order went, for those that get one: most open orders come and go
// by themselves. They are small: remove has given back what many orders took.
type spareOrders [][][]order

// spareOrdersMax is how many there may be.
const spareOrdersMax = 1024

// take returns chunks, of which there is one, which is empty.
func (s *spareOrders) take() [][]order {
	if s == nil || len(*s) == 0 {
		return make([][]order, 1)
	}
	last := len(*s) - 1
	chunks := (*s)[last]
	*s = (*s)[:last]
	return chunks
}

// put keeps what take returns.
func (s *spareOrders) put(chunks [][]order) {
	if s != nil && len(*s) < spareOrdersMax {
		*s = append(*s, chunks)
	}
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

// len returns how many there are.
func (l *orders) len() (n int) {
	for _, chunk := range l.chunks {
		n += len(chunk)
	}
	return n
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
		l.chunks = l.spare.take()
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
	l.chunks[c] = slices.Insert(withRoom(l.chunks[c], ordersChunk), i, o)
	return true
}

// remove drops an order. It returns false if the order is not there.
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
