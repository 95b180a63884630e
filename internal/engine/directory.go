package engine

import (
	"sync"

	"outcry/internal/exchange"
)

// directoryShards is how many locks the directory is spread over: a power of two.
const directoryShards = 64

// directory leads from an order that memory holds to its desk. Neighboring ids
// lie in different shards, so that desks rarely meet at one lock.
type directory struct {
	shards [directoryShards]struct {
		mu    sync.RWMutex
		desks map[exchange.OrderID]*desk // guarded by mu
	}
}

func (d *directory) init() {
	for i := range d.shards {
		d.shards[i].desks = make(map[exchange.OrderID]*desk)
	}
}

func (d *directory) find(id exchange.OrderID) *desk {
	s := &d.shards[id%directoryShards]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.desks[id]
}

func (d *directory) add(id exchange.OrderID, owner *desk) {
	s := &d.shards[id%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desks[id] = owner
}

func (d *directory) remove(id exchange.OrderID) {
	s := &d.shards[id%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.desks, id)
}
