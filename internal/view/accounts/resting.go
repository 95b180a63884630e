package accounts

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"outcry/internal/exchange"
)

// resting is the orders that rest at a symbol, sorted by priority, and the listeners to them. View.feeding guards it.
//
// An order whose next part is still to come is not in it yet, so that no listener sees a crossed book.
type resting struct {
	audience[*OrdersChange]
	bids, asks ladder
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

// newResting returns the resting orders among the open orders of a symbol.
func newResting(open []*order) *resting {
	slices.SortFunc(open, func(a, b *order) int { return cmp.Compare(a.id, b.id) })
	b := &resting{bids: ladder{up: 1}, asks: ladder{up: -1}}
	for i, o := range open {
		if i == len(open)-1 && b.crosses(o) {
			break // the newest order, of which further parts are still to come
		}
		b.add(o)
	}
	return b
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
	_, opposite := b.side(o.Side)
	n := len(opposite.steps)
	return n > 0 && opposite.steps[n-1].key >= opposite.up*int64(o.Limit)
}

// add adds an order, as the last one at its price.
func (b *resting) add(o *order) {
	l, _ := b.side(o.Side)
	i, found := l.find(o.Limit)
	if !found {
		l.steps = slices.Insert(l.steps, i, step{key: l.up * int64(o.Limit)})
	}
	l.steps[i].orders = append(l.steps[i].orders, RestingOrder{ID: o.id, Price: o.Limit, Shares: o.open})
}

// set updates the open shares of a resting order, and removes it if none are left. ok is false if it does not rest.
func (b *resting) set(o *order) (ok bool) {
	l, _ := b.side(o.Side)
	i, found := l.find(o.Limit)
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

// snapshot returns the orders sorted by priority.
func (l *ladder) snapshot() []RestingOrder {
	n := 0
	for i := range l.steps {
		n += len(l.steps[i].orders)
	}
	all := make([]RestingOrder, 0, n)
	for _, s := range slices.Backward(l.steps) {
		all = append(all, s.orders...)
	}
	return all
}

// change applies what the current record does to a resting order. o is the order after the record.
func (v *View) change(o *order, op OrderOp) error {
	market := &v.markets[o.symbol]
	if b := market.resting; b != nil {
		if !b.set(o) {
			return fmt.Errorf("order %d of %s does not rest", o.id, market.name)
		}
		v.tellOrders(market, op)
	}
	market.changed = v.at
	return nil
}

// rests adds an order that the current record has accepted or continued, if it has open shares and does not cross.
// If it crosses, further parts of it are still to come.
func (v *View) rests(o *order) {
	market := &v.markets[o.symbol]
	b := market.resting
	if o.open == 0 || b != nil && b.crosses(o) {
		return
	}
	if b != nil {
		b.add(o)
		v.tellOrders(market, OrderOp{Kind: OpAdd, Order: o.id, Shares: o.open, Side: o.Side, Price: o.Limit})
	}
	market.changed = v.at
}

// tellOrders adds an op to the current record's change, if the symbol has listeners.
func (v *View) tellOrders(market *symbol, op OrderOp) {
	b := market.resting
	if len(b.readers) == 0 {
		return
	}
	if b.making == nil {
		b.making = &OrdersChange{Symbol: market.name, Prev: market.changed, Seq: v.at, Time: v.event.Time}
		v.resting = append(v.resting, b)
	}
	b.making.Ops = append(b.making.Ops, op)
}

// finishOrders queues the current record's changes for the listeners to orders.
func (v *View) finishOrders() {
	for _, b := range v.resting {
		if b.tell(b.making) {
			v.due = append(v.due, b)
		}
		b.making = nil
	}
	clear(v.resting)
	v.resting = v.resting[:0]
}
