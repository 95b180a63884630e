package engine

import (
	"cmp"
	"slices"
	"sync"

	"outcry/internal/exchange"
)

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

// addShard records that a shard has an open order of o. It returns false if o has ended.
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

// removeShard records that a shard has no open orders of o any more.
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

// connect records that an open order with OnDisconnect came from a connection. If the connection has ended, the
// order becomes due.
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

// disconnect removes an order that is closed from its connection. It returns that connection, or nil if it has ended or
// the order did not come with OnDisconnect.
func (d *shard) disconnect(id exchange.OrderID) *Origin {
	if len(d.connected.origins) == 0 {
		return nil
	}
	return d.disconnectKnown(id)
}

// disconnectKnown is disconnect for shards with OnDisconnect orders. It is separate because most shards have none
// and every fill calls disconnect.
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

// queueEnded marks the orders of connections that have ended as due.
func (d *shard) queueEnded() {
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
