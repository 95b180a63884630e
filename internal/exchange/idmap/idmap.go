// Package idmap maps ids to values, for any number of goroutines. It is fast for ids that mostly rise by one, as those
// of an exchange do.
//
//	id ──▶ page of its number (id / 1,024) ──▶ cell: the value, 0, or moved
//	       in a ring of the latest pages           │
//	                                               ▼ also if there is no page
//	                                           table of old ids: shards with a lock each
//
// A value lies in its page beside those of its neighbours: adding is a store next to
// the last one, and finding is two loads, without a hash or a lock. Values that outlive
// most of their neighbours must not keep a page in memory: once the ring needs its
// place, the remaining values of a sparse page move to the table, which accepts any id.
package idmap

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

const (
	// pageLen is the number of consecutive ids of a page: 8 KiB of values.
	pageLen = 1024
	// sparseLen is the number of values at which a page becomes worth its memory. With fewer, the table needs less
	// memory; with this many, a value takes at most 74 bytes.
	sparseLen = pageLen / 8
	// The ring has at least ringMin places for pages, so that values that live for less
	// than 65,536 ids never move, and at most ringMax, 38 MiB in all.
	ringMin, ringMax = 64, 4096
	// sweepLen is how many places of the ring are checked for each new page.
	sweepLen = 2
)

// moved is the content of a cell whose id must be looked up in the table.
// Besides 0 it is the only value that a Map cannot hold.
const moved = 1<<64 - 1

// Map maps ids to values. Ids may be added in any order, but each id only once, ever. The more consecutive the ids
// are, the less memory and time a Map needs. The zero Map is empty. Its methods may be called from any goroutine.
// Calls for the same id must not be concurrent, except Find.
//
// Invariants: a value is in the page of its id or else in the table; a moved cell stays moved; a page that was given
// up is never created again; no page with a number of next or above exists yet.
type Map struct {
	ring atomic.Pointer[ring]
	old  table

	mu   sync.Mutex // guards ring, its places, next and hand against concurrent changes
	next uint64     // guarded by mu
	hand uint64     // guarded by mu; number of the ring's place that was swept last
}

// page holds the values of pageLen ids, from number × pageLen on.
type page struct {
	number  uint64
	givenUp atomic.Bool // set before its values move to the table
	cells   [pageLen]atomic.Uint64
}

// ring holds each page at the index given by the low bits of its number.
type ring struct {
	mask  uint64
	pages []atomic.Pointer[page]
}

func newRing(length int) *ring {
	return &ring{mask: uint64(length) - 1, pages: make([]atomic.Pointer[page], length)}
}

func (r *ring) place(number uint64) *atomic.Pointer[page] { return &r.pages[number&r.mask] }

// page returns the page of an id, or nil if the page does not exist.
func (m *Map) page(id uint64) *page {
	if r := m.ring.Load(); r != nil {
		if p := r.place(id / pageLen).Load(); p != nil && p.number == id/pageLen {
			return p
		}
	}
	return nil
}

func (p *page) cell(id uint64) *atomic.Uint64 { return &p.cells[id%pageLen] }

// Find returns the value of an id, or 0 if it has none. A value is found from the
// return of Add until Remove is called.
func (m *Map) Find(id uint64) uint64 {
	if p := m.page(id); p != nil {
		if value := p.cell(id).Load(); value != moved {
			return value
		}
	}
	return m.old.find(id)
}

// Add sets the value of an id, which must not be 0 or 2^64 - 1. It panics if the id
// has a value.
func (m *Map) Add(id, value uint64) {
	p := m.page(id)
	if p == nil {
		p = m.newPage(id)
	}
	m.put(p, id, value)
}

// AddOld is Add for an id with few neighbours: it makes no page.
func (m *Map) AddOld(id, value uint64) {
	m.mu.Lock()
	p := m.page(id)
	m.next = max(m.next, id/pageLen+1)
	m.mu.Unlock()
	m.put(p, id, value)
}

