package idmap

import (
	"math/bits"
	"sync"
)

// shards is the number of locks of a table, a power of two. Neighbouring ids are in
// different shards, so that goroutines rarely wait for the same lock.
const shards = 64

// table maps any ids to values. Its methods may be called from any goroutine.
type table [shards]shard

// shard is an open-addressing hash table with linear probing, at most three quarters
// full. It is small, so that growing it takes little time.
type shard struct {
	mu      sync.Mutex
	entries []entry  // guarded by mu; its length is 0 or a power of two
	count   int      // guarded by mu
	_       [24]byte // puts the next shard's lock on another cache line
}

// entry is an id with its value; a value of 0 marks a free place.
type entry struct{ id, value uint64 }

// find returns the value of an id, or 0 if it has none.
func (t *table) find(id uint64) uint64 {
	s := &t[id%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return 0
	}
	return s.entries[s.place(id)].value
}

// add adds an id. If the id is there already, it returns false and changes nothing.
func (t *table) add(id, value uint64) bool {
	s := &t[id%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if 4*(s.count+1) > 3*len(s.entries) {
		s.grow()
	}
	at := &s.entries[s.place(id)]
	if at.value != 0 {
		return false
	}
	*at = entry{id, value}
	s.count++
	return true
}

// remove removes an id. If the id does not have this value, it returns false and changes
// nothing.
func (t *table) remove(id, value uint64) bool {
	s := &t[id%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return false
	}
	hole, mask := s.place(id), len(s.entries)-1
	if s.entries[hole].value != value {
		return false
	}
	s.count--
	// Later entries of the same run move into the hole if it is at or after their home, so
	// that no tombstones are needed.
	for i := (hole + 1) & mask; s.entries[i].value != 0; i = (i + 1) & mask {
		if (i-s.home(s.entries[i].id))&mask >= (i-hole)&mask {
			s.entries[hole] = s.entries[i]
			hole = i
		}
	}
	s.entries[hole] = entry{}
	return true
}

// home returns the index where the search for an id starts. The multiplication, by 2^64 over
// the golden ratio, spreads rising ids evenly, even if they rise in steps.
func (s *shard) home(id uint64) int {
	return int(id * 11400714819323198485 >> (64 - bits.Len(uint(len(s.entries)-1))))
}

// place returns the index of an id, or that of the free place for it.
func (s *shard) place(id uint64) int {
	i := s.home(id)
	for s.entries[i].id != id && s.entries[i].value != 0 {
		i = (i + 1) & (len(s.entries) - 1)
	}
	return i
}

// grow doubles the table.
func (s *shard) grow() {
	entries := s.entries
	s.entries = make([]entry, max(2*len(entries), 8))
	for _, e := range entries {
		if e.value != 0 {
			s.entries[s.place(e.id)] = e
		}
	}
}

// all ranges over the ids and their values. Nothing may be added or removed during the iteration.
func (t *table) all(yield func(id, value uint64) bool) {
	for i := range t {
		for _, e := range t[i].entries {
			if e.value != 0 && !yield(e.id, e.value) {
				return
			}
		}
	}
}
