package exchange

import "iter"

// node is an order as a book keeps it: 64 bytes, a cache line. It is linked by
// slots, so that the garbage collector has one pointer of it to look at.
//
// An order that rests is linked with its neighbours at its price level, older and
// newer; a closed one with the order that closed next.
type node struct {
	id         OrderID
	account    *Account
	limit      Price
	shares     Shares
	left       Shares // open; where the order was canceled, what was taken back
	level      slot   // where it rests, 0 when it does not
	prev, next slot
	fate       slot // 0 while nothing was executed and nothing canceled
	chain      slot // the next one in its bucket of the orderTable
	side       Side
	canceled   bool
}

// fate is what has become of an order: most resting ones have none yet.
type fate struct {
	executions []Execution
	canceledAt int64
}

// open returns the shares that are still to be executed.
func (n *node) open() Shares {
	if n.canceled {
		return 0
	}
	return n.left
}

// orderTable holds the orders of a book and finds them by id.
//
// Invariant: every node is in the chain of its id.
type orderTable struct {
	slab[node]
	fates   slab[fate]
	buckets buckets
	count   int
}

// hash spreads rising ids evenly, also where they rise in steps: the factor is 2^64
// over the golden ratio.
func (id OrderID) hash() uint32 { return uint32(uint64(id) * 11400714819323198485 >> 32) }

// find returns an order's slot, 0 where it is not there.
func (t *orderTable) find(id OrderID) slot {
	if t.count == 0 {
		return 0
	}
	i := *t.buckets.of(id.hash())
	for i != 0 && t.at(i).id != id {
		i = t.at(i).chain
	}
	return i
}

// add returns a new slot and its zero node for an id that is not there yet.
func (t *orderTable) add(id OrderID) (slot, *node) {
	if t.count++; t.count >= len(t.buckets.first) {
		t.buckets.reserve(t.count, t.link)
	}
	i := t.take()
	n := t.at(i)
	n.id = id
	first := t.buckets.of(id.hash())
	n.chain, *first = *first, i
	return i, n
}

func (t *orderTable) link(i slot) (hash uint32, next *slot) {
	n := t.at(i)
	return n.id.hash(), &n.chain
}

// remove drops n, which is at i, and what has become of its order.
func (t *orderTable) remove(i slot, n *node) {
	link := t.buckets.of(n.id.hash())
	for *link != i {
		link = &t.at(*link).chain
	}
	*link = n.chain
	if n.fate != 0 {
		t.fates.give(n.fate)
	}
	t.give(i)
	t.count--
}

// fateOf returns what has become of an order, to be added to.
func (t *orderTable) fateOf(n *node) *fate {
	if n.fate == 0 {
		n.fate = t.fates.take()
	}
	return t.fates.at(n.fate)
}

// read makes o a node's order.
func (t *orderTable) read(n *node, o *Order) {
	o.ID, o.Account, o.Side, o.Limit, o.Shares = n.id, n.account, n.side, n.limit, n.shares
	o.Open, o.Canceled, o.CanceledAt, o.Executions = n.left, 0, 0, nil
	if n.canceled {
		o.Open, o.Canceled = 0, n.left
	}
	if n.fate != 0 {
		f := t.fates.at(n.fate)
		o.Executions, o.CanceledAt = f.executions, f.canceledAt
	}
}

// order returns a node's order.
func (t *orderTable) order(n *node) (o Order) {
	t.read(n, &o)
	return o
}

// all ranges over the nodes, in no order. Those that it has come to may be removed
// meanwhile.
func (t *orderTable) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for n := range t.slab.all() {
			if n.id != 0 && !yield(n) {
				return
			}
		}
	}
}
