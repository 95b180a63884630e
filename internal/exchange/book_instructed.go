package exchange

import (
	"fmt"
	"iter"
	"math"
)

// bookMore holds the rarely used state of a book.
type bookMore struct {
	own     []Cancel             // orders canceled by self-trade prevention, see Book.Own
	lineage map[OrderID]*Lineage // by order id, for the orders in memory that are flagged amended
	newest  map[OrderID]OrderID  // maps a chain's first order to its newest, if that is a replacement and in memory
	rules   SymbolRules
}

func (b *Book) getMore() *bookMore {
	if b.more == nil {
		b.more = &bookMore{lineage: make(map[OrderID]*Lineage), newest: make(map[OrderID]OrderID)}
	}
	return b.more
}

// Own returns the orders that self-trade prevention canceled in the last Submit, Replace or Continue: resting
// orders of the incoming order's account, in the order in which they were met. Their Symbol is empty. The slice is
// valid until the next of these calls, which reuses the memory.
func (b *Book) Own() []Cancel {
	if b.more == nil || len(b.more.own) == 0 {
		return nil
	}
	return b.more.own
}

// Last returns the price of the newest trade, 0 before the first.
func (b *Book) Last() Price { return b.last }

// matchInstructed is match for an order with self-trade prevention, or for one that may not rest.
func (b *Book) matchInstructed(o *Order, now int64, fills []Fill, most int) []Fill {
	opposite, full := b.side(o.Side.opposite()), len(fills)+most
	limit := opposite.key(o.Limit)
	for o.Open > 0 && opposite.bestKey >= limit && len(fills)+len(b.Own()) < full {
		i := opposite.best.oldest
		if o.STP == TradeWithSelf || b.orders.at(i).account != o.Account {
			fills = append(fills, Fill{})
			b.fill(o, i, now, &fills[len(fills)-1])
			continue
		}
		if o.STP != CancelNewest {
			b.cancelOwn(i, now)
		}
		if o.STP != CancelOldest {
			o.takeBack(now)
		}
	}
	if o.Open > 0 && !o.mayRest() && opposite.bestKey < limit {
		o.takeBack(now)
	}
	return fills
}

// takeBack cancels the open shares of an incoming order.
func (o *Order) takeBack(now int64) {
	o.Open, o.Canceled, o.CanceledAt, o.AtOnce = 0, o.Open, now, true
}

// cancelOwn cancels a resting order of the incoming order's account and adds it to Own.
func (b *Book) cancelOwn(i slot, now int64) {
	n, m := b.orders.at(i), b.getMore()
	m.own = append(m.own, Cancel{Order: n.id, Terms: n.terms(n.limit), Shares: n.left})
	b.cancel(i, now)
}

// meets ranges over the resting orders that Submit would meet for o, in that order: those that it would fill, and
// those of the same account that self-trade prevention applies to (own is true). The book must not change during
// the iteration.
//
// o is passed by value, so that callers can keep theirs on the stack.
func (b *Book) meets(o Order) iter.Seq2[*node, bool] {
	return func(yield func(n *node, own bool) bool) {
		open, opposite := o.Open, b.side(o.Side.opposite())
		for price, at := range opposite.all() {
			if !o.crosses(price) {
				return
			}
			for n := range b.at(opposite.level(at)) {
				own := o.STP != TradeWithSelf && n.account == o.Account
				if open <= 0 || !yield(n, own) || own && o.STP != CancelOldest {
					return
				}
				if !own {
					open -= n.left
				}
			}
		}
	}
}

// Quote returns what Submit and all its Continue calls would execute for o, without changing anything. Its cost is
// proportional to the number of resting orders that o would meet.
func (b *Book) Quote(o *Order) Quote { return b.quote(o, Cash{}, math.MaxInt) }

// QuoteWithin is Quote for a market buy of an account with this much free cash. After FillsMax orders it stops as
// soon as the cost exceeds the cash: then Quote.Cost is above cash, and Quote.Cut is set.
func (b *Book) QuoteWithin(o *Order, cash Cash) Quote { return b.quote(o, cash, FillsMax) }

// quote is QuoteWithin for any order; it may stop after `beyond` orders.
func (b *Book) quote(o *Order, cash Cash, beyond int) (q Quote) {
	q.Best = b.Best(o.Side.opposite())
	for n, own := range b.meets(*o) {
		if q.Orders++; !own {
			shares := min(o.Open-q.Shares, n.left)
			q.Shares, q.Cost = q.Shares+shares, q.Cost.Add(Notional(shares, n.limit))
		}
		if q.Orders >= beyond && q.Cost.Cmp(cash) > 0 {
			q.Cut = true
			break
		}
	}
	return q
}

