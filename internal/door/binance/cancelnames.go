package binance

import (
	"sync"

	"outcry/internal/exchange"
)

// cancelNamesMax is of how many cancels the ids that clients gave are kept. A report follows its cancel at once.
const cancelNamesMax = 4096

// cancelNames are the client ids of cancels, by the orders that they cancel, for the reports of these: no record has
// them. The oldest gives way. It is safe for concurrent use, and its zero value is empty.
type cancelNames struct {
	mu   sync.Mutex
	of   map[exchange.OrderID]cancelName
	ring [cancelNamesMax]exchange.OrderID // in the order in which they came; 0 is none
	came uint64
}

type cancelName struct {
	name exchange.Ref
	came uint64 // how many came before: its place is that modulo cancelNamesMax
}

// put keeps the id of a cancel that is about to be executed. drop takes it back if the order was not canceled by it;
// of several cancels of one order the first keeps its id meanwhile.
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

// forget drops the id of a cancel, unless another one has come since. Its caller holds mu.
func (c *cancelNames) forget(id exchange.OrderID, came uint64) {
	if n, found := c.of[id]; found && n.came == came {
		delete(c.of, id)
	}
}

// get returns the id of the cancel of an order, "" if it has none or is no longer kept.
func (c *cancelNames) get(id exchange.OrderID) exchange.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id].name
}
