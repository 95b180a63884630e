package exchange

import "fmt"

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
	for o := range b.Orders() {
		executed := Shares(0)
		for _, e := range o.Executions {
			executed += e.Shares
		}
		if o.Shares != o.Open+o.Canceled+executed || (o.Open > 0) != (o.level != 0) || o.Canceled > 0 && o.Open > 0 {
			return fmt.Errorf("exchange: order %d of %s has %s open, %s canceled, %s executed, resting %t", o.ID, o.Shares, o.Open, o.Canceled, executed, o.level != 0)
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
		if lv.oldest == 0 {
			err = fmt.Errorf("exchange: %s level %s is empty", s, lv.price)
		}
		older, newest := slot(0), OrderID(0)
		for i := lv.oldest; i != 0 && err == nil; {
			resting++
			o := b.orders.at(i)
			if o.level != lv.slot || o.Limit != lv.price || o.Side != s || o.prev != older || o.ID <= newest || o.next == 0 && lv.last != i || b.orders.find(o.ID) != i {
				err = fmt.Errorf("exchange: order %d does not belong where it rests, at %s", o.ID, lv.price)
			}
			older, newest, i = i, o.ID, o.next
		}
		before = lv
		return err == nil
	})
	if err == nil && (levels != l.levels || levels == 0 && l.best != nil) {
		err = fmt.Errorf("exchange: %d %s levels, counted %d", levels, s, l.levels)
	}
	return resting, err
}
