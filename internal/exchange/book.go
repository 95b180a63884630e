package exchange

import (
	"fmt"
	"iter"
)

// Book is the order book of one symbol: it holds the resting orders, matches
// what comes in by price and time (docs/PROTOCOL.md, section "Matching"), and
// remembers closed orders until they are forgotten. Not safe for concurrent use.
//
// Invariants: an order either has open shares and rests, or is in the list of
// closed orders; no price level is empty; a level is in order of acceptance; the
// best bid is below the best ask, unless the newest order is unfinished: it has done
// a part and rests at a limit that still crosses. No other order rests that may not (Terms.TIF).
// Check proves them.
type Book struct {
	sides      *[2]ladder // of bids and asks, see side; noSides until an order rests
	orders     slab
	index      *Index // finds them
	number     uint32 // of the book, in the index
	executions executionRoom
	resting    [2]int // orders of each side, see side
	closed     int
	oldest     slot      // of the closed orders, the one that closed first
	latest     slot      // and the one that closed last
	newest     OrderID   // ids within a book rise, so time priority is the order of ids
	last       Price     // of the newest trade, 0 before the first
	more       *bookMore // nil in most books
	time       int64     // of the newest event, see Moment
	halt       *Halt     // nil while the symbol takes orders
}

// NewBook returns an empty book with an index of its own. Those of one exchange come
// from State.List or Index.NewBook.
func NewBook() *Book { return new(Index).NewBook() }

// Submit matches o against the resting orders of the other side, best price
// first and at one price oldest first, each at the resting order's limit, and
// lets what remains rest. It appends one Fill for each match to fills and
// returns it. now is the time of the executions, in nanoseconds since the epoch.
//
// At most FillsMax orders are filled or canceled. If o could meet more, it is unfinished then
// (Unfinished), and Continue takes it on before anything else is done with the book.
//
// If o meets an order of its own account and says so (Terms.STP), that one is canceled (Own), or o stops, or
// both. What remains of an order that has stopped, or may not rest (Terms.TIF), is taken back at once: o.Canceled.
// That an FOK is filled whole, or a post not at all, the caller has seen to before.
//
// The caller has reserved what o could spend (Ledger.Reserve). o.ID is above
// that of every order of this book, o.Open is o.Shares and nothing of it is
// executed, its limit is one that an order may have, and no order is unfinished;
// anything else panics. On return o is as it stands in the book.
func (b *Book) Submit(o *Order, now int64, fills []Fill) []Fill {
	return b.submit(o, now, fills, b.index.partFills())
}

// submit is Submit, with at most so many fills.
func (b *Book) submit(o *Order, now int64, fills []Fill, most int) []Fill {
	if !o.fresh() || o.ID <= b.newest || b.crossed() {
		panic(fmt.Sprintf("exchange: order %d submitted out of order or malformed", o.ID))
	}
	b.newest = o.ID
	begin := len(fills)
	fills = b.match(o, now, fills, most)
	if len(fills) > begin {
		o.Executions = b.executions.end()
		b.last = fills[len(fills)-1].Price
	}
	o.Taken = Took(len(fills) - begin)
	i, n := b.enter(o)
	b.index.places.Add(uint64(o.ID), b.place(i))
	if o.Open > 0 {
		b.rest(i, n)
	} else {
		b.close(i)
	}
	return fills
}

// proceed is Continue, with at most so many fills.
func (b *Book) proceed(o *Order, now int64, fills []Fill, most int) []Fill {
	i := b.find(b.newest)
	if i == 0 || !b.crossed() {
		panic("exchange: no order is unfinished")
	}
	b.read(i, o)
	begin := len(fills)
	fills = b.match(o, now, fills, most)
	n := b.orders.at(i)
	if len(fills) > begin {
		list := b.orders.executions(i)
		*list = append(*list, b.executions.end()...)
		n.flags |= executed
		o.Executions, b.last = *list, fills[len(fills)-1].Price
	}
	o.Taken = Took(len(o.Executions))
	n.left, n.taken = o.Open, o.Taken
	if o.Open == 0 {
		b.leave(n)
		if o.Canceled > 0 {
			n.takeBack(o)
		}
		b.close(i)
	}
	return fills
}

// match executes one part of o: it fills at most so many orders.
func (b *Book) match(o *Order, now int64, fills []Fill, most int) []Fill {
	if b.more != nil {
		b.more.own = b.more.own[:0]
	}
	if o.STP != TradeWithSelf || o.TIF != GTC {
		return b.matchInstructed(o, now, fills, most)
	}
	opposite, full := b.side(o.Side.opposite()), len(fills)+most
	for limit := opposite.key(o.Limit); o.Open > 0 && opposite.bestKey >= limit && len(fills) < full; {
		fills = append(fills, Fill{})
		b.fill(o, opposite.best.oldest, now, &fills[len(fills)-1])
	}
	return fills
}

