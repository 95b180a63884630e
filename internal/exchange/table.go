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

// orderTable holds the orders of a book and finds them by id: a slab of nodes, and
// a hash table that chains them. It grows by one bucket at a time, whose orders
// were all in one other bucket (linear hashing), so that no command has to wait
// while a large table is made anew.
//
// Invariants: every node is in the chain of its bucket; there are more buckets
// than nodes.
type orderTable struct {
	slab[node]
	fates   slab[fate]
	buckets []slot // the first node of each chain
	mask    uint32 // the least 2^n - 1 that is not below the last bucket
	count   int
}

// bucket returns where the chain of an id begins. The multiplication, by 2^64 over
// the golden ratio, spreads rising ids evenly, also where they rise in steps.
func (t *orderTable) bucket(id OrderID) *slot {
	hash := uint32(uint64(id) * 11400714819323198485 >> 32)
	i := hash & t.mask
	if i >= uint32(len(t.buckets)) {
		i &= t.mask >> 1 // its own bucket is still to come
	}
	return &t.buckets[i]
}

// find returns an order's slot, 0 where it is not there.
func (t *orderTable) find(id OrderID) slot {
	if t.count == 0 {
		return 0
	}
	i := *t.bucket(id)
	for i != 0 && t.at(i).id != id {
		i = t.at(i).chain
	}
	return i
}

// add returns a new slot and its zero node for an id that is not there yet.
func (t *orderTable) add(id OrderID) (slot, *node) {
	for t.count++; t.count >= len(t.buckets); {
		t.grow()
	}
	i := t.take()
	n := t.at(i)
	n.id = id
	first := t.bucket(id)
	n.chain, *first = *first, i
	return i, n
}

// remove drops n, which is at i, and what has become of its order.
func (t *orderTable) remove(i slot, n *node) {
	link := t.bucket(n.id)
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

// grow adds a bucket, and moves there what belongs there.
func (t *orderTable) grow() {
	last := uint32(len(t.buckets))
	if last > t.mask {
		t.mask = 2*t.mask + 1
	}
	t.buckets = append(t.buckets, 0)
	if last == 0 {
		return
	}
	from := &t.buckets[last&(t.mask>>1)]
	chain := *from
	*from = 0
	for chain != 0 {
		n := t.at(chain)
		first := t.bucket(n.id)
		chain, n.chain, *first = n.chain, *first, chain
	}
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
