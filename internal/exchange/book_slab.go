package exchange

import (
	"iter"
	"math"
	"math/bits"
)

// slot names an order in the slab of its book. 0 is none.
type slot uint32

// slabPage is how many orders a page of a slab holds: so few that a symbol
// without much trade takes little memory.
const slabPage = 32

// recentMax is how many slots a slab keeps ready to be taken.
const recentMax = 64

// slab holds the orders of a book, which never move and are reached by their slot
// without a search. Slots that were given back are used again before the slab grows,
// first the last ones, which are still in the processor's caches; a page of which no slot
// is taken goes back to the garbage collector. A slot refers to an order without
// being a pointer, which the collector would have to follow. The zero slab is
// empty. Slot 0 has a node too, once there are others: it stands for what is not
// there, and may be written to.
//
// Invariants: a bit of taken is set where a slot is in use, in recent, or 0; a node in
// recent has the id 0; partly lists the pages that have another slot, each once.
type slab struct {
	pages  []*page // nil where no slot is taken
	partly []uint32
	recent []slot // were given back, the last at the end
}

// page holds the nodes of its slots, and beside them what was executed of their orders.
type page struct {
	nodes      [slabPage]node
	executions [slabPage][]Execution // in use where the node says so
	taken      uint32                // one bit a slot
}

// at returns the node of a slot that is taken.
func (s *slab) at(i slot) *node { return &s.pages[i/slabPage].nodes[i%slabPage] }

// executions returns the place for what was executed of the order at a slot.
func (s *slab) executions(i slot) *[]Execution {
	return &s.pages[i/slabPage].executions[i%slabPage]
}

// take returns a slot that was free. Its node still holds another order, except its id.
func (s *slab) take() slot {
	if n := len(s.recent); n > 0 {
		i := s.recent[n-1]
		s.recent = s.recent[:n-1]
		return i
	}
	return s.takeFromPage()
}

func (s *slab) takeFromPage() slot {
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

// newPage makes page n and takes its first slot. Its memory is written to before it is
// read: a system gives fresh memory twice otherwise, a page of zeros for the read and
// another one for the write, and interrupts all processors between the two.
func (s *slab) newPage(n uint32) slot {
	p := new(page)
	s.pages[n] = p
	if n > 0 {
		p.taken = 1
		return slot(n * slabPage)
	}
	p.taken = 1<<0 | 1<<1 // slot 0 is none
	return 1
}

// give takes a slot back, whose node is n.
func (s *slab) give(i slot, n *node) {
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

// all ranges over the slots that are taken and their nodes, in the order of the slots.
// Those that it has come to may be given back meanwhile.
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
