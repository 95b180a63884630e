package accounts

import (
	"slices"
	"sort"
	"time"

	"outcry/internal/exchange"
)

// OrdersChange has the changes of one record to the resting orders of a symbol.
type OrdersChange struct {
	Symbol    exchange.Symbol
	Prev, Seq uint64    // seq of the previous record that changed the symbol's orders, and of this one
	Time      int64     // nanoseconds since the Unix epoch
	Ops       []OrderOp // in the order to apply them: replace, then fills, deletes and reductions, then add
}

// OrderOp is one change of a resting order, without its owner.
type OrderOp struct {
	Kind   OrderOpKind
	Order  exchange.OrderID
	By     exchange.OrderID // for OpReplace: the new order, which a later OpAdd adds if it rests
	Trade  uint64           // for OpFill: the symbol's trade number
	Shares exchange.Shares  // for OpFill, OpReduce and OpAdd
	Open   exchange.Shares  // open shares after an OpFill or OpReduce; 0 if the order has left the book
	Side   exchange.Side    // for OpAdd
	Price  exchange.Price   // for OpAdd
}

// OrderOpKind is the kind of an OrderOp.
type OrderOpKind uint8

// The kinds of changes.
const (
	OpReplace OrderOpKind = iota + 1 // the order leaves the book because another one replaces it
	OpFill                           // Shares of the order were executed
	OpDelete                         // the order was canceled
	OpReduce                         // the order was reduced by Shares, and keeps its place
	OpAdd                            // the order is new, and last at its price
)

// String returns the kind's name for messages.
func (k OrderOpKind) String() string {
	return [...]string{"", "replace", "fill", "delete", "reduce", "add"}[k]
}

// RestingOrder is an order in an OrdersSnapshot. The orders are sorted by priority: best price first, and by id at one
// price.
type RestingOrder struct {
	ID     exchange.OrderID
	Price  exchange.Price
	Shares exchange.Shares
}

// resting has the resting orders of a symbol, sorted by priority, and their listeners. View.feeding guards it.
//
// An order whose next part is still to come is not included yet, so that no listener sees a crossed book.
type resting struct {
	audience[*OrdersChange]
	bids, asks ladder
	next       place         // oldest order that is not gathered yet; 0 once all are
	until      time.Time     // the orders are dropped at this time if there are no listeners
	making     *OrdersChange // change by the current record, nil if it has changed no order here
}

// ladder is the orders of one side, best price last, because most changes are at the best price. At one price the
// orders are sorted by id, which is their priority.
type ladder struct {
	up    int64 // 1 for buys, -1 for sells, so that a better price has a higher key
	steps []step
}

// step is the orders at one price; it is never empty.
type step struct {
	key    int64
	orders []RestingOrder
}

// newResting returns the resting orders of a symbol, of which none is gathered yet.
func newResting(open *queue) *resting {
	return &resting{bids: ladder{up: 1}, asks: ladder{up: -1}, next: open.oldest, until: time.Now().Add(watchedFor)}
}

// gather adds up to most of the orders that are not gathered yet, oldest first.
func (b *resting) gather(all *openOrders, most int) {
	for ; b.next != 0 && most > 0; most-- {
		o := all.at(b.next)
		if b.next = o.newer; b.next != 0 || !b.crosses(o) { // further parts of an order that crosses are still to come
			b.add(o)
		}
	}
}

// gathered reports whether an order that rests is among the gathered ones.
func (b *resting) gathered(all *openOrders, o *order) bool {
	return b.next == 0 || o.id < all.at(b.next).id
}

// side returns the orders of a side, and those of the opposite side.
func (b *resting) side(side exchange.Side) (own, opposite *ladder) {
	if side == exchange.Buy {
		return &b.bids, &b.asks
	}
	return &b.asks, &b.bids
}

// crosses reports whether an order could execute against a resting one.
func (b *resting) crosses(o *order) bool {
	_, opposite := b.side(o.side())
	n := len(opposite.steps)
	return n > 0 && opposite.steps[n-1].key >= opposite.up*int64(o.limit)
}

// add adds an order, as the last one at its price.
func (b *resting) add(o *order) {
	l, _ := b.side(o.side())
	i, found := l.find(o.limit)
	if !found {
		l.steps = slices.Insert(l.steps, i, step{key: l.up * int64(o.limit)})
	}
	l.steps[i].orders = append(l.steps[i].orders, RestingOrder{ID: o.id, Price: o.limit, Shares: o.open})
}

// set updates the open shares of a resting order, and removes it if none are left. ok is false if it does not rest.
func (b *resting) set(o *order) (ok bool) {
	l, _ := b.side(o.side())
	i, found := l.find(o.limit)
	if !found {
		return false
	}
	s := &l.steps[i]
	at := sort.Search(len(s.orders), func(i int) bool { return s.orders[i].ID >= o.id })
	switch {
	case at == len(s.orders) || s.orders[at].ID != o.id:
		return false
	case o.open > 0:
		s.orders[at].Shares = o.open
	case len(s.orders) == 1:
		l.steps = slices.Delete(l.steps, i, i+1)
	case at == 0: // the usual case
		s.orders = s.orders[1:]
	default:
		s.orders = slices.Delete(s.orders, at, at+1)
	}
	return true
}

// find returns the index of a price's step, or where to insert it.
func (l *ladder) find(price exchange.Price) (i int, found bool) {
	key := l.up * int64(price)
	if i = len(l.steps); i == 0 || l.steps[i-1].key < key {
		return i, false
	}
	if i--; l.steps[i].key == key { // the best price is the usual case
		return i, true
	}
	i = sort.Search(i, func(i int) bool { return l.steps[i].key >= key })
	return i, l.steps[i].key == key
}
