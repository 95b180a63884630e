package engine

import (
	"cmp"
	"slices"
	"sync"

	"outcry/internal/exchange"
)

// disconnectCancelsMax is how many orders one record cancels at most after connections have ended:
// the amount of work that a shard does between two tasks.
const disconnectCancelsMax = 256

// Origin is a client connection with orders that are canceled when it ends. Its session
// creates one with NewOrigin when it first needs one, sets it in each Request, and calls EndOrigin.
//
// A shard knows which of its open orders came from each origin, and an origin knows these shards. So
// the orders of a connection are found without a search, and the memory is bounded
// by the number of open orders.
type Origin struct {
	mu     sync.Mutex
	ended  bool
	shards map[*shard]struct{} // shards with open orders of this origin; nil once it has ended
}

// NewOrigin returns the origin of a connection. The engine keeps no reference to it until an
// order with OnDisconnect rests.
func (e *Engine) NewOrigin() *Origin { return &Origin{} }

// EndOrigin makes the shards cancel all open orders that came with OnDisconnect from a connection, and
// the orders that have replaced them. It does not wait. It is called once the connection has ended, after
// its last call of Execute. An order that is accepted even later
// is canceled at once. Further calls do nothing, nor does a call with nil.
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

// addShard notes that a shard has an open order of o. It returns false if o has ended.
func (o *Origin) addShard(d *shard) bool {
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

// removeShard notes that a shard has no open orders of o any more.
func (o *Origin) removeShard(d *shard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.shards, d)
}

// connected tracks a shard's open orders with OnDisconnect. Only the shard's goroutine
// uses it.
type connected struct {
	origins map[exchange.OrderID]*Origin
	orders  map[*Origin]map[exchange.OrderID]struct{}
	due     []dueCancel // orders whose connection has ended; some may have closed since
}

// dueCancel is an order to be canceled because its connection has ended.
type dueCancel struct {
	owner *exchange.Account
	order exchange.OrderID
}

// connect notes that an open order with OnDisconnect came from a connection. If that has ended, the order becomes due.
func (d *shard) connect(owner *exchange.Account, id exchange.OrderID, origin *Origin) {
	c := &d.connected
	orders := c.orders[origin]
	if orders == nil {
		if !origin.addShard(d) {
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

// disconnect notes that an order is closed. It returns the connection that the order came from, or nil if
// that has ended or the order came from none.
func (d *shard) disconnect(id exchange.OrderID) *Origin {
	if len(d.connected.origins) == 0 {
		return nil
	}
	return d.disconnectKnown(id)
}

// disconnectKnown is disconnect for shards with such orders. It is separate because most shards have none and every
// fill calls disconnect.
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
		origin.removeShard(d)
	}
	return origin
}

// shrink frees the memory of empty maps.
func (c *connected) shrink() {
	if len(c.origins) == 0 {
		c.origins, c.orders = nil, nil
	}
	if len(c.due) == 0 {
		c.due = nil
	}
}

// takeEnded marks the orders of connections that have ended as due.
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

// sortDue sorts orders by account and id, the order in which a record lists them.
func sortDue(due []dueCancel) {
	slices.SortFunc(due, func(a, b dueCancel) int {
		return cmp.Or(cmp.Compare(a.owner.ID, b.owner.ID), cmp.Compare(a.order, b.order))
	})
}

// chore cancels orders whose connection has ended, in one record. If the journal has no room
// for it, the keeper retries until there is.
func (d *shard) chore() (more bool, err error) {
	d.takeEnded()
	if len(d.connected.due) == 0 {
		return false, nil
	}
	defer d.afterTask()
	reason, err := d.finish()
	if err == nil && reason == exchange.OK {
		reason, err = d.cancelDue()
	}
	if err != nil {
		return false, err
	}
	if reason != exchange.OK {
		d.engine.keeper.retryChores(d)
		return false, nil
	}
	return len(d.connected.due) > 0, nil
}

// cancelDue cancels the first orders that are due, as many as fit into one record. If the
// reason is not OK, it says why no record was appended, and nothing has changed. An error is the journal's and final.
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

// nextDue fills d.cancels with the first orders that are due, up to most, all of one account and sorted by id.
// It leaves out closed orders, and returns how many due orders it has used up.
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

// cancelMany cancels the orders in d.cancels, which rest and belong to owner, in one record. If the reason is
// NoRoomToCancel or TooManyCancels, nothing has changed; otherwise it is OK. An error is the journal's and final.
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

// cancelOpen removes a resting order from the book.
func (d *shard) cancelOpen(id exchange.OrderID, owner *exchange.Account, now int64) {
	if _, r := d.book.Cancel(id, owner.ID, now); r != exchange.OK {
		panic("engine: cannot cancel an open order: " + r.String()) // only this goroutine changes the book
	}
	d.disconnect(id)
}

// closeCanceled updates the counters after record seq has canceled a number of orders.
func (d *shard) closeCanceled(seq uint64, orders int) {
	d.engine.counters.openOrders.Add(int64(-orders))
	d.activity.cancels.Add(int64(orders))
	d.close(seq, orders)
}
