package exchange

import "outcry/internal/exchange/idmap"

// Index finds the orders that books hold by their ids: it leads to an order's book
// and to its slot there. Each book enters and removes its own, so that all books of
// an exchange need one index. Book may be called from any goroutine, NewBook from one
// at a time. The zero Index is empty.
//
// Invariant: it leads to every order in the books, and to nothing else.
type Index struct {
	places idmap.Map // place, by order id
	books  uint32    // how many there are

	// FillsMax is how many orders a part of an order fills in these books; 0 means the
	// constant FillsMax. It is set before any order comes. Only tests have one below
	// PartFillsMin, and a replay needs the same one then.
	FillsMax int
}

// place says where an order is: its book's number × 2^32 + its slot, which is not 0.
type place = uint64

// NewBook returns an empty book that enters its orders here.
func (x *Index) NewBook() *Book {
	b := &Book{index: x, number: x.books, sides: &noSides}
	x.books++
	return b
}

// Books returns how many books were made: they are numbered from 0.
func (x *Index) Books() int { return int(x.books) }

// Book returns the number of the book that holds an order. found is false where none
// does. An order is found from the Submit or Restore that takes it into its book
// until the Forget that drops it.
func (x *Index) Book(id OrderID) (number int, found bool) {
	p := x.places.Find(uint64(id))
	return int(p >> 32), p != 0
}

// Number returns the book's number in its index.
func (b *Book) Number() int { return int(b.number) }

func (b *Book) place(i slot) place { return place(b.number)<<32 | place(i) }

// len counts the orders that the index leads to. No book changes meanwhile.
func (x *Index) len() int {
	n := 0
	for range x.places.All() {
		n++
	}
	return n
}

// find returns an order's slot, 0 where it is not in this book.
func (b *Book) find(id OrderID) slot {
	if p := b.index.places.Find(uint64(id)); uint32(p>>32) == b.number {
		return slot(p)
	}
	return 0
}
