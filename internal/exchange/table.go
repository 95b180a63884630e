package exchange

import "math/bits"

// orderTable holds the orders of a book and finds them by id: a slab of orders,
// and an open-addressing hash table of slots. Probing is linear; a removal moves
// what follows back, so that there are no tombstones.
//
// Invariants: len(entries) is 0 or a power of two; every order of the slab has one
// entry, with no empty one between its home and it.
type orderTable struct {
	slab[Order]
	entries []tableEntry
	shift   uint8 // 32 - log2(len(entries))
	count   int
}

// tableEntry leads to an order. The low bits of the id are beside the slot, so
// that probing seldom has to look at other orders.
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
		if e.slot == 0 || e.tag == uint32(id) && t.at(e.slot).ID == id {
			return e.slot
		}
	}
}

// add copies an order in whose id is not there yet.
func (t *orderTable) add(o *Order) slot {
	if (t.count+1)*4 > len(t.entries)*3 {
		t.resize(max(2*len(t.entries), tableMin))
	}
	t.count++
	i := t.take()
	*t.at(i) = *o
	t.enter(tableEntry{uint32(o.ID), i})
	return i
}

// enter puts an entry into the first empty place from its home on.
func (t *orderTable) enter(e tableEntry) {
	i := t.home(e.tag)
	for t.entries[i].slot != 0 {
		i = (i + 1) & (len(t.entries) - 1)
	}
	t.entries[i] = e
}

// remove drops an order that is there.
func (t *orderTable) remove(id OrderID, s slot) {
	mask := len(t.entries) - 1
	hole := t.home(uint32(id))
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