// HoldOf returns what o, an unfinished market buy, holds for its further parts: exactly what they will cost. It is
// zero for all other orders.
func (b *Book) HoldOf(o *Order) Cash {
	if o.Open == 0 || !o.marketBuy() {
		return Cash{}
	}
	return b.Quote(o).Cost
}

// Reduce reduces an open order by shares and returns the order, which keeps its place in the queue. If MayCancel
// returns a reason other than OK, Reduce returns that reason and changes nothing. It panics if an order is unfinished,
// or if no open shares would be left.
func (b *Book) Reduce(id OrderID, owner AccountID, shares Shares, now int64) (o Order, r RejectReason) {
	i := b.find(id)
	if r = b.mayCancel(i, owner); r != OK {
		return o, r
	}
	n := b.orders.at(i)
	if b.crossed() || shares <= 0 || shares >= n.left {
		panic(fmt.Sprintf("exchange: order %d reduced by %s, with %s open", id, shares, n.left))
	}
	n.left -= shares
	l := b.lineageOf(n)
	l.Reduced, l.ReducedAt = l.Reduced+shares, now
	b.setLineage(n, &l)
	b.read(i, &o)
	return o, OK
}

// Replace cancels the remainder of the open order o.Lineage.Replaces and submits o in its place, as Submit does. It
// panics if that order is not open.
func (b *Book) Replace(o *Order, now int64, fills []Fill) []Fill {
	return b.replace(o, now, fills, b.index.partFills())
}

// replace is Replace with at most `most` fills.
func (b *Book) replace(o *Order, now int64, fills []Fill, most int) []Fill {
	old := b.find(o.Lineage.Replaces)
	if b.crossed() || b.mayCancel(old, o.Account.ID) != OK || !o.fresh() || o.ID <= b.newest {
		panic(fmt.Sprintf("exchange: order %d replaced by %d out of order or malformed", o.Lineage.Replaces, o.ID))
	}
	b.cancel(old, now)
	n := b.orders.at(old)
	l := b.lineageOf(n)
	l.Replaced = o.ID
	b.setLineage(n, &l)
	return b.submit(o, now, fills, most)
}

// lineageOf returns a copy of an order's lineage; that of an order that was never amended has only First.
func (b *Book) lineageOf(n *node) Lineage {
	if n.has(amended) {
		return *b.more.lineage[n.id]
	}
	return Lineage{First: n.id}
}

// setLineage stores an order's lineage.
func (b *Book) setLineage(n *node, l *Lineage) {
	m := b.getMore()
	n.flags |= amended
	m.lineage[n.id] = l
	if l.Replaces != 0 && l.Replaced == 0 {
		m.newest[l.First] = n.id
	}
}

// dropLineage drops the lineage of an order that is being forgotten.
func (b *Book) dropLineage(id OrderID) {
	m := b.more
	if first := m.lineage[id].First; m.newest[first] == id {
		delete(m.newest, first)
	}
	delete(m.lineage, id)
}

// Newest returns the newest order of the chain that begins with first. It returns first itself if no order in
// memory replaced another one of the chain, or if the newest of them was forgotten.
func (b *Book) Newest(first OrderID) OrderID {
	if b.more != nil {
		if id, found := b.more.newest[first]; found {
			return id
		}
	}
	return first
}

// hasValidLineage reports whether o's lineage is consistent with o.
func (o *Order) hasValidLineage() bool {
	l := o.Lineage
	return l == nil || l.First != 0 && l.First <= o.ID && l.Replaces < o.ID && (l.Replaces == 0) == (l.First == o.ID) &&
		(l.Replaces == 0 || l.First <= l.Replaces) && 0 <= l.Executed && 0 <= l.Reduced &&
		(l.Replaced == 0 || l.Replaced > o.ID)
}

// Rules returns the rules of the symbol.
func (b *Book) Rules() SymbolRules {
	if b.more == nil {
		return SymbolRules{}
	}
	return b.more.rules
}

// SetRules replaces the symbol's rules; they apply to orders submitted from now on.
func (b *Book) SetRules(r SymbolRules) {
	if b.more != nil || r != (SymbolRules{}) {
		b.getMore().rules = r
	}
}

// OffTick returns a resting order whose limit is not a multiple of the tick, and whether there is one. It looks
// at every price level.
func (b *Book) OffTick(tick Price) (o Order, found bool) {
	for _, s := range []Side{Buy, Sell} {
		for price, at := range b.side(s).all() {
			if price%max(tick, 1) != 0 {
				return b.order(b.side(s).level(at).oldest), true
			}
		}
	}
	return Order{}, false
}
