package audit

import (
	"fmt"
	"math"
	"slices"
)

// accept reserves the hold of an order, matches it, and compares the result with its executions in the
// tables.
func (t *truth) accept(o *order, fills []fill) error {
	if o.replaces > 0 {
		if err := t.replace(o); err != nil {
			return err
		}
	}
	t.reserve(o, fills)
	o.open = abs(o.amount)
	t.orders[o.id], t.touched[o.id] = o, true
	t.accepted++
	t.last = o.id
	b := t.books[o.sym]
	if b == nil {
		b = new(book)
		t.books[o.sym] = b
	}
	against := b.side(!o.buys())
	if r := t.head(against, o); r != nil {
		o.best = r.limit
	}
	if o.post == "yes" && len(fills) > 0 {
		return fmt.Errorf("order %d executed at once, which it must not", o.id)
	}
	stopped, err := t.match(against, o, fills)
	if err != nil || o.open == 0 {
		return err
	}
	if stopped || !o.mayRest() {
		if o.tif == "FOK" || o.canceled != o.open || o.canceledSeq < o.seq {
			return fmt.Errorf("order %d (%s) may not rest: %s of it were left, %s canceled", o.id, o.tif, decimal(o.open),
				decimal(o.canceled))
		}
		t.release(o)
		return nil
	}
	if r := t.next(against, o); r != nil {
		return fmt.Errorf("order %d stays open with %s, although order %d is open at a matching price", o.id, decimal(o.open),
			r.id)
	}
	mine := b.side(o.buys())
	at, _ := slices.BinarySearchFunc(*mine, o, better)
	*mine = slices.Insert(*mine, at, o)
	return nil
}

// match replays the executions of an order, and the cancels of self-trade prevention. stopped reports
// whether self-trade prevention stopped the order.
func (t *truth) match(against *[]*order, o *order, fills []fill) (stopped bool, err error) {
	for o.open > 0 && !stopped {
		r := t.next(against, o)
		if r != nil && r.account == o.account && o.stp != "" {
			if stopped, err = t.preventSelfTrade(against, o, r); err != nil {
				return false, err
			}
			continue
		}
		if len(fills) == 0 {
			return false, nil
		}
		f := fills[0]
		fills = fills[1:]
		switch {
		case r == nil:
			return false, fmt.Errorf("order %d executed against %d, but no matching order was open",
				o.id, f.resting)
		case r.id != f.resting || r.limit != f.price || min(o.open, r.open) != f.shares:
			return false, fmt.Errorf(
				"order %d executed %s at %s against %d; by price and time it must be %s at %s against %d",
				o.id, decimal(f.shares), decimal(f.price), f.resting, decimal(min(o.open, r.open)), decimal(r.limit), r.id)
		}
		t.execute(o, r, f)
		if r.open == 0 {
			*against = (*against)[1:]
		}
	}
	if len(fills) > 0 {
		return false, fmt.Errorf("order %d has executions after its end: %+v", o.id, fills)
	}
	return stopped, nil
}

// preventSelfTrade applies o's mode when r, the next order to match, is of the same account. stopped reports
// whether o stops.
func (t *truth) preventSelfTrade(against *[]*order, o, r *order) (stopped bool, err error) {
	if o.stp != "newest" {
		if r.canceled != r.open || r.canceledSeq < o.seq {
			return false, fmt.Errorf("order %d (stp %s) met order %d of its account, of which %s were open and %s canceled",
				o.id, o.stp, r.id, decimal(r.open), decimal(r.canceled))
		}
		t.release(r)
		*against = (*against)[1:]
	}
	return o.stp != "oldest", nil
}

// head returns the best order that was open when o arrived. An order that the executions skip must have been
// canceled before, with all its open shares.
func (t *truth) head(against *[]*order, o *order) *order {
	for len(*against) > 0 {
		r := (*against)[0]
		t.reduce(r, o.seq)
		if r.canceled == 0 || r.canceled != r.open || r.canceledSeq >= o.seq {
			return r
		}
		t.release(r)
		*against = (*against)[1:]
	}
	return nil
}

// next returns the next order that o must execute against, or nil.
func (t *truth) next(against *[]*order, o *order) *order {
	r := t.head(against, o)
	if r == nil || o.buys() && r.limit > o.limit || !o.buys() && r.limit < o.limit {
		return nil
	}
	return r
}

// replace removes the order that o replaces from its book. All its open shares must be canceled in the same record,
// and o must have the same instructions.
func (t *truth) replace(o *order) error {
	old := t.orders[o.replaces]
	if old == nil {
		return fmt.Errorf("order %d replaces order %d, which is not open or not in the tables", o.id, o.replaces)
	}
	t.reduce(old, o.seq)
	if old.open == 0 || old.canceled != old.open || old.canceledSeq != o.seq || old.instructions != o.instructions ||
		old.account != o.account || old.sym != o.sym || old.buys() != o.buys() {
		return fmt.Errorf("order %d replaces order %d, but does not follow from it: %+v, %+v", o.id, old.id, *o, *old)
	}
	t.release(old)
	side := t.books[o.sym].side(o.buys())
	*side = slices.DeleteFunc(*side, func(r *order) bool { return r == old })
	o.before, old.replacedBy = old.before+old.done, o.id
	return nil
}

// reduce applies to an order those of its reductions that precede a journal record.
func (t *truth) reduce(o *order, before int64) {
	for len(o.reduces) > 0 && o.reduces[0].seq < before {
		r := o.reduces[0]
		o.reduces = o.reduces[1:]
		t.free(o, r.reduced)
		o.open -= r.reduced
		o.reduced, o.reducedAt = o.reduced+r.reduced, r.at
		t.touched[o.id] = true
	}
}

// reduceAll applies all remaining reductions, of orders that no later order has met.
func (t *truth) reduceAll() error {
	for _, o := range t.orders {
		t.reduce(o, math.MaxInt64)
		if o.open < 0 {
			return fmt.Errorf("order %d was reduced by %s, more than was open", o.id, decimal(o.reduced))
		}
	}
	return nil
}
