package engine

import (
	"context"
	"time"
)

// forgetMax is how many closed orders a shard forgets after one task: more than a
// task usually closes, so that memory shrinks, and little enough not to stall.
const forgetMax = 256

// sweepEvery is how often the sweeper looks for shards that hold closed orders and
// have nothing to do.
const sweepEvery = time.Second

// closing is a record that closed orders which are still in memory.
type closing struct {
	seq    uint64
	orders int
}

// closedQueue knows which records closed the orders that the book can forget, the
// oldest record first. The book forgets them in the same order.
type closedQueue struct {
	closings []closing
	first    int // those before it are forgotten
}

func (q *closedQueue) push(c closing) {
	if q.first > len(q.closings)/2 && q.first > forgetMax {
		q.closings = append(q.closings[:0], q.closings[q.first:]...)
		q.first = 0
	}
	q.closings = append(q.closings, c)
}

// shrink gives up the memory of an empty queue.
func (q *closedQueue) shrink() {
	if q.first == len(q.closings) {
		*q = closedQueue{}
	}
}

// pop takes out one order if it was closed at or before seq.
func (q *closedQueue) pop(seq uint64) bool {
	if q.first == len(q.closings) || q.closings[q.first].seq > seq {
		return false
	}
	c := &q.closings[q.first]
	if c.orders--; c.orders == 0 {
		q.first++
	}
	return true
}

// close remembers that a record closed a number of orders, at least one.
func (d *shard) close(seq uint64, orders int) {
	d.closed.push(closing{seq, orders})
	d.closedCount.Add(int64(orders))
	d.engine.counters.closedOrders.Add(int64(orders))
}

// forget drops closed orders whose rows are committed, longest closed first,
// while memory holds more of them than it should.
func (d *shard) forget() {
	e := d.engine
	most := e.limits.closedOrders.Load()
	over := e.counters.closedOrders.Load() - most
	if e.options.Projection == nil || over <= 0 {
		return
	}
	seq := e.options.Projection.Applied()
	if over > most {
		over -= most // what is beyond twice as many: all that may go
	} else {
		seq = min(seq, e.longAgo())
	}
	forgotten := int64(0)
	for ; forgotten < min(over, forgetMax) && d.closed.pop(seq); forgotten++ {
		d.book.Forget()
	}
	if forgotten > 0 {
		d.closedCount.Add(-forgotten)
		e.counters.closedOrders.Add(-forgotten)
	}
}

// longAgo returns the seq up to which closed orders are the first to be forgotten. What
// closed since is asked for and canceled most. Where memory holds up to twice what it
// should, a shard keeps it: others that have less to do hold older ones, until the
// sweeper comes to them.
func (e *Engine) longAgo() uint64 {
	appended := e.log.Appended()
	return appended - min(appended, uint64(e.limits.closedOrders.Load()))
}

// sweep runs until the engine is closed. A shard forgets after each of its tasks; one
// that was busy, and then has none any more, would keep its closed orders for ever.
func (e *Engine) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for e.counters.closedOrders.Load() > e.limits.closedOrders.Load() && e.sweepOnce() {
			}
			if e.options.History != nil {
				e.refs.sweep(&e.mu, e.options.RefsMax, e.log.Appended, e.options.Projection.Applied)
			}
		case <-e.stop:
			return
		}
	}
}

// sweepOnce gives every shard that holds closed orders tasks without commands, while
// memory holds too many and the shard forgets some. It reports whether that made them fewer.
func (e *Engine) sweepOnce() bool {
	before := e.counters.closedOrders.Load()
	for _, d := range *e.numbered.Load() {
		for held := d.closedCount.Load(); held > 0; {
			if e.counters.closedOrders.Load() <= e.limits.closedOrders.Load() {
				return false
			}
			if _, err := e.hand(context.Background(), &d.inbox, &task{done: make(chan struct{}, 1)}); err != nil {
				return false // the engine is being closed
			}
			left := d.closedCount.Load()
			if left >= held {
				break
			}
			held = left
		}
	}
	return e.counters.closedOrders.Load() < before
}

// adopt counts the open orders of a book that was restored.
func (d *shard) adopt() {
	d.engine.counters.openOrders.Add(int64(d.book.Resting()))
	if h := d.book.Halted(); h != nil {
		d.halts.Store(&[]haltChange{{halt: h}})
	}
}

// adoptClosed notes which records closed the orders of a shard's book that was restored. A
// standby knows that; otherwise they count as closed by the journal's last record.
func (e *Engine) adoptClosed(s *Standby) {
	shards := *e.numbered.Load()
	if s != nil {
		for _, c := range s.closed.left() {
			shards[c.book].close(c.seq, c.orders)
		}
		return
	}
	for _, d := range shards {
		if n := d.book.Closed(); n > 0 {
			d.close(e.log.Appended(), n)
		}
	}
}
