package exchange

import (
	"iter"
	"math"
	"math/bits"
)

// slot is the index of an order in its book's slab; 0 means none.
type slot uint32

// slabPage is how many orders a page of a slab holds. It is small, so that a symbol
// with little trade uses little memory.
const slabPage = 32

// recentMax is how many freed slots a slab keeps ready for reuse.
const recentMax = 64

// slab holds the orders of a book. They never move and are reached by their slot
// without a search. Freed slots are reused before the slab grows, the most recently
// freed first, as they are still in the processor's caches. A page without any taken
// slot goes back to the garbage collector. A slot refers to an order without being a
// pointer, which the collector would have to follow. The zero slab is empty. Once there
// are orders, slot 0 has a node too: it represents a missing order, and may be written to.
//
// Invariants: a bit of page.taken is set if its slot is in use, in recent, or 0; a node
// in recent has the id 0; partly lists each page that has another slot, once.
type slab struct {
	pages  []*page  // nil if no slot of the page is taken
	partly []uint32 // numbers of pages with free slots
	recent []slot   // freed slots, the most recent last
}

// page holds the nodes of its slots, and the executions of their orders.
type page struct {
	nodes      [slabPage]node
	executions [slabPage][]Execution // valid if the node has the flag executed
	taken      uint32                // one bit for each slot
}

// at returns the node of a slot in use.
func (s *slab) at(i slot) *node { return &s.pages[i/slabPage].nodes[i%slabPage] }

// executions returns a pointer to the executions of the order at a slot.
func (s *slab) executions(i slot) *[]Execution {
	return &s.pages[i/slabPage].executions[i%slabPage]
}

// alloc returns a free slot. Its node still has an old order's values, except the id, which is 0.
func (s *slab) alloc() slot {
	if n := len(s.recent); n > 0 {
		i := s.recent[n-1]
		s.recent = s.recent[:n-1]
		return i
	}
	return s.allocFromPage()
}

func (s *slab) allocFromPage() slot {
	if len(s.partly) == 0 {
		s.partly = append(s.partly, uint32(len(s.pages)))
		s.pages = append(s.pages, nil)
	}
	n := s.partly[len(s.partly)-1]
	p := s.pages[n]
	if p == nil {
		return s.newPage(n)
	}
	i := bits.TrailingZeros32(^p.taken)
	p.taken |= 1 << i
	if p.taken == math.MaxUint32 {
		s.partly = s.partly[:len(s.partly)-1]
	}
	return slot(n*slabPage + uint32(i))
}

// newPage makes page n and takes its first slot. The page is written to before it is
// read: otherwise the operating system maps fresh memory twice, first a page of zeros for
// the read and then another page for the write, and interrupts all processors in between.
func (s *slab) newPage(n uint32) slot {
	p := new(page)
	s.pages[n] = p
	if n > 0 {
		p.taken = 1
		return slot(n * slabPage)
	}
	p.taken = 1<<0 | 1<<1 // slot 0 means none
	return 1
}

// release frees a slot, whose node is n.
func (s *slab) release(i slot, n *node) {
	n.id = 0
	if n.has(executed) {
		*s.executions(i) = nil
	}
	if len(s.recent) < recentMax {
		s.recent = append(s.recent, i)
		return
	}
	number := uint32(i) / slabPage
	p := s.pages[number]
	if p.taken == math.MaxUint32 {
		s.partly = append(s.partly, number)
	}
	if p.taken &^= 1 << (i % slabPage); p.taken == 0 {
		s.pages[number] = nil
	}
}

// all ranges over the slots in use and their nodes, in slot order. The slots already
// visited may be freed during the iteration.
func (s *slab) all() iter.Seq2[slot, *node] {
	return func(yield func(slot, *node) bool) {
		for number, p := range s.pages {
			if p == nil {
				continue
			}
			for taken := p.taken; taken != 0; taken &= taken - 1 {
				i := bits.TrailingZeros32(taken)
				if n := &p.nodes[i]; n.id != 0 && !yield(slot(number*slabPage+i), n) {
					return
				}
			}
		}
	}
}
