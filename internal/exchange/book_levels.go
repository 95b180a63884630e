package exchange

import "iter"

// Here a book's orders and its price levels meet. Who reads only what a book does needs
// neither this file nor those behind it: the ladder of levels (book_ladder*.go), the slab
// of orders (book_slab.go, book_node.go) and the index of ids (book_index.go).

// noSides are those of every book in which no order ever rested. Nobody writes to them.
var noSides = *newSides(0)

func newSides(chunkMax int) *[2]ladder {
	s := new([2]ladder)
	s[Buy&1], s[Sell&1] = newLadder(Buy, chunkMax), newLadder(Sell, chunkMax)
	return s
}

// side returns the levels of a side. Which side comes next is anyone's guess, so
// there is no branch for it.
func (b *Book) side(s Side) *ladder { return &b.sides[s&1] }

// rest adds n, which is at i, to its price level, as the newest.
//
// Here and in leave, node 0 takes what would be written into a neighbour that is
// not there: whether there is one cannot be foreseen, so a branch would cost more.
func (b *Book) rest(i slot, n *node) {
	if b.sides == &noSides {
		b.sides = newSides(ladderChunkMax)
	}
	at, lv := b.side(n.side()).at(n.limit)
	n.level, n.prev = at, lv.last
	b.orders.at(lv.last).next = i
	oldest := lv.oldest
	if oldest == 0 {
		oldest = i
	}
	lv.oldest, lv.last = oldest, i
	b.resting[n.side()&1]++
}

// leave takes an order out of its price level, without a search.
func (b *Book) leave(n *node) {
	side := b.side(n.side())
	lv := side.level(n.level)
	b.orders.at(n.prev).next = n.next
	b.orders.at(n.next).prev = n.prev
	oldest, last := lv.oldest, lv.last
	if n.prev == 0 {
		oldest = n.next
	}
	if n.next == 0 {
		last = n.prev
	}
	lv.oldest, lv.last = oldest, last
	if oldest == 0 {
		side.drop(n.level)
	}
	n.level, n.prev, n.next = 0, 0, 0
	b.resting[n.side()&1]--
}

// at ranges over the orders of a price level, oldest first.
func (b *Book) at(lv *level) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for i := lv.oldest; i != 0; {
			n := b.orders.at(i)
			i = n.next
			if !yield(n) {
				return
			}
		}
	}
}

// inOrder ranges over the resting orders of a side in the order in which they would execute.
// The book must not change meanwhile.
func (b *Book) inOrder(s Side) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		side := b.side(s)
		for _, at := range side.all() {
			for n := range b.at(side.level(at)) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// matches ranges over the resting orders that Submit would fill for o, in that
// order. The book must not change meanwhile.
func (b *Book) matches(o *Order) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		open, opposite := o.Open, b.side(o.Side.opposite())
		for price, at := range opposite.all() {
			if !o.crosses(price) {
				return
			}
			for n := range b.at(opposite.level(at)) {
				if open <= 0 || !yield(n) {
					return
				}
				open -= n.left
			}
		}
	}
}

// Best returns the best price of a side, 0 where nothing rests there.
func (b *Book) Best(s Side) Price {
	if l := b.side(s); l.best != nil {
		return l.price(l.bestKey)
	}
	return 0
}

// crossed reports whether the best bid is at or above the best ask. It adds the two
// keys, that of an ask being orderUnitsMax less its price, and needs no branch.
func (b *Book) crossed() bool {
	return uint64(b.sides[0].bestKey)+uint64(b.sides[1].bestKey) >= orderUnitsMax
}
