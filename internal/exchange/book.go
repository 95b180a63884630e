package exchange

import (
	"fmt"
	"iter"
)

// Book is the order book of one symbol: it holds the resting orders, matches
// what comes in by price and time (docs/PROTOCOL.md, section "Matching"), and
// remembers closed orders until they are forgotten. Not safe for concurrent use.
//
// Invariants: an order rests if and only if it has open shares; no price level
// is empty; a level is in order of acceptance; the best bid is below the best
// ask. Check proves them.
type Book struct {
	bids, asks ladder
	orders     orderTable
	executions executionRoom
	resting    int
	newest     OrderID // ids within a book rise, so time priority is the order of ids
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{
		bids: ladder{sign: +1, chunkMax: ladderChunkMax},
		asks: ladder{sign: -1, chunkMax: ladderChunkMax},
	}
}

// Submit matches o against the resting orders of the other side, best price
// first and at one price oldest first, each at the resting order's limit, and
// lets what remains rest. It appends one Fill for each match to fills and
// returns it. now is the time of the executions, in seconds since the epoch.
//
// The caller has reserved what o could spend (Ledger.Reserve). o.ID is above
// that of every order of this book, o.Open is o.Shares and nothing of it is
// executed; anything else panics. The book keeps a copy of o as it is on return.
// The fills are valid until the next call that changes the book.
func (b *Book) Submit(o *Order, now int64, fills []Fill) []Fill {
	if o.ID <= b.newest || o.Open != o.Shares || o.Shares <= 0 || o.Limit <= 0 || o.Executions != nil {
		panic(fmt.Sprintf("exchange: order %d submitted out of order or malformed", o.ID))
	}
	b.newest = o.ID
	opposite := b.side(o.Side.opposite())
	for o.Open > 0 && opposite.best != nil && o.crosses(opposite.best.price) {
		fills = append(fills, b.fill(o, b.orders.at(opposite.best.oldest), now))
	}
	b.executions.end(o)
	i := b.orders.add(o)
	if o.Open > 0 {
		b.rest(i)
	}
	return fills
}

// fill executes what o and r have in common at r's limit.
func (b *Book) fill(o, r *Order, now int64) Fill {
	e := Execution{Shares: min(o.Open, r.Open), Price: r.Limit, Time: now}
	o.Open -= e.Shares
	r.Open -= e.Shares
	b.executions.add(o, r, e)
	f := Fill{Resting: r.ID, Account: r.Account.ID, Shares: e.Shares, Price: e.Price, Closed: r.Open == 0, owner: r.Account}
	if f.Closed {
		b.leave(r)
	}
	return f
}

// Matches ranges over the resting orders that Submit would fill for o, in that
// order, and changes nothing. The book must not change meanwhile.
func (b *Book) Matches(o *Order) iter.Seq[*Order] {
	return func(yield func(*Order) bool) {
		open := o.Open
		b.side(o.Side.opposite()).each(func(lv *level) bool {
			if !o.crosses(lv.price) {
				return false
			}
			for i := lv.oldest; i != 0; {
				r := b.orders.at(i)
				if open <= 0 || !yield(r) {
					return false
				}
				open -= r.Open
				i = r.next
			}
			return true
		})
	}
}

// MayCancel tells whether Cancel would take an order out of the book: OK,
// UnknownOrder, ForeignOrder where the order is not owner's, AlreadyExecuted or
// AlreadyCanceled. UnknownOrder also stands for an order that was forgotten.
func (b *Book) MayCancel(id OrderID, owner AccountID) RejectReason {
	o := b.Find(id)
	switch {
	case o == nil:
		return UnknownOrder
	case o.Account.ID != owner:
		return ForeignOrder
	case o.Canceled > 0:
		return AlreadyCanceled
	case o.Open == 0:
		return AlreadyExecuted
	}
	return OK
}

// Cancel takes what is open of an order out of the book and returns the order.
// Where MayCancel does not say OK it returns that reason, and nothing changed.
func (b *Book) Cancel(id OrderID, owner AccountID, now int64) (*Order, RejectReason) {
	if r := b.MayCancel(id, owner); r != OK {
		return nil, r
	}
	o := b.Find(id)
	b.leave(o)
	o.Canceled, o.CanceledAt, o.Open = o.Open, now, 0
	return o, OK
}

// Find returns an order, nil where the book never had it or forgot it. It may be
// used until the order is forgotten.
func (b *Book) Find(id OrderID) *Order {
	if i := b.orders.find(id); i != 0 {
		return b.orders.at(i)
	}
	return nil
}

// Forget drops a closed order from memory. It panics when the order is open or
// not there.
func (b *Book) Forget(id OrderID) {
	i := b.orders.find(id)
	if i == 0 || b.orders.at(i).Open > 0 {
		panic(fmt.Sprintf("exchange: order %d forgotten while it is open or unknown", id))
	}
	b.orders.remove(id, i)
}

// Restore lets a copy of an order that was accepted earlier rest with the open
// shares and executions that it has, without matching it: a book was not crossed
// when it was stored. Orders are restored in order of their ids, before any Submit.
// An error says what does not fit, and then the book is unchanged.
func (b *Book) Restore(o *Order) error {
	if o.ID <= b.newest || o.Open <= 0 || o.Open > o.Shares || o.Limit <= 0 || o.Account == nil {
		return fmt.Errorf("exchange: order %d cannot rest: after order %d, %s of %s open at %s", o.ID, b.newest, o.Open, o.Shares, o.Limit)
	}
	if best := b.side(o.Side.opposite()).best; best != nil && o.crosses(best.price) {
		return fmt.Errorf("exchange: order %d cannot rest at %s: the other side's best price is %s", o.ID, o.Limit, best.price)
	}
	b.newest = o.ID
	b.rest(b.orders.add(o))
	return nil
}

// Orders ranges over the orders in memory, open and closed, in no order.
func (b *Book) Orders() iter.Seq[*Order] { return b.orders.all() }

// Resting returns how many orders rest in the book.
func (b *Book) Resting() int { return b.resting }

// Best returns the best price of a side, 0 where nothing rests there.
func (b *Book) Best(s Side) Price {
	if best := b.side(s).best; best != nil {
		return best.price
	}
	return 0
}

func (b *Book) side(s Side) *ladder {
	if s == Buy {
		return &b.bids
	}
	return &b.asks
}

// rest adds an order to its price level, as the newest.
func (b *Book) rest(i slot) {
	o := b.orders.at(i)
	lv := b.side(o.Side).at(o.Limit)
	o.level, o.prev = lv.slot, lv.last
	if lv.last == 0 {
		lv.oldest = i
	} else {
		b.orders.at(lv.last).next = i
	}
	lv.last = i
	b.resting++
}

// leave takes o out of its price level, without a search.
func (b *Book) leave(o *Order) {
	side := b.side(o.Side)
	lv := side.slab.at(o.level)
	if o.prev == 0 {
		lv.oldest = o.next
	} else {
		b.orders.at(o.prev).next = o.next
	}
	if o.next == 0 {
		lv.last = o.prev
	} else {
		b.orders.at(o.next).prev = o.prev
	}
	o.level, o.prev, o.next = 0, 0, 0
	if lv.oldest == 0 {
		side.drop(lv)
	}
	b.resting--
}

// at ranges over the orders of a price level, oldest first.
func (b *Book) at(lv *level) iter.Seq[*Order] {
	return func(yield func(*Order) bool) {
		for i := lv.oldest; i != 0; {
			o := b.orders.at(i)
			i = o.next
			if !yield(o) {
				return
			}
		}
	}
}
