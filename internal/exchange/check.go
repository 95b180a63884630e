package exchange

import (
	"fmt"
	"slices"
)

// Check walks the whole book and returns an error that names the first
// invariant that does not hold. It is for tests and for the end of a replay.
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

// checkSide counts the resting orders of a side and checks their levels.
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
			if n.level != at || n.limit != price || n.side != s || n.prev != older || n.id <= newest || n.next == 0 && lv.last != i || b.find(n.id) != i {
				return resting, fmt.Errorf("exchange: order %d does not belong where it rests, at %s", n.id, price)
			}
			older, newest, i = i, n.id, n.next
		}
	}
	return resting, nil
}

// check walks all levels and returns an error that names the first invariant
// that does not hold.
func (l *ladder) check() error {
	levels, idle := 0, 0
	for _, r := range []*run{&l.cents, &l.others} {
		worse, best, bestKey := (*block)(nil), slot(0), int64(noKey)
		for _, chunk := range r.chunks {
			if len(chunk) == 0 || len(chunk) > r.chunkMax {
				return fmt.Errorf("a chunk of %d blocks", len(chunk))
			}
			for _, g := range chunk {
				b := g.block
				if g.key != b.first || b.first < 0 || b.first%(b.tick*blockTicks) != 0 || (b.tick == cent) != (r == &l.cents) ||
					b.worse != worse || worse != nil && (worse.better != b || worse.first >= b.first) || b.used == 0 && !slices.Contains(l.vacant, b) {
					return fmt.Errorf("the block of key %d does not belong where it is", b.first)
				}
				worse = b
				n, without, err := l.checkBlock(b)
				if err != nil {
					return err
				}
				levels, idle = levels+n, idle+without
				if n > 0 {
					bestKey, best = b.last(b.used)
				}
			}
		}
		if worse != nil && worse.better != nil || r.best != best || r.bestKey != bestKey {
			return fmt.Errorf("the best level is that of key %d, known as %d", bestKey, r.bestKey)
		}
	}
	hints := l.hints
	if hints == nil {
		hints = new([blockHints]*block)
	}
	for _, b := range hints {
		if b != nil && b.first < 0 && (b.worse != nil || b.better != nil || b.stretches != [blockStretches]*stretch{}) {
			return fmt.Errorf("a block that was removed keeps others in memory")
		}
	}
	best := &l.cents
	if l.others.bestKey > best.bestKey {
		best = &l.others
	}
	if levels != l.levels || idle != l.idle || best.best != l.bestSlot || best.bestKey != l.bestKey || (best.best == 0) != (l.best == nil) || best.best != 0 && l.best != l.level(best.best) {
		return fmt.Errorf("%d levels and %d idle stretches, counted %d and %d; the best is that of key %d, known as %d", levels, idle, l.levels, l.idle, best.bestKey, l.bestKey)
	}
	return nil
}

// checkBlock counts the levels of a block, and its stretches without any, and checks
// them.
func (l *ladder) checkBlock(b *block) (levels, idle int, err error) {
	for i, s := range b.stretches {
		first := b.first + int64(i)*stretchTicks*b.tick
		if (s != nil && s.used != 0) != (b.used>>i&1 == 1) || s != nil && (s.block != b || int(s.place) != i || s.slot == 0 || l.stretches[s.slot] != s) {
			return 0, 0, fmt.Errorf("the stretch of key %d is not what its block knows of it", first)
		}
		if s == nil {
			continue
		}
		if s.used == 0 {
			idle++
		}
		for place := range s.levels {
			inUse, key := s.used>>place&1 == 1, first+int64(place)*b.tick
			if inUse != (s.levels[place].oldest != 0) || inUse && b.tick != cent && key%cent == 0 {
				return 0, 0, fmt.Errorf("level %s is empty or in the wrong place", l.price(key))
			}
			if inUse {
				levels++
			}
		}
	}
	return levels, idle, nil
}

// checkOrders checks each order alone, and the list of closed ones.
func (b *Book) checkOrders() error {
	orders := 0
	for i, n := range b.orders.all() {
		orders++
		o, executed := b.orders.order(i), Shares(0)
		for _, e := range o.Executions {
			executed += e.Shares
		}
		if o.Shares != o.Open+o.Canceled+executed || (o.Open > 0) != (n.level != 0) || n.canceled && o.Canceled == 0 || b.find(o.ID) != i {
			return fmt.Errorf("exchange: order %d of %s has %s open, %s canceled, %s executed, resting %t", o.ID, o.Shares, o.Open, o.Canceled, executed, n.level != 0)
		}
	}
	closed, last := 0, slot(0)
	for i := b.oldest; i != 0 && closed <= b.closed; closed++ {
		n := b.orders.at(i)
		if n.open() > 0 {
			return fmt.Errorf("exchange: order %d is open and may be forgotten", n.id)
		}
		last, i = i, n.next
	}
	if closed != b.closed || last != b.latest || closed+b.Resting() != orders {
		return fmt.Errorf("exchange: of %d orders %d rest and %d are closed, counted %d", orders, b.Resting(), closed, b.closed)
	}
	return nil
}
