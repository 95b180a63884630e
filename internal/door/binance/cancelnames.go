package binance

import (
	"sync"

	"outcry/internal/exchange"
)

// cancelNamesMax is the number of cancels whose client ids are kept. A report follows its cancel immediately.
const cancelNamesMax = 4096

// cancelNames holds the client ids of cancels by the canceled order. Execution reports need them, and journal records
// do not have them. When it is full, the oldest entry is replaced. It is safe for concurrent use, and its zero value
// is empty.
type cancelNames struct {
	mu   sync.Mutex
	of   map[exchange.OrderID]cancelName
	ring [cancelNamesMax]exchange.OrderID // canceled orders, in the order of their cancels; 0 marks a free place
	came uint64
}

type cancelName struct {
	name exchange.Ref
	came uint64 // number of earlier entries; modulo cancelNamesMax, the place in ring
}

// put keeps the client id of a cancel that is about to be executed. Call drop if that cancel did not cancel the order.
// If several cancels of one order run at the same time, the first keeps its id.
func (c *cancelNames) put(id exchange.OrderID, name exchange.Ref) (drop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.of[id]; taken || name == "" {
		return func() {}
	}
	if c.of == nil {
		c.of = make(map[exchange.OrderID]cancelName)
	}
	came := c.came
	c.came++
	place := &c.ring[came%cancelNamesMax]
	if came >= cancelNamesMax {
		c.forget(*place, came-cancelNamesMax)
	}
	*place = id
	c.of[id] = cancelName{name, came}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(id, came)
	}
}

// forget drops the client id of a cancel, unless a later cancel of the order has replaced it. Its caller holds mu.
func (c *cancelNames) forget(id exchange.OrderID, came uint64) {
	if n, found := c.of[id]; found && n.came == came {
		delete(c.of, id)
	}
}

// get returns the client id of the cancel of an order, "" if it had none or the id is no longer kept.
func (c *cancelNames) get(id exchange.OrderID) exchange.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id].name
}
