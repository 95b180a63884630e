package exchange

import (
	"iter"
	"math/bits"
)

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

// orderTable holds the orders of a book and finds them by id: a slab of nodes, and
// an open-addressing hash table of their slots. Probing is linear; a removal moves
// what follows back, so that there are no tombstones.
//
// Invariants: len(entries) is 0 or a power of two and at least a quarter is empty;
// every node has one entry, with no empty one between its home and it.
type orderTable struct {
	slab[node]
	fates   slab[fate]
	entries []tableEntry
	shift   uint8 // 32 - log2(len(entries))
	count   int
}

// tableEntry leads to a node. The low bits of the id are beside the slot, so that
// probing seldom has to look at other nodes.
type tableEntry struct {
	tag  uint32
	slot slot
}

// tableMin is how many entries the smallest table has.
const tableMin = 8

// home returns where an entry belongs. The multiplication, by 2^32 over the golden
// ratio, spreads rising ids evenly, also where they rise in steps.
func (t *orderTable) home(tag uint32) int { return int(tag * 2654435769 >> t.shift) }

// find returns an order's slot, 0 where it is not there.
func (t *orderTable) find(id OrderID) slot {
	if t.count == 0 {
		return 0
	}
	for i := t.home(uint32(id)); ; i++ {
		e := t.entries[i&(len(t.entries)-1)]
		if e.slot == 0 || e.tag == uint32(id) && t.at(e.slot).id == id {
			return e.slot
		}
	}
}

// add returns a new slot and its zero node for an id that is not there yet.
func (t *orderTable) add(id OrderID) (slot, *node) {
	if (t.count+1)*4 > len(t.entries)*3 {
		t.resize(max(2*len(t.entries), tableMin))
	}
	t.count++
	i := t.take()
	t.enter(tableEntry{uint32(id), i})
	n := t.at(i)
	n.id = id
	return i, n
}

// enter puts an entry into the first empty place from its home on.
func (t *orderTable) enter(e tableEntry) {
	i := t.home(e.tag)
	for t.entries[i].slot != 0 {
		i = (i + 1) & (len(t.entries) - 1)
	}
	t.entries[i] = e
}

// remove drops a node and what has become of its order.
func (t *orderTable) remove(s slot) {
	n := t.at(s)
	mask := len(t.entries) - 1
	hole := t.home(uint32(n.id))
	for t.entries[hole].slot != s {
		hole = (hole + 1) & mask
	}
	// Whatever follows without a gap and belongs at the hole or before it moves up.
	for i := (hole + 1) & mask; t.entries[i].slot != 0; i = (i + 1) & mask {
		if (i-t.home(t.entries[i].tag))&mask >= (i-hole)&mask {
			t.entries[hole], hole = t.entries[i], i
		}
	}
	t.entries[hole] = tableEntry{}
	if n.fate != 0 {
		t.fates.give(n.fate)
	}
	t.give(s)
	if t.count--; t.count*8 < len(t.entries) && len(t.entries) > tableMin {
		t.resize(len(t.entries) / 2)
	}
}

// resize makes the table one of n entries. Homes are the upper bits of a product,
// so entries keep their order, and memory is written front to back.
func (t *orderTable) resize(n int) {
	old := t.entries
	t.entries, t.shift = make([]tableEntry, n), uint8(32-bits.Len(uint(n-1)))
	for _, e := range old {
		if e.slot != 0 {
			t.enter(e)
		}
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

// all ranges over the orders, in no order. Those that it has come to may be
// removed meanwhile.
func (t *orderTable) all() iter.Seq[Order] {
	return func(yield func(Order) bool) {
		for n := range t.slab.all() {
			if !yield(t.order(n)) {
				return
			}
		}
	}
}
