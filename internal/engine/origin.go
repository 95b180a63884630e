package engine

import (
	"cmp"
	"slices"
	"sync"

	"outcry/internal/exchange"
)

// disconnectCancelsMax is how many orders one record cancels at the most as connections have ended:
// a symbol does a piece of so much work between two tasks.
const disconnectCancelsMax = 256

// Origin is a connection of a client, to orders that are canceled when it ends. Its session
// makes one with NewOrigin when it first needs one, puts it into each Request, and calls EndOrigin.
//
// A shard knows the orders of each origin that rest there, and an origin knows these shards. So
// what a connection leaves behind is found without a search, and there is no more to remember
// than there are open orders.
type Origin struct {
	mu     sync.Mutex
	ended  bool
	shards map[*shard]struct{} // that know of open orders of it; nil once it has ended
}

// NewOrigin returns the origin of a connection. The engine does not know of it until an
// order with OnDisconnect rests.
func (e *Engine) NewOrigin() *Origin { return &Origin{} }

// EndOrigin has all open orders canceled that came with OnDisconnect from a connection, and
// those that have replaced them. It does not wait, neither for that nor for anything else. It is called
// once the connection has ended, behind its last call of Execute. An order that is accepted all the same
// is canceled at once. Further calls do nothing, and so does one of nil.
func (e *Engine) EndOrigin(o *Origin) {
	if o == nil {
		return
	}
	o.mu.Lock()
	shards := o.shards
	o.ended, o.shards = true, nil
	o.mu.Unlock()
	for d := range shards {
		d.endedMu.Lock()
		d.ended = append(d.ended, o)
		d.endedMu.Unlock()
		d.inbox.poke()
	}
}

// knows notes that a shard knows of an order of o. It returns false if o has ended.
func (o *Origin) knows(d *shard) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	if o.shards == nil {
		o.shards = make(map[*shard]struct{})
	}
	o.shards[d] = struct{}{}
	return true
}

// forgets notes that a shard knows of no order of o any more.
func (o *Origin) forgets(d *shard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.shards, d)
}

// connected is what a shard knows of its open orders with OnDisconnect. The shard's goroutine
// uses it alone.
type connected struct {
	origins map[exchange.OrderID]*Origin
	orders  map[*Origin]map[exchange.OrderID]struct{}
	due     []dueCancel // their connection has ended; some may be closed meanwhile
}

// dueCancel is an order that is to be canceled.
type dueCancel struct {
	owner *exchange.Account
	order exchange.OrderID
}

// connect notes that an open order with OnDisconnect came from a connection, which may have ended.
func (d *shard) connect(owner *exchange.Account, id exchange.OrderID, origin *Origin) {
	c := &d.connected
	orders := c.orders[origin]
	if orders == nil {
		if !origin.knows(d) {
			c.due = append(c.due, dueCancel{owner, id})
			d.inbox.chores.Store(true)
			return
		}
		if c.orders == nil {
			c.orders = make(map[*Origin]map[exchange.OrderID]struct{})
			c.origins = make(map[exchange.OrderID]*Origin)
		}
		orders = make(map[exchange.OrderID]struct{})
		c.orders[origin] = orders
	}
	orders[id] = struct{}{}
	c.origins[id] = origin
}

// disconnect notes that an order is closed, and returns the connection that it came from, nil if
// that has ended or there was none.
func (d *shard) disconnect(id exchange.OrderID) *Origin {
	if len(d.connected.origins) == 0 {
		return nil
	}
	return d.disconnectKnown(id)
}

// disconnectKnown is disconnect at a shard that knows of connections: most do not, and each fill asks.
func (d *shard) disconnectKnown(id exchange.OrderID) *Origin {
	c := &d.connected
	origin := c.origins[id]
	if origin == nil {
		return nil
	}
	delete(c.origins, id)
	orders := c.orders[origin]
	if delete(orders, id); len(orders) == 0 {
		delete(c.orders, origin)
		origin.forgets(d)
	}
	return origin
}

// shrink gives up the memory of maps that are empty.
func (c *connected) shrink() {
	if len(c.origins) == 0 {
		c.origins, c.orders = nil, nil
	}
	if len(c.due) == 0 {
		c.due = nil
	}
}

// takeEnded makes the orders of connections that have ended due.
func (d *shard) takeEnded() {
	d.endedMu.Lock()
	ended := d.ended
	d.ended = nil
	d.endedMu.Unlock()
	c := &d.connected
	for _, origin := range ended {
		first := len(c.due)
		for id := range c.orders[origin] {
			o, _ := d.book.Find(id)
			c.due = append(c.due, dueCancel{o.Account, id})
			delete(c.origins, id)
		}
		delete(c.orders, origin)
		sortDue(c.due[first:])
	}
}

