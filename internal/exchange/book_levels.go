package exchange

import "iter"

// This file connects a book's orders with its price levels. To understand what a book does
// you need neither this file nor the layers below it: the ladder of levels (book_ladder*.go),
// the slab of orders (book_slab.go, book_node.go) and the index of ids (book_index.go).

// noSides is shared by all books in which no order has ever rested. It is never written to.
var noSides = *newSides(0)

func newSides(chunkMax int) *[2]ladder {
	s := new([2]ladder)
	s[Buy&1], s[Sell&1] = newLadder(Buy, chunkMax), newLadder(Sell, chunkMax)
	return s
}

// side returns the levels of a side. It has no branch, because the side of the next order is unpredictable.
func (b *Book) side(s Side) *ladder { return &b.sides[s&1] }

// rest appends the order n at slot i to its price level, as the newest.
//
// In rest and leave, a write to a missing neighbour goes to node 0: whether there is a
// neighbour is unpredictable, so a branch would cost more.
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

// leave removes an order from its price level, without a search.
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
// The book must not change during the iteration.
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
// order. The book must not change during the iteration.
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

// Best returns the best price of a side, or 0 if no order rests there.
func (b *Book) Best(s Side) Price {
	if l := b.side(s); l.best != nil {
		return l.price(l.bestKey)
	}
	return 0
}

// crossed reports whether the best bid is at or above the best ask. It adds the best keys
// of both sides, which needs no branch: the key of an ask is orderUnitsMax minus its price.
func (b *Book) crossed() bool {
	return uint64(b.sides[0].bestKey)+uint64(b.sides[1].bestKey) >= orderUnitsMax
}
