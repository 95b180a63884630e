package exchange

import "fmt"

// Check walks the whole book and returns an error that names the first violated
// invariant. It is for tests and for the end of a replay.
func (b *Book) Check() error {
	for _, s := range []Side{Buy, Sell} {
		resting, err := b.checkSide(s)
		if err != nil {
			return err
		}
		if counted := b.resting[s&1]; resting != counted {
			return fmt.Errorf("exchange: %d orders rest, counted %d", resting, counted)
		}
	}
	if err := b.checkOrders(); err != nil {
		return err
	}
	return b.checkCrossed()
}

// checkSide checks the price levels of a side and returns how many orders rest on it.
func (b *Book) checkSide(s Side) (resting int, err error) {
	l := b.side(s)
	if err := l.check(); err != nil {
		return 0, fmt.Errorf("exchange: %s side: %w", s, err)
	}
	for price, at := range l.all() {
		lv, older, newest := l.level(at), slot(0), OrderID(0)
		for i := lv.oldest; i != 0; {
			resting++
			n := b.orders.at(i)
			if !b.isLinkedAt(n, i, s, price, at) || n.prev != older || n.id <= newest || n.next == 0 && lv.last != i {
				return resting, fmt.Errorf("exchange: order %d does not belong where it rests, at %s", n.id, price)
			}
			older, newest, i = i, n.id, n.next
		}
	}
	return resting, nil
}

// isLinkedAt reports whether the order at i has this side, price and level, and the index leads to it.
func (b *Book) isLinkedAt(n *node, i slot, s Side, price Price, at slot) bool {
	return n.level == at && n.limit == price && n.side() == s && b.find(n.id) == i
}

// checkOrders checks each order by itself, and the list of closed orders.
func (b *Book) checkOrders() error {
	orders := 0
	for i, n := range b.orders.all() {
		orders++
		o, executed := b.order(i), Shares(0)
		for _, e := range o.Executions {
			executed += e.Shares
		}
		rests, counts := n.level != 0, o.Executed() == executed
		if !counts || rests != (o.Open > 0) || n.has(canceled) && o.Canceled == 0 || b.find(o.ID) != i ||
			!o.hasValidLineage() {
			return fmt.Errorf("exchange: order %d of %s has %s open, %s canceled, %s executed, resting %t",
				o.ID, o.Shares, o.Open, o.Canceled, executed, rests)
		}
	}
	closed, last := 0, slot(0)
	for i := b.oldest; i != 0 && closed <= b.closed; closed++ {
		n := b.orders.at(i)
		if n.open() > 0 {
			return fmt.Errorf("exchange: order %d is open, but in the list of closed orders", n.id)
		}
		last, i = i, n.next
	}
	if closed != b.closed || last != b.latest || closed+b.Resting() != orders {
		return fmt.Errorf("exchange: of %d orders %d rest and %d are closed, counted %d",
			orders, b.Resting(), closed, b.closed)
	}
	return nil
}

// checkCrossed checks that only the newest order crosses, and only if it has executed or has
// canceled orders of its own account. It also checks that every other resting order may rest.
func (b *Book) checkCrossed() error {
	for _, n := range b.orders.all() {
		t := n.terms(n.limit)
		if n.level != 0 && !t.mayRest() && n.id != b.Unfinished() {
			return fmt.Errorf("exchange: order %d rests, %s", n.id, t.words())
		}
	}
	if !b.crossed() {
		return nil
	}
	crossed := fmt.Errorf("exchange: the book is crossed: bid %s, ask %s", b.Best(Buy), b.Best(Sell))
	i := b.find(b.newest)
	if i == 0 {
		return crossed
	}
	n := b.orders.at(i)
	if n.level == 0 || !n.has(executed) && n.terms(n.limit).STP != CancelOldest {
		return crossed
	}
	own, best := b.side(n.side()), b.Best(n.side().opposite())
	for price, at := range own.all() {
		o := Order{Terms: Terms{Side: n.side(), Limit: price}}
		if !o.crosses(best) {
			return nil
		}
		if lv := own.level(at); lv.oldest != i || lv.last != i {
			return crossed
		}
	}
	return nil
}
