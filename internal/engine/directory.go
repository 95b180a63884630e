package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"outcry/internal/exchange"
)

// directoryShards is how many locks the directory is spread over: a power of two.
const directoryShards = 64

// directory leads from an order that memory holds to its desk. Neighboring ids
// lie in different shards, so that desks rarely meet at one lock. An order takes 12
// bytes of a table that is at most three quarters full, and no pointer.
type directory struct {
	shards [directoryShards]directoryShard

	enrolling sync.Mutex              // held while desks is replaced
	desks     atomic.Pointer[[]*desk] // by number; only ever longer
}

// directoryShard is an open-addressing hash table with linear probing: the desk of
// ids[i] is that of number desks[i]. An id of 0 is a free place.
type directoryShard struct {
	mu    sync.Mutex
	ids   []exchange.OrderID // guarded by mu; its length is 0 or a power of two
	desks []uint32           // guarded by mu
	count int                // guarded by mu
	_     [56]byte           // the next shard's lock is on another cache line
}

// enroll gives a desk the number under which its orders are entered.
func (d *directory) enroll(owner *desk) {
	d.enrolling.Lock()
	defer d.enrolling.Unlock()
	var desks []*desk
	if all := d.desks.Load(); all != nil {
		desks = *all
	}
	owner.number = uint32(len(desks))
	desks = append(desks, owner) // readers of the shorter list do not look at the new place
	d.desks.Store(&desks)
}

// find returns the desk that holds an order, nil where none does.
func (d *directory) find(id exchange.OrderID) *desk {
	s := &d.shards[id%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return nil
	}
	if i := s.place(id); s.ids[i] != 0 {
		return (*d.desks.Load())[s.desks[i]]
	}
	return nil
}

// add enters an order, which is not there yet.
func (d *directory) add(id exchange.OrderID, owner *desk) {
	s := &d.shards[id%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; 4*s.count > 3*len(s.ids) {
		s.grow()
	}
	i := s.place(id)
	s.ids[i], s.desks[i] = id, owner.number
}

// remove takes out an order, which is there.
func (d *directory) remove(id exchange.OrderID) {
	s := &d.shards[id%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	hole, mask := s.place(id), len(s.ids)-1
	// What follows without a gap and belongs at the hole or before it moves up, so
	// that there are no tombstones.
	for i := (hole + 1) & mask; s.ids[i] != 0; i = (i + 1) & mask {
		if (i-s.home(s.ids[i]))&mask >= (i-hole)&mask {
			s.ids[hole], s.desks[hole] = s.ids[i], s.desks[i]
			hole = i
		}
	}
	s.ids[hole] = 0
}

// home returns where an id belongs. The multiplication, by 2^64 over the golden
// ratio, spreads rising ids evenly, also where they rise in steps.
func (s *directoryShard) home(id exchange.OrderID) int {
	return int(uint64(id) * 11400714819323198485 >> (64 - bits.Len(uint(len(s.ids)-1))))
}

// place returns where an id is, or the free place for it.
func (s *directoryShard) place(id exchange.OrderID) int {
	i := s.home(id)
	for s.ids[i] != id && s.ids[i] != 0 {
		i = (i + 1) & (len(s.ids) - 1)
	}
	return i
}

// grow doubles the table. A shard is small, so it does not take long.
func (s *directoryShard) grow() {
	ids, desks := s.ids, s.desks
	n := max(2*len(ids), 8)
	s.ids, s.desks = make([]exchange.OrderID, n), make([]uint32, n)
	for i, id := range ids {
		if id != 0 {
			at := s.place(id)
			s.ids[at], s.desks[at] = id, desks[i]
		}
	}
}
