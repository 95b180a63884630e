package exchange

import (
	"fmt"
	"iter"
	"maps"
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
	orders     map[OrderID]*Order
	resting    int
	newest     OrderID // ids within a book rise, so time priority is the order of ids
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{
		bids:   ladder{sign: +1, chunkMax: ladderChunkMax},
		asks:   ladder{sign: -1, chunkMax: ladderChunkMax},
		orders: make(map[OrderID]*Order),
	}
}

// Submit matches o against the resting orders of the other side, best price
// first and at one price oldest first, each at the resting order's limit, and
// lets what remains rest. It appends one Fill for each match to fills and
// returns it. now is the time of the executions, in seconds since the epoch.
//
// The caller has reserved what o could spend (Ledger.Reserve). o.ID is above
// that of every order of this book, o.Open is o.Shares; anything else panics.
// The fills are valid until the next call that changes the book.
func (b *Book) Submit(o *Order, now int64, fills []Fill) []Fill {
	if o.ID <= b.newest || o.Open != o.Shares || o.Shares <= 0 || o.Limit <= 0 {
		panic(fmt.Sprintf("exchange: order %d submitted out of order or malformed", o.ID))
	}
	b.newest = o.ID
	b.orders[o.ID] = o
	opposite := b.side(o.Side.opposite())
	for o.Open > 0 && opposite.best != nil && o.crosses(opposite.best.price) {
		fills = append(fills, b.fill(o, opposite.best.oldest, now))
	}
	if o.Open > 0 {
		b.rest(o)
	}
	return fills
}

// fill executes what o and r have in common at r's limit.
func (b *Book) fill(o, r *Order, now int64) Fill {
	e := Execution{Shares: min(o.Open, r.Open), Price: r.Limit, Time: now}
	o.Open -= e.Shares
	r.Open -= e.Shares
	o.Executions = append(o.Executions, e)
	r.Executions = append(r.Executions, e)
	if r.Open == 0 {
		b.leave(r)
	}
	return Fill{Resting: r.ID, Account: r.Account.ID, Shares: e.Shares, Price: e.Price, resting: r}
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
			for r := lv.oldest; r != nil; r = r.next {
				if open <= 0 || !yield(r) {
					return false
				}
				open -= r.Open
			}
			return true
		})
	}
}

// MayCancel tells whether Cancel would take an order out of the book: OK,
// UnknownOrder, ForeignOrder where the order is not owner's, AlreadyExecuted or
// AlreadyCanceled. UnknownOrder also stands for an order that was forgotten.
func (b *Book) MayCancel(id OrderID, owner AccountID) RejectReason {
	o := b.orders[id]
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
	o := b.orders[id]
	b.leave(o)
	o.Canceled, o.CanceledAt, o.Open = o.Open, now, 0
	return o, OK
}

// Find returns an order, nil where the book never had it or forgot it.
func (b *Book) Find(id OrderID) *Order { return b.orders[id] }

// Forget drops a closed order from memory. It panics when the order is open or
// not there.
func (b *Book) Forget(id OrderID) {
	if o := b.orders[id]; o == nil || o.Open > 0 {
		panic(fmt.Sprintf("exchange: order %d forgotten while it is open or unknown", id))
	}
	delete(b.orders, id)
}

// Restore lets an order that was accepted earlier rest with the open shares and
// executions that it has, without matching it: a book was not crossed when it
// was stored. Orders are restored in order of their ids, before any Submit.
// An error says what does not fit, and then the book is unchanged.
func (b *Book) Restore(o *Order) error {
	if o.ID <= b.newest || o.Open <= 0 || o.Open > o.Shares || o.Limit <= 0 || o.Account == nil {
		return fmt.Errorf("exchange: order %d cannot rest: after order %d, %s of %s open at %s", o.ID, b.newest, o.Open, o.Shares, o.Limit)
	}
	if best := b.side(o.Side.opposite()).best; best != nil && o.crosses(best.price) {
		return fmt.Errorf("exchange: order %d cannot rest at %s: the other side's best price is %s", o.ID, o.Limit, best.price)
	}
	b.newest = o.ID
	b.orders[o.ID] = o
	b.rest(o)
	return nil
}

// Orders ranges over the orders in memory, open and closed, in no order.
func (b *Book) Orders() iter.Seq[*Order] { return maps.Values(b.orders) }

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

// rest adds o to its price level.
func (b *Book) rest(o *Order) {
	b.side(o.Side).at(o.Limit).push(o)
	b.resting++
}

// leave takes o out of its price level.
func (b *Book) leave(o *Order) {
	lv := o.level
	lv.remove(o)
	if lv.oldest == nil {
		b.side(o.Side).drop(lv)
	}
	b.resting--
}

// Check walks the whole book and returns an error that names the first
// invariant that does not hold. It is for tests and for the end of a replay.
func (b *Book) Check() error {
	resting := 0
	for _, s := range []Side{Buy, Sell} {
		n, err := b.checkSide(s)
		if err != nil {
			return err
		}
		resting += n
	}
	if resting != b.resting {
		return fmt.Errorf("exchange: %d orders rest, counted %d", resting, b.resting)
	}
	for id, o := range b.orders {
		executed := Shares(0)
		for _, e := range o.Executions {
			executed += e.Shares
		}
		if o.Shares != o.Open+o.Canceled+executed || (o.Open > 0) != (o.level != nil) || o.Canceled > 0 && o.Open > 0 {
			return fmt.Errorf("exchange: order %d of %s has %s open, %s canceled, %s executed, resting %t", id, o.Shares, o.Open, o.Canceled, executed, o.level != nil)
		}
	}
	if bid, ask := b.Best(Buy), b.Best(Sell); bid != 0 && ask != 0 && bid >= ask {
		return fmt.Errorf("exchange: the book is crossed: bid %s, ask %s", bid, ask)
	}
	return nil
}

// checkSide counts the resting orders of a side and checks their levels.
func (b *Book) checkSide(s Side) (resting int, err error) {
	l := b.side(s)
	levels, before := 0, (*level)(nil)
	l.each(func(lv *level) bool {
		if levels++; levels == 1 && lv != l.best {
			err = fmt.Errorf("exchange: %s level %s is first and not known as the best", s, lv.price)
		}
		if before != nil && l.sign*int64(before.price) <= l.sign*int64(lv.price) {
			err = fmt.Errorf("exchange: %s level %s stands behind %s", s, lv.price, before.price)
		}
		if lv.oldest == nil {
			err = fmt.Errorf("exchange: %s level %s is empty", s, lv.price)
		}
		for o := lv.oldest; o != nil && err == nil; o = o.next {
			resting++
			if o.level != lv || o.Limit != lv.price || o.Side != s || o.prev != nil && o.prev.ID >= o.ID || o.next == nil && lv.last != o || b.orders[o.ID] != o {
				err = fmt.Errorf("exchange: order %d does not belong where it rests, at %s", o.ID, lv.price)
			}
		}
		before = lv
		return err == nil
	})
	if err == nil && (levels != l.levels || levels == 0 && l.best != nil) {
		err = fmt.Errorf("exchange: %d %s levels, counted %d", levels, s, l.levels)
	}
	return resting, err
}
