package accounts

import (
	"cmp"
	"runtime"
	"slices"

	"outcry/internal/exchange"
)

// partMax is how many orders are gathered or copied for a new listener while the view waits. Records are applied
// between two parts.
const partMax = 1000

// copied is a copy of the open orders of an account, made in parts while records change them.
type copied struct {
	orders []exchange.OrderDetail // sorted by id, as of the records at which their parts were copied
	last   exchange.OrderID       // orders up to this id are copied
}

// copyInParts returns the state of an account with very many orders, as of one record. r is a reader that waits, and
// has the later events when copyInParts returns. It returns with feeding locked, also if there is an error, which is
// that of lost.
func (v *View) copyInParts(a *account, r *reader[*exchange.AccountEvent]) (*Snapshot, error) {
	var c copied
	for {
		v.feeding.Lock()
		if err := v.lost(); err != nil {
			return nil, err
		}
		if !c.add(v, a) {
			break
		}
		v.feeding.Unlock()
		runtime.Gosched()
	}
	snap, earlier := v.snapshotWithoutOrders(a), r.waiting
	r.waiting = nil
	v.feeding.Unlock()
	snap.Orders = c.after(earlier)
	v.feeding.Lock()
	return snap, v.lost()
}

// add copies the next part. It returns false if the copy has all orders now. Its caller holds feeding.
func (c *copied) add(v *View, a *account) (more bool) {
	n := 0
	a.orders.after(c.last, func(o *order) bool {
		if more = n == partMax; more {
			return false
		}
		c.orders = append(c.orders, v.detail(o))
		n, c.last = n+1, o.id
		return true
	})
	return more
}

// after returns the orders after the last part was copied. events has each change of an order from before the first
// part until then.
func (c *copied) after(events []*exchange.AccountEvent) []exchange.OrderDetail {
	changed := make(map[exchange.OrderID]*exchange.OrderDetail)
	seqs := make(map[exchange.OrderID]uint64)
	for _, e := range events {
		for i := range e.Orders {
			if o := &e.Orders[i].OrderDetail; e.Seq > seqs[o.ID] {
				changed[o.ID], seqs[o.ID] = o, e.Seq
			}
		}
	}
	all := slices.DeleteFunc(c.orders, func(o exchange.OrderDetail) bool { return changed[o.ID] != nil })
	for _, o := range changed {
		if o.State == exchange.StatusOpen {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all, func(a, b exchange.OrderDetail) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// noteRef adds, for readers that wait for a copy, an event without a number to their news: an amend that only uses a
// ref makes no other one. It may precede events of earlier records, which are added at the end of a chunk.
func (v *View) noteRef(a *account, o *order) {
	if a.watch == nil {
		return
	}
	for _, r := range a.watch.readers {
		if r.waits {
			r.waiting = append(r.waiting, &exchange.AccountEvent{Seq: v.at,
				Orders: []exchange.OrderChange{{OrderDetail: v.detail(o)}}})
		}
	}
}