// fill executes what o and the order that rests at i have in common, at the
// limit of the latter, and says so in f.
func (b *Book) fill(o *Order, i slot, now int64, f *Fill) {
	r := b.orders.at(i)
	shares := min(o.Open, r.left)
	o.Open -= shares
	r.left -= shares
	list := b.executions.add(Execution{Shares: shares, Price: r.limit, Time: now})
	shareExecution(b.orders.executions(i), !r.has(executed), list, r.left == 0)
	r.flags |= executed
	f.Resting, f.Shares, f.Price, f.Closed = r.id, shares, r.limit, r.left == 0
	f.Account, f.owner = r.account.ID, r.account
	if f.Closed {
		b.leave(r)
		b.close(i)
	}
}

// MayCancel reports whether Cancel would take an order out of the book: OK,
// UnknownOrder, ForeignOrder where the order is not owner's, AlreadyExecuted or
// AlreadyCanceled. UnknownOrder also stands for an order that was forgotten.
func (b *Book) MayCancel(id OrderID, owner AccountID) RejectReason {
	return b.mayCancel(b.find(id), owner)
}

func (b *Book) mayCancel(i slot, owner AccountID) RejectReason {
	if i == 0 {
		return UnknownOrder
	}
	switch n := b.orders.at(i); {
	case n.account.ID != owner:
		return ForeignOrder
	case n.has(canceled):
		return AlreadyCanceled
	case n.left == 0:
		return AlreadyExecuted
	}
	return OK
}

// Cancel takes what is open of an order out of the book and returns the order.
// Where MayCancel does not say OK it returns that reason, and nothing changed. It
// panics if an order is unfinished.
func (b *Book) Cancel(id OrderID, owner AccountID, now int64) (o Order, r RejectReason) {
	i := b.find(id)
	if r = b.mayCancel(i, owner); r != OK {
		return o, r
	}
	if b.crossed() {
		panic(fmt.Sprintf("exchange: order %d canceled while order %d is unfinished", id, b.newest))
	}
	b.cancel(i, now)
	b.read(i, &o)
	return o, OK
}

// cancel takes what is open of the order that rests at i out of the book.
func (b *Book) cancel(i slot, now int64) {
	n := b.orders.at(i)
	b.leave(n)
	n.flags |= canceled
	n.canceledAt = now
	b.close(i)
}

// Find returns an order. found is false where the book never had it or forgot it.
func (b *Book) Find(id OrderID) (o Order, found bool) {
	i := b.find(id)
	if i == 0 {
		return Order{}, false
	}
	return b.order(i), true
}

// Forget drops from memory the order that has been closed the longest, and
// returns its id: 0 where no order is closed.
func (b *Book) Forget() OrderID {
	i := b.oldest
	if i == 0 {
		return 0
	}
	n := b.orders.at(i)
	id := n.id
	b.closed--
	if b.oldest = n.next; b.oldest == 0 {
		b.latest = 0
	}
	b.index.places.Remove(uint64(id), b.place(i))
	if n.has(amended) {
		b.dropLineage(id)
	}
	b.orders.give(i, n)
	return id
}

// Orders ranges over the orders in memory, open and closed, in no order.
func (b *Book) Orders() iter.Seq[Order] {
	return func(yield func(Order) bool) {
		for i := range b.orders.all() {
			if !yield(b.order(i)) {
				return
			}
		}
	}
}

// Resting returns how many orders rest in the book.
func (b *Book) Resting() int { return b.resting[0] + b.resting[1] }

// Closed returns how many closed orders the book has not forgotten.
func (b *Book) Closed() int { return b.closed }

// OpenOf ranges over the orders of an account that rest in the book, in no order. It
// looks at every order in memory. The book must not change meanwhile.
func (b *Book) OpenOf(owner *Account) iter.Seq[Order] {
	return func(yield func(Order) bool) {
		for i, n := range b.orders.all() {
			if n.account == owner && n.open() > 0 && !yield(b.order(i)) {
				return
			}
		}
	}
}

// AppendOpenOf is OpenOf in steps: it looks at up to so many places for orders, from a
// place on, appends the ids of those that are the account's and rest, and returns the
// place to go on with, 0 after the last one. The book may change between two steps: an
// order that rests all the while is found.
func (b *Book) AppendOpenOf(ids []OrderID, owner *Account, from, most int) (_ []OrderID, next int) {
	pages := b.orders.pages
	for at := from / slabPage; at < len(pages); at++ {
		if at*slabPage >= from+most {
			return ids, at * slabPage
		}
		if pages[at] == nil {
			continue
		}
		for i := range pages[at].nodes {
			if n := &pages[at].nodes[i]; n.id != 0 && n.account == owner && n.open() > 0 {
				ids = append(ids, n.id)
			}
		}
	}
	return ids, 0
}

// Shrink gives up the memory that the book keeps for orders to come, where it holds no
// order at all. Everything goes on as before.
func (b *Book) Shrink() {
	if b.Resting() == 0 && b.closed == 0 {
		b.sides, b.orders, b.executions = &noSides, slab{}, executionRoom{}
		if b.more != nil {
			b.more.own = nil
		}
	}
}

// close adds an order that does not rest to those that may be forgotten.
func (b *Book) close(i slot) {
	if b.latest == 0 {
		b.oldest = i
	} else {
		b.orders.at(b.latest).next = i
	}
	b.latest = i
	b.closed++
}
