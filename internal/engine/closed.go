package engine

import (
	"context"
	"time"
)

// forgetMax is how many closed orders a shard forgets after one task: more than a
// task usually closes, so that memory shrinks, but few enough not to stall the shard.
const forgetMax = 256

// sweepEvery is the interval at which the sweeper looks for idle shards that hold closed
// orders.
const sweepEvery = time.Second

// closing is a journal record that closed orders which are still in memory.
type closing struct {
	seq    uint64
	orders int // orders that the record closed and that are not forgotten yet
}

// closedQueue lists the records that closed orders which the book can forget, oldest
// record first. The book forgets the orders in the same order.
type closedQueue struct {
	closings []closing
	first    int // index of the first entry that is not forgotten
}

func (q *closedQueue) push(c closing) {
	if q.first > len(q.closings)/2 && q.first > forgetMax {
		q.closings = append(q.closings[:0], q.closings[q.first:]...)
		q.first = 0
	}
	q.closings = append(q.closings, c)
}

// shrink frees the memory of an empty queue.
func (q *closedQueue) shrink() {
	if q.first == len(q.closings) {
		*q = closedQueue{}
	}
}

// pop removes one order if the oldest record in the queue is at or before seq, and reports whether it did.
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

// close notes that record seq closed a number of orders, at least one.
func (d *shard) close(seq uint64, orders int) {
	d.closed.push(closing{seq, orders})
	d.closedCount.Add(int64(orders))
	d.engine.counters.closedOrders.Add(int64(orders))
}

// forget drops closed orders from memory, longest closed first, while memory holds more than
// its limit. Only orders whose rows are committed in Postgres are dropped.
func (d *shard) forget() {
	e := d.engine
	most := e.limits.closedOrders.Load()
	over := e.counters.closedOrders.Load() - most
	if e.options.Projection == nil || over <= 0 {
		return
	}
	seq := e.options.Projection.Applied()
	if over > most {
		over -= most // above twice the limit, drop the excess whatever its age
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

// longAgo returns the seq up to which closed orders are forgotten first. Clients mostly query and
// cancel orders that closed later. While memory holds at most twice its limit, a shard keeps
// those: less active shards hold older ones, which the
// sweeper removes.
func (e *Engine) longAgo() uint64 {
	appended := e.log.Appended()
	return appended - min(appended, uint64(e.limits.closedOrders.Load()))
}

// sweep runs until the engine is closed. A shard forgets closed orders only after its tasks;
// without the sweeper a shard that was busy and then gets no more tasks would keep them for ever.
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

// sweepOnce sends every shard with closed orders tasks without commands, while memory holds too many
// and the shard still forgets some. It reports whether memory holds fewer closed orders than before.
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

// adopt counts the open orders of a restored book and notes its halt.
func (d *shard) adopt() {
	d.engine.counters.openOrders.Add(int64(d.book.Resting()))
	if h := d.book.Halted(); h != nil {
		d.halts.Store(&[]haltChange{{halt: h}})
	}
}

// adoptClosed queues the closed orders of restored books for forgetting. A standby knows which record closed
// each; without one they all count as closed by the journal's last record.
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
