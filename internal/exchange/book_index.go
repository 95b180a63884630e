package exchange

import "outcry/internal/exchange/idmap"

// Index finds orders by id: it maps an id to the order's book and to its slot there.
// Each book adds and removes its own orders, so all books of an exchange share one
// index. Book may be called from any goroutine, NewBook from one at a time. The zero
// Index is empty.
//
// Invariant: it holds every order in the books, and nothing else.
type Index struct {
	places idmap.Map // place, by order id
	books  uint32    // number of books

	// FillsMax is how many orders one part of an order fills in these books; 0 means the
	// constant FillsMax. It must be set before the first order. Only tests set it below
	// PartFillsMin; a replay then needs the same value.
	FillsMax int
}

// place locates an order: its book's number × 2^32 + its slot, which is not 0.
type place = uint64

// NewBook returns an empty book that registers its orders in this index.
func (x *Index) NewBook() *Book {
	b := &Book{index: x, number: x.books, sides: &noSides}
	x.books++
	return b
}

// Books returns how many books were made. They are numbered from 0.
func (x *Index) Books() int { return int(x.books) }

// Book returns the number of the book that holds an order, and whether there is one.
// An order is found from the Submit or Restore that adds it to its book until the
// Forget that drops it.
func (x *Index) Book(id OrderID) (number int, found bool) {
	p := x.places.Find(uint64(id))
	return int(p >> 32), p != 0
}

// Number returns the book's number in its index.
func (b *Book) Number() int { return int(b.number) }

func (b *Book) place(i slot) place { return place(b.number)<<32 | place(i) }

// len counts the orders in the index. No book may change during the call.
func (x *Index) len() int {
	n := 0
	for range x.places.All() {
		n++
	}
	return n
}

// find returns an order's slot, or 0 if the order is not in this book.
func (b *Book) find(id OrderID) slot {
	if p := b.index.places.Find(uint64(id)); uint32(p>>32) == b.number {
		return slot(p)
	}
	return 0
}
