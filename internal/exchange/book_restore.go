package exchange

import (
	"fmt"
	"slices"
)

// Restore adds a copy of an order that was accepted earlier to the resting orders, with its open shares and
// executions and without matching it. Only the newest order may cross, and only if it has executed something or
// may have canceled orders of its own account: then it is unfinished (Unfinished). Orders are restored in order of
// their ids, before any Submit. If the order is inconsistent or does not fit into the book, Restore returns an
// error and leaves the book unchanged.
func (b *Book) Restore(o *Order) error {
	if o.ID <= b.newest || o.Open <= 0 || o.Open > o.Shares || !validOrderUnits(int64(o.Limit)) || o.Account == nil ||
		!o.Terms.check() || o.Executed() < 0 || !o.hasValidLineage() {
		return fmt.Errorf("exchange: order %d cannot rest: after order %d, %s of %s open at %s",
			o.ID, b.newest, o.Open, o.Shares, o.Limit)
	}
	if b.crossed() {
		return fmt.Errorf("exchange: order %d cannot rest: order %d, which is older, is unfinished", o.ID, b.newest)
	}
	best := b.Best(o.Side.opposite())
	crosses := best != 0 && o.crosses(best)
	if !crosses && !o.mayRest() {
		return fmt.Errorf("exchange: order %d cannot rest: it is %s", o.ID, o.words())
	}
	if crosses && o.Executed() == 0 && o.STP != CancelOldest {
		return fmt.Errorf("exchange: order %d cannot rest at %s: the other side's best price is %s", o.ID, o.Limit, best)
	}
	if number, taken := b.index.Book(o.ID); taken {
		return fmt.Errorf("exchange: order %d cannot rest: it exists already, in book %d", o.ID, number)
	}
	b.newest = o.ID
	o.Executions = slices.Clip(o.Executions) // so that appending does not write to the caller's memory
	for i := range o.Executions {
		b.Moment(o.Executions[i].Time)
	}
	i, n := b.enter(o)
	b.index.places.AddOld(uint64(o.ID), b.place(i))
	b.rest(i, n)
	return nil
}
