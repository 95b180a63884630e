package accounts

import "math/bits"

// slabPage is the number of values in a page of a slab. A page of orders fills a size class of the allocator.
const slabPage = 256

// fullPage is slab.taken of a page without a free place.
var fullPage = [slabPage / 64]uint64{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}

// place locates a value in a slab; 0 means none.
type place uint32

// slab holds values, which do not move, so that lists can link them by their places. A slab of values without
// pointers costs the garbage collector nothing. The lowest free place is used first, and empty pages at the end are
// given up. The zero value is empty.
type slab[T any] struct {
	pages []*[slabPage]T
	taken [][slabPage / 64]uint64 // one bit for each value of a page
	room  []uint64                // one bit for each page: whether it has a free place
	low   int                     // room has no bit set before room[low]
	used  int                     // number of values
}

// at returns the value at a place in use.
func (s *slab[T]) at(p place) *T { return &s.pages[(p-1)/slabPage][(p-1)%slabPage] }

// add returns a free place and its value, which is zero or an old one.
func (s *slab[T]) add() (place, *T) {
	for s.low < len(s.room) && s.room[s.low] == 0 {
		s.low++
	}
	if s.low == len(s.room) {
		s.addPage()
	}
	n := s.low*64 + bits.TrailingZeros64(s.room[s.low])
	s.used++
	taken, i := &s.taken[n], 0
	for taken[i/64] == 1<<64-1 {
		i += 64
	}
	i += bits.TrailingZeros64(^taken[i/64])
	if taken[i/64] |= 1 << (i % 64); *taken == fullPage {
		s.room[n/64] &^= 1 << (n % 64)
	}
	return place(n*slabPage + i + 1), &s.pages[n][i]
}

// addPage adds an empty page.
func (s *slab[T]) addPage() {
	n := len(s.pages)
	s.pages, s.taken = append(s.pages, new([slabPage]T)), append(s.taken, [slabPage / 64]uint64{})
	if s.low = n / 64; s.low == len(s.room) {
		s.room = append(s.room, 0)
	}
	s.room[s.low] |= 1 << (n % 64)
}

// remove frees a place.
func (s *slab[T]) remove(p place) {
	n, i := int(p-1)/slabPage, (p-1)%slabPage
	s.taken[n][i/64] &^= 1 << (i % 64)
	s.room[n/64] |= 1 << (n % 64)
	s.low = min(s.low, n/64)
	s.used--
	for last := len(s.pages) - 1; last*slabPage >= s.used+slabPage && s.taken[last] == [slabPage / 64]uint64{}; last-- {
		s.pages[last] = nil
		s.pages, s.taken = s.pages[:last], s.taken[:last]
		s.room[last/64] &^= 1 << (last % 64)
		s.room = s.room[:(last+63)/64]
		s.low = min(s.low, len(s.room))
	}
}

// sparse returns the place of a value that should move to a different place, because most places are free; 0 if none
// should.
func (s *slab[T]) sparse() place {
	if len(s.pages)*slabPage < 2*s.used+2*slabPage {
		return 0
	}
	last := len(s.pages) - 1
	for i, word := range s.taken[last] {
		if word != 0 {
			return place(last*slabPage + i*64 + bits.TrailingZeros64(word) + 1)
		}
	}
	return 0
}
