package accounts

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"outcry/internal/exchange"
)

// resting are the orders that rest at a symbol, in their priority, and those who are told what happens to them. It is
// guarded by View.feeding.
//
// An order whose next part is to come does not rest yet: nobody is shown a crossed book.
type resting struct {
	audience[*OrdersChange]
	bids, asks ladder
	until      time.Time     // it is forgotten then if nobody listens
	making     *OrdersChange // of the record at hand, nil if it has changed none
}

// ladder are the orders of one side, best price last: most of what happens happens there. At a price they are by id,
// which is their priority.
type ladder struct {
	up    int64 // 1 for buys, -1 for sells: a better price has the higher key
	steps []step
}

// step are the orders at one price; it is never empty.
type step struct {
	key    int64
	orders []RestingOrder
}

// newResting returns those of some open orders of a symbol that rest.
func newResting(open []*order) *resting {
	slices.SortFunc(open, func(a, b *order) int { return cmp.Compare(a.id, b.id) })
	b := &resting{bids: ladder{up: 1}, asks: ladder{up: -1}}
	for i, o := range open {
		if i == len(open)-1 && b.crosses(o) {
			break // the newest: it is in the middle of its parts
		}
		b.add(o)
	}
	return b
}

// side returns the orders of a side, and those that it trades with.
func (b *resting) side(side exchange.Side) (own, opposite *ladder) {
	if side == exchange.Buy {
		return &b.bids, &b.asks
	}
	return &b.asks, &b.bids
}

// crosses reports whether an order could execute against one that rests.
func (b *resting) crosses(o *order) bool {
	_, opposite := b.side(o.Side)
	n := len(opposite.steps)
	return n > 0 && opposite.steps[n-1].key >= opposite.up*int64(o.Limit)
}

// add adds an order, the last one at its price.
func (b *resting) add(o *order) {
	l, _ := b.side(o.Side)
	i, found := l.find(o.Limit)
	if !found {
		l.steps = slices.Insert(l.steps, i, step{key: l.up * int64(o.Limit)})
	}
	l.steps[i].orders = append(l.steps[i].orders, RestingOrder{ID: o.id, Price: o.Limit, Shares: o.open})
}

// set sets what is open of an order that rests; if that is nothing, it goes. ok is false if it does not rest.
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
	case at == 0: // mostly
		s.orders = s.orders[1:]
	default:
		s.orders = slices.Delete(s.orders, at, at+1)
	}
	return true
}

// find returns where the orders of a price are or belong.
func (l *ladder) find(price exchange.Price) (i int, found bool) {
	key := l.up * int64(price)
	if i = len(l.steps); i == 0 || l.steps[i-1].key < key {
		return i, false
	}
	if i--; l.steps[i].key == key { // the best: mostly
		return i, true
	}
	i = sort.Search(i, func(i int) bool { return l.steps[i].key >= key })
	return i, l.steps[i].key == key
}

// snapshot returns the orders in their priority.
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

// change takes in what the record at hand does to an order that rests, which is as it stands then.
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

// rests takes in that the record at hand leaves an order that came as it stands: it rests if something is open, unless
// it crosses. Then a part of it is to come.
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

// tellOrders enters an op into what the record at hand changes, if anybody listens.
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

// finishOrders has those who listen to orders be told what the record at hand has changed.
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
