package engine

import (
	"context"
	"time"

	"outcry/internal/exchange"
)

// forgetMax is how many closed orders a desk forgets after one task: more than a
// task usually closes, so that memory shrinks, and little enough not to stall.
const forgetMax = 256

// sweepEvery is how often the sweeper looks for desks that hold closed orders and
// have nothing to do.
const sweepEvery = time.Second

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
	d.closedCount.Add(1)
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
		d.closedCount.Add(-1)
		e.counters.closedOrders.Add(-1)
	}
}

// sweep runs until the engine is closed. A desk forgets after each of its tasks;
// one that was busy while Postgres was away, and then has none any more, would
// keep its closed orders for ever.
func (e *Engine) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for e.sweepOnce() {
			}
		case <-e.stop:
			return
		}
	}
}

// sweepOnce gives every desk that holds closed orders a task without commands,
// while memory holds too many. It tells whether that made them fewer.
func (e *Engine) sweepOnce() bool {
	before := e.counters.closedOrders.Load()
	e.desks.Range(func(_, value any) bool {
		d := value.(*desk)
		if e.counters.closedOrders.Load() <= int64(e.options.ClosedOrdersMax) {
			return false
		}
		if d.closedCount.Load() == 0 {
			return true
		}
		_, err := e.hand(context.Background(), d.inbox, &task{done: make(chan struct{}, 1)})
		return err == nil // else the engine is being closed
	})
	return e.counters.closedOrders.Load() < before
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
