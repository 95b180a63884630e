package exchange

import (
	"fmt"
	"iter"
)

// Book is the order book of one symbol. It holds the resting orders, matches
// incoming orders by price and time (docs/PROTOCOL.md, section "Matching"), and
// remembers closed orders until they are forgotten. Not safe for concurrent use.
//
// Invariants: an order either has open shares and rests, or is in the list of
// closed orders; no price level is empty; a level is in order of acceptance; the
// best bid is below the best ask, unless the newest order is unfinished: then that order
// has executed a part and rests at a limit that still crosses. Except an unfinished order,
// only orders that may rest (Terms.TIF) do. Check verifies the invariants.
type Book struct {
	sides      *[2]ladder // bids and asks (see side); &noSides until an order has rested
	orders     slab
	index      *Index // finds orders by id
	number     uint32 // this book's number in the index
	executions executionRoom
	resting    [2]int // number of resting orders of each side, see side
	closed     int
	oldest     slot      // the longest closed order in memory; 0 if none
	latest     slot      // the order that closed last
	newest     OrderID   // highest id seen; ids within a book rise, so time priority is the order of ids
	last       Price     // price of the newest trade, 0 before the first
	more       *bookMore // nil in most books
	time       int64     // time of the newest event, see Moment
	halt       *Halt     // nil while the symbol accepts orders
}

// NewBook returns an empty book with its own index. The books of one exchange share an
// index: they come from State.List or Index.NewBook.
func NewBook() *Book { return new(Index).NewBook() }

// Submit matches o against the resting orders of the other side, best price first and, at one price, oldest first.
// Each match executes at the resting order's limit. The remainder of o rests in the book. Submit appends one Fill for
// each match to fills and returns the slice. now is the time of the executions, in nanoseconds since the epoch.
//
// Submit fills or cancels at most FillsMax orders. If o could meet more, it is left unfinished
// (Unfinished), and Continue must complete it before the book is used for anything else.
//
// If o meets an order of its own account and requests self-trade prevention (Terms.STP), then the resting order is
// canceled (Own), or o stops, or both. The remainder of an order that has stopped or may not rest (Terms.TIF) is
// canceled at once: o.Canceled. The caller has already checked that an FOK can be filled whole and that a post-only
// order does not execute.
//
// The caller has reserved what o could spend (Ledger.Reserve). o.ID is above that of every order of this book, o.Open
// is o.Shares and it has no executions, its limit is valid, and no order is unfinished; otherwise Submit panics. On
// return o is equal to the order in the book.
func (b *Book) Submit(o *Order, now int64, fills []Fill) []Fill {
	return b.submit(o, now, fills, b.index.partFills())
}

// submit is Submit with at most `most` fills.
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

// proceed is Continue with at most `most` fills.
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

// match executes one part of o: it fills or cancels at most `most` orders.
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

// fill executes o against the order that rests at i, for the smaller of their open
// shares and at the resting order's limit, and sets f to the fill.
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

// MayCancel reports whether Cancel would cancel the order. It returns OK,
// UnknownOrder, ForeignOrder if the order is not owner's, AlreadyExecuted or
// AlreadyCanceled. A forgotten order is an UnknownOrder.
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

// Cancel cancels the open shares of an order and returns the order. If MayCancel
// returns another reason than OK, Cancel returns that reason and changes nothing.
// It panics if an order is unfinished.
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

// cancel removes the order at i, which rests, from its price level and marks it canceled.
func (b *Book) cancel(i slot, now int64) {
	n := b.orders.at(i)
	b.leave(n)
	n.flags |= canceled
	n.canceledAt = now
	b.close(i)
}

// Find returns an order. found is false if the book never had it or has forgotten it.
func (b *Book) Find(id OrderID) (o Order, found bool) {
	i := b.find(id)
	if i == 0 {
		return Order{}, false
	}
	return b.order(i), true
}

// Forget drops from memory the order that has been closed the longest, and
// returns its id, or 0 if no order is closed.
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
	b.orders.release(i, n)
	return id
}

// Orders ranges over the orders in memory, open and closed, in no particular order.
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

// OpenOf ranges over the resting orders of an account, in no particular order. It
// looks at every order in memory. The book must not change during the iteration.
func (b *Book) OpenOf(owner *Account) iter.Seq[Order] {
	return func(yield func(Order) bool) {
		for i, n := range b.orders.all() {
			if n.account == owner && n.open() > 0 && !yield(b.order(i)) {
				return
			}
		}
	}
}

// AppendOpenOf is OpenOf in steps. It scans about `most` slots starting at slot `from`,
// appends the ids of the account's resting orders to ids, and returns the slot to
// continue from, or 0 after the last slot. The book may change between two steps: an
// order that rests during the whole scan is found.
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

// Shrink releases the memory that an empty book keeps for future orders. It does
// nothing if the book holds any order, open or closed.
func (b *Book) Shrink() {
	if b.Resting() == 0 && b.closed == 0 {
		b.sides, b.orders, b.executions = &noSides, slab{}, executionRoom{}
		if b.more != nil {
			b.more.own = nil
		}
	}
}

// close appends an order that no longer rests to the list of closed orders.
func (b *Book) close(i slot) {
	if b.latest == 0 {
		b.oldest = i
	} else {
		b.orders.at(b.latest).next = i
	}
	b.latest = i
	b.closed++
}
