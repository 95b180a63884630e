package engine

import "outcry/internal/exchange"

// forgetMax is how many closed orders a desk forgets after one task: more than a
// task usually closes, so that memory shrinks, and little enough not to stall.
const forgetMax = 256

// closedOrder is a closed order that is still in memory.
type closedOrder struct {
	id  exchange.OrderID
	seq uint64 // the record that closed it
}

// closedQueue holds closed orders, the longest closed first.
type closedQueue struct {
	orders []closedOrder
	first  int // those before it were forgotten
}

func (q *closedQueue) push(o closedOrder) {
	if q.first > len(q.orders)/2 && q.first > forgetMax {
		q.orders = append(q.orders[:0], q.orders[q.first:]...)
		q.first = 0
	}
	q.orders = append(q.orders, o)
}

// pop takes out the longest closed order if it was closed at or before seq.
func (q *closedQueue) pop(seq uint64) (exchange.OrderID, bool) {
	if q.first == len(q.orders) || q.orders[q.first].seq > seq {
		return 0, false
	}
	q.first++
	return q.orders[q.first-1].id, true
}

// close remembers that an order was closed by a record.
func (d *desk) close(id exchange.OrderID, seq uint64) {
	d.closed.push(closedOrder{id, seq})
	d.engine.counters.closedOrders.Add(1)
}

// forget drops closed orders whose rows are committed, longest closed first,
// while memory holds more of them than it should.
func (d *desk) forget() {
	e := d.engine
	for range forgetMax {
		if e.options.Projection == nil || e.counters.closedOrders.Load() <= int64(e.options.ClosedOrdersMax) {
			return
		}
		id, ok := d.closed.pop(e.options.Projection.Applied())
		if !ok {
			return
		}
		e.orders.remove(id)
		d.book.Forget(id)
		e.counters.closedOrders.Add(-1)
	}
}

// adopt enters the orders of a book that was restored. Those that closed after
// the projection's state count as closed by the journal's last record.
func (d *desk) adopt() {
	last := d.engine.journal.Appended()
	for o := range d.book.Orders() {
		d.engine.orders.add(o.ID, d)
		if o.Open == 0 {
			d.close(o.ID, last)
		} else {
			d.engine.counters.openOrders.Add(1)
		}
	}
}