// sortDue brings orders into the order in which a record of each account has them.
func sortDue(due []dueCancel) {
	slices.SortFunc(due, func(a, b dueCancel) int {
		return cmp.Or(cmp.Compare(a.owner.ID, b.owner.ID), cmp.Compare(a.order, b.order))
	})
}

// chore cancels orders whose connection has ended, in one record. If there is no room
// for it, it is tried again until there is (keeper).
func (d *shard) chore() (more bool, err error) {
	d.takeEnded()
	if len(d.connected.due) == 0 {
		return false, nil
	}
	defer d.idle()
	reason, err := d.finish()
	if err == nil && reason == exchange.OK {
		reason, err = d.cancelDue()
	}
	if err != nil {
		return false, err
	}
	if reason != exchange.OK {
		d.engine.keeper.later(d)
		return false, nil
	}
	return len(d.connected.due) > 0, nil
}

// cancelDue cancels the first orders that are due, as many as belong into one record. The
// reason is OK or why there is no record now, and then nothing has changed. An error is the journal's and final.
func (d *shard) cancelDue() (exchange.RejectReason, error) {
	c := &d.connected
	for most := disconnectCancelsMax; ; most /= 2 {
		owner, taken := d.nextDue(most)
		if len(d.cancels) == 0 {
			c.due = c.due[taken:]
			return exchange.OK, nil
		}
		reason, err := d.cancelMany(owner, exchange.ByDisconnect)
		if reason == exchange.TooManyCancels && most > 1 {
			continue
		}
		if reason == exchange.OK && err == nil {
			c.due = c.due[taken:]
		}
		return reason, err
	}
}

// nextDue makes d.cancels of the first orders that are due, of one account and in their order, up to most of
// them. It leaves out what is closed, and returns how many it has looked at.
func (d *shard) nextDue(most int) (owner *exchange.Account, taken int) {
	due := d.connected.due
	d.cancels = d.cancels[:0]
	for taken < len(due) && taken < most {
		next := due[taken]
		if taken > 0 && (next.owner != owner || next.order <= due[taken-1].order) {
			break
		}
		owner = next.owner
		taken++
		if o, found := d.book.Find(next.order); found && o.Open > 0 {
			d.cancels = append(d.cancels,
				exchange.Cancel{Order: o.ID, Symbol: d.symbol, Terms: o.Terms, Shares: o.Open})
		}
	}
	return owner, taken
}

// cancelMany cancels what d.cancels has, orders of one account that rest, in one record. The reason is OK,
// NoRoomToCancel or TooManyCancels, and then nothing has changed. An error is the journal's and final.
func (d *shard) cancelMany(owner *exchange.Account, cause exchange.CancelCause) (exchange.RejectReason, error) {
	e, now := d.engine, d.book.Moment(d.engine.options.Now())
	d.event = exchange.Event{Kind: exchange.OrdersCanceled, Time: now, Account: owner.ID, Cancels: d.cancels, Cause: cause}
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	var refused exchange.Result
	if ok, err := e.claimToCancel(len(d.record), &refused); !ok {
		return refused.Reason, err
	}
	seq, err := e.append(d.record, len(d.record))
	if err != nil {
		return exchange.OK, err
	}
	e.mu.Lock()
	for i := range d.cancels {
		c := &d.cancels[i]
		e.ledger.Release(d.instrument, &exchange.Order{Account: owner, Terms: c.Terms, Canceled: c.Shares})
	}
	e.mu.Unlock()
	for i := range d.cancels {
		d.cancelOpen(d.cancels[i].Order, owner, now)
	}
	d.closeCanceled(seq, len(d.cancels))
	return exchange.OK, nil
}

// cancelOpen takes an order out of the book that rests there.
func (d *shard) cancelOpen(id exchange.OrderID, owner *exchange.Account, now int64) {
	if _, r := d.book.Cancel(id, owner.ID, now); r != exchange.OK {
		panic("engine: an order that was open is " + r.String()) // nobody else touches the book
	}
	d.disconnect(id)
}

// closeCanceled counts orders that a record has canceled.
func (d *shard) closeCanceled(seq uint64, orders int) {
	d.engine.counters.openOrders.Add(int64(-orders))
	d.activity.cancels.Add(int64(orders))
	d.close(seq, orders)
}
