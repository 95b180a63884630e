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

// orderSlab holds the orders of a book.
type orderSlab struct {
	slab[node]
	fates slab[fate]
}

// remove drops n, which is at i, and what has become of its order.
func (t *orderSlab) remove(i slot, n *node) {
	if n.fate != 0 {
		t.fates.give(n.fate)
	}
	t.give(i)
}

// fateOf returns what has become of an order, to be added to.
func (t *orderSlab) fateOf(n *node) *fate {
	if n.fate == 0 {
		n.fate = t.fates.take()
	}
	return t.fates.at(n.fate)
}

// read makes o a node's order.
func (t *orderSlab) read(n *node, o *Order) {
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
func (t *orderSlab) order(n *node) (o Order) {
	t.read(n, &o)
	return o
}

// all ranges over the nodes, in no order. Those that it has come to may be removed
// meanwhile.
func (t *orderSlab) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for n := range t.slab.all() {
			if n.id != 0 && !yield(n) {
				return
			}
		}
	}
}
