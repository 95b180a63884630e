package exchange

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// bareBook is a minimal order book, to measure the lower bound of a flow's cost. Its price
// levels are in one preallocated array, its orders in another, and a third maps ids to
// orders. It makes no fills and no executions, checks nothing, and keeps no closed
// orders.
type bareBook struct {
	sides [2]bareSide
	nodes []bareNode
	free  []slot
	ids   []slot
}

type bareNode struct {
	left, shares int64
	prev, next   slot
	key          int32
	account      uint16
	side         uint8
}

// bareSide has a level for each of bareTicks prices. used has a bit for each level in use,
// and upper a bit for each word of used that is not 0.
type bareSide struct {
	levels      []level
	used, upper []uint64
	best        int32 // key of the best level, -1 if there is none
}

const (
	bareTicks = 1 << 18
	bareFirst = 1_000_000 - bareTicks/2 // lowest price, in ticks
)

func newBareBook(f *flow) *bareBook {
	b := &bareBook{nodes: make([]bareNode, 1, 1<<16), ids: make([]slot, len(f.begin)+len(f.steps)+1)}
	for i := range b.sides {
		b.sides[i] = bareSide{make([]level, bareTicks), make([]uint64, bareTicks/64), make([]uint64, bareTicks/4096), -1}
	}
	for i := range f.begin {
		b.run(&f.begin[i])
	}
	return b
}

// run executes a step and returns how many orders it filled.
func (b *bareBook) run(s *step) (fills int) {
	if s.cancel {
		i := b.ids[s.order]
		if n := &b.nodes[i]; n.account == s.account {
			b.leave(n, i)
		}
		return 0
	}
	key, against, shares := s.limit-bareFirst, bareTicks-1-(s.limit-bareFirst), int64(s.shares)
	if s.side == Sell {
		key, against = against, key
	}
	opposite := &b.sides[s.side.opposite()&1]
	for shares > 0 && opposite.best >= against {
		i := opposite.levels[opposite.best].oldest
		n := &b.nodes[i]
		taken := min(n.left, shares)
		n.left -= taken
		shares -= taken
		fills++
		if n.left == 0 {
			b.leave(n, i)
		}
	}
	if shares > 0 {
		b.rest(s, key, shares)
	}
	return fills
}

func (b *bareBook) rest(s *step, key int32, shares int64) {
	i := slot(len(b.nodes))
	if n := len(b.free); n > 0 {
		i, b.free = b.free[n-1], b.free[:n-1]
	} else {
		b.nodes = append(b.nodes, bareNode{})
	}
	b.ids[s.order] = i
	side := &b.sides[s.side&1]
	lv := &side.levels[key]
	b.nodes[i] = bareNode{left: shares, shares: int64(s.shares), prev: lv.last, key: key, account: s.account,
		side: uint8(s.side & 1)}
	b.nodes[lv.last].next = i
	if lv.oldest == 0 {
		lv.oldest = i
		side.used[key>>6] |= 1 << (key & 63)
		side.upper[key>>12] |= 1 << (key >> 6 & 63)
		side.best = max(side.best, key)
	}
	lv.last = i
}

func (b *bareBook) leave(n *bareNode, i slot) {
	side := &b.sides[n.side]
	lv := &side.levels[n.key]
	b.nodes[n.prev].next = n.next
	b.nodes[n.next].prev = n.prev
	if n.prev == 0 {
		lv.oldest = n.next
	}
	if n.next == 0 {
		lv.last = n.prev
	}
	if lv.oldest == 0 {
		side.drop(n.key)
	}
	b.free = append(b.free, i)
}

func (s *bareSide) drop(key int32) {
	if s.used[key>>6] &^= 1 << (key & 63); s.used[key>>6] == 0 {
		s.upper[key>>12] &^= 1 << (key >> 6 & 63)
	}
	if key != s.best {
		return
	}
	for i := key >> 12; i >= 0; i-- {
		if s.upper[i] != 0 { // no level above the best is in use
			word := i<<6 + int32(bits.Len64(s.upper[i])) - 1
			s.best = word<<6 + int32(bits.Len64(s.used[word])) - 1
			return
		}
	}
	s.best = -1
}

// TestBareBookFillsWhatABookFills checks that the benchmarks of both books measure the same fills.
func TestBareBookFillsWhatABookFills(t *testing.T) {
	f := newFlow(spreads[0].ticks)
	path, bare := newOrderPath(f), newBareBook(f)
	for i := range f.steps[:budget.Of(100_000)] {
		s := &f.steps[i]
		path.fills = path.fills[:0]
		path.run(s)
		if n := bare.run(s); n != len(path.fills) {
			t.Fatalf("step %d: %d fills, of a book %d", i, n, len(path.fills))
		}
	}
	require.Equal(t, path.book.Resting(), len(bare.nodes)-1-len(bare.free))
}