// put stores a value in the page of its id, or in the table if p is nil.
func (m *Map) put(p *page, id, value uint64) {
	if p == nil && m.old.add(id, value) {
		return
	}
	if p == nil || !p.cell(id).CompareAndSwap(0, value) {
		panic(fmt.Sprintf("idmap: id %d exists already", id))
	}
	if p.givenUp.Load() { // otherwise giveUp will still see the value
		m.mu.Lock()
		m.move(p.cell(id), id)
		m.mu.Unlock()
	}
}

// Remove removes an id. It panics if the id does not have this value.
func (m *Map) Remove(id, value uint64) {
	if p := m.page(id); p != nil && p.cell(id).CompareAndSwap(value, 0) {
		return
	}
	if !m.old.remove(id, value) {
		panic(fmt.Sprintf("idmap: id %d does not have the value %d", id, value))
	}
}

// newPage makes and returns the page of an id that had none. It returns nil if the page was
// given up, or if newer ids already have pages.
func (m *Map) newPage(id uint64) *page {
	m.mu.Lock()
	defer m.mu.Unlock()
	number := id / pageLen
	if p := m.page(id); p != nil || number < m.next {
		return p // another goroutine has made the page, or it must not be made
	}
	p := &page{number: number}
	m.vacate(number).Store(p)
	m.next = number + 1
	m.sweep()
	return p
}

// vacate returns the place in the ring for a new page. If a sparse page occupies the place, its values move to the
// table; otherwise the ring grows, up to its limit. Callers hold mu.
func (m *Map) vacate(number uint64) *atomic.Pointer[page] {
	if m.ring.Load() == nil {
		m.ring.Store(newRing(ringMin))
	}
	for {
		r := m.ring.Load()
		place := r.place(number)
		p := place.Load()
		if p == nil {
			return place
		}
		if p.sparse() || len(r.pages) == ringMax {
			m.giveUp(place)
			return place
		}
		larger := newRing(2 * len(r.pages))
		for i := range r.pages {
			if p := r.pages[i].Load(); p != nil {
				larger.place(p.number).Store(p)
			}
		}
		m.ring.Store(larger)
	}
}

// sweep gives up sparse pages that are no longer among the latest ringMin, so that a ring that has grown becomes empty
// again. Callers hold mu.
func (m *Map) sweep() {
	r := m.ring.Load()
	for range sweepLen {
		m.hand++
		place := r.place(m.hand)
		if p := place.Load(); p != nil && p.number+ringMin < m.next && p.sparse() {
			m.giveUp(place)
		}
	}
}

// sparse reports whether a page has so few values that they take less memory in the table.
func (p *page) sparse() bool {
	values := 0
	for i := range p.cells {
		if v := p.cells[i].Load(); v != 0 && v != moved {
			if values++; values >= sparseLen {
				return false
			}
		}
	}
	return true
}

// giveUp moves the values of a page to the table and drops the page; other goroutines may find, add and remove
// values concurrently. Callers hold mu.
func (m *Map) giveUp(place *atomic.Pointer[page]) {
	p := place.Load()
	p.givenUp.Store(true)
	for i := range p.cells {
		if p.cells[i].Load() != 0 {
			m.move(&p.cells[i], p.number*pageLen+uint64(i))
		}
	}
	place.Store(nil)
}

// move moves the value of a cell to the table, unless it is removed concurrently. For a moment
// the value is in both, so that it is always found. Callers hold mu.
func (m *Map) move(c *atomic.Uint64, id uint64) {
	value := c.Load()
	if value == 0 || value == moved {
		return
	}
	m.old.add(id, value)
	if !c.CompareAndSwap(value, moved) {
		m.old.remove(id, value)
	}
}

// All ranges over the ids and their values, in no particular order. Nothing may be added or
// removed during the iteration.
func (m *Map) All() iter.Seq2[uint64, uint64] {
	return func(yield func(id, value uint64) bool) {
		if r := m.ring.Load(); r != nil {
			for i := range r.pages {
				if p := r.pages[i].Load(); p != nil && !p.all(yield) {
					return
				}
			}
		}
		m.old.all(yield)
	}
}

func (p *page) all(yield func(id, value uint64) bool) bool {
	for i := range p.cells {
		if v := p.cells[i].Load(); v != 0 && v != moved && !yield(p.number*pageLen+uint64(i), v) {
			return false
		}
	}
	return true
}
