package exchange

import (
	"iter"
	"math/bits"
)

// slot names a value of a slab. 0 is none.
type slot uint32

// slabPage is how many values a page of a slab holds: so few that a symbol
// without much trade takes little memory.
const slabPage = 32

// slab holds values that never move and are reached by their slot without a
// search. Slots that were given back are used again before the slab grows, and a
// page of which no slot is taken goes back to the garbage collector. The zero
// slab is empty. A slot refers to a value without being a pointer, which the
// garbage collector would have to follow.
//
// Invariants: a bit of taken is set where a slot is in use, or is slot 0; partly
// lists the pages that have a free slot, each once; a page without values has
// no bit set.
type slab[T any] struct {
	pages  []page[T]
	partly []uint32
	spare  *[slabPage]T // an empty page kept, so that one order more or less does not make and drop one
}

type page[T any] struct {
	values *[slabPage]T
	taken  uint32 // one bit a slot
}

// at returns the value of a slot that is taken.
func (s *slab[T]) at(i slot) *T { return &s.pages[i/slabPage].values[i%slabPage] }

// take returns a slot that was free, with a zero value.
func (s *slab[T]) take() slot {
	if len(s.partly) == 0 {
		p := page[T]{}
		if len(s.pages) == 0 {
			p.taken = 1 // slot 0 stands for none
		}
		s.partly = append(s.partly, uint32(len(s.pages)))
		s.pages = append(s.pages, p)
	}
	n := s.partly[len(s.partly)-1]
	p := &s.pages[n]
	if p.values == nil {
		p.values, s.spare = s.spare, nil
		if p.values == nil {
			p.values = new([slabPage]T)
		}
	}
	i := bits.TrailingZeros32(^p.taken)
	p.taken |= 1 << i
	if p.taken == 1<<slabPage-1 {
		s.partly = s.partly[:len(s.partly)-1]
	}
	return slot(n*slabPage + uint32(i))
}

// give takes a slot back. Its value must not be used any more.
func (s *slab[T]) give(i slot) {
	var zero T
	n := uint32(i) / slabPage
	p := &s.pages[n]
	p.values[i%slabPage] = zero
	if p.taken == 1<<slabPage-1 {
		s.partly = append(s.partly, n)
	}
	p.taken &^= 1 << (i % slabPage)
	if p.taken == 0 {
		p.values, s.spare = nil, p.values
	}
}

// all ranges over the values, in the order of their slots. Those that it has
// come to may be given back meanwhile.
func (s *slab[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := range s.pages {
			taken := s.pages[n].taken
			if n == 0 {
				taken &^= 1
			}
			for ; taken != 0; taken &= taken - 1 {
				if !yield(&s.pages[n].values[bits.TrailingZeros32(taken)]) {
					return
				}
			}
		}
	}
}
