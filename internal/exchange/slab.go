package exchange

import (
	"iter"
	"math"
	"math/bits"
)

// slot names a value of a slab. 0 is none.
type slot uint32

// slabPage is how many values a page of a slab holds: so few that a symbol
// without much trade takes little memory.
const slabPage = 32

// recentMax is how many slots a slab keeps ready to be taken.
const recentMax = 64

// slab holds values that never move and are reached by their slot without a
// search. Slots that were given back are used again before the slab grows, first
// the last ones, which are still in the processor's caches; a page of which no slot
// is taken goes back to the garbage collector. A slot refers to a value without
// being a pointer, which the collector would have to follow. The zero slab is
// empty. Slot 0 has a value too, once there are others: it stands for what is not
// there, and may be written to.
//
// Invariants: a bit of taken is set where a slot is in use, in recent, or 0;
// partly lists the pages that have another slot, each once.
type slab[T any] struct {
	pages  []page[T]
	partly []uint32
	recent []slot // were given back, the last at the end
}

type page[T any] struct {
	values *[slabPage]T
	taken  uint32 // one bit a slot
}

// at returns the value of a slot that is taken.
func (s *slab[T]) at(i slot) *T { return &s.pages[i/slabPage].values[i%slabPage] }

// take returns a slot that was free, with a zero value.
func (s *slab[T]) take() slot {
	if n := len(s.recent); n > 0 {
		i := s.recent[n-1]
		s.recent = s.recent[:n-1]
		return i
	}
	return s.takeFromPage()
}

func (s *slab[T]) takeFromPage() slot {
	if len(s.partly) == 0 {
		s.partly = append(s.partly, uint32(len(s.pages)))
		s.pages = append(s.pages, page[T]{})
		s.pages[0].taken |= 1
	}
	n := s.partly[len(s.partly)-1]
	p := &s.pages[n]
	if p.values == nil {
		p.values = new([slabPage]T)
	}
	i := bits.TrailingZeros32(^p.taken)
	p.taken |= 1 << i
	if p.taken == math.MaxUint32 {
		s.partly = s.partly[:len(s.partly)-1]
	}
	return slot(n*slabPage + uint32(i))
}

// give takes a slot back. Its value must not be used any more.
func (s *slab[T]) give(i slot) {
	var zero T
	*s.at(i) = zero
	if len(s.recent) < recentMax {
		s.recent = append(s.recent, i)
		return
	}
	n := uint32(i) / slabPage
	p := &s.pages[n]
	if p.taken == math.MaxUint32 {
		s.partly = append(s.partly, n)
	}
	if p.taken &^= 1 << (i % slabPage); p.taken == 0 {
		p.values = nil
	}
}

// all ranges over the values, in the order of their slots, and over zero values of
// recent slots. Those that it has come to may be given back meanwhile.
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
