// Package idmap finds values by ids that mostly rise by one, as an exchange gives
// them out, from any number of goroutines.
//
//	id ──▶ page of its number (id / 1,024) ──▶ cell: the value, 0, or moved
//	       in a ring of the latest pages           │
//	                                               ▼ also where there is no page
//	                                           table of old ids: shards with a lock each
//
// A value lies in its page beside those of its neighbours: adding is a store next to
// the last one, and finding two loads, without a hash or a lock. Values that outlive
// most of their neighbours must not keep a page in memory: once the ring needs its
// place, what is left of a sparse page moves to the table, which takes any id.
package idmap

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

const (
	// pageLen is how many consecutive ids a page holds: 8 KiB of values.
	pageLen = 1024
	// sparseLen is how many values are worth a page. With fewer, the table takes
	// less memory; with so many, a value takes at most 74 bytes.
	sparseLen = pageLen / 8
	// The ring has places for at least ringMin pages, so that what lives for less
	// than 65,536 ids never moves, and for at most ringMax, of 38 MiB in all.
	ringMin, ringMax = 64, 4096
	// sweepLen is how many places of the ring are looked at for each new page.
	sweepLen = 2
)

// moved is what a cell of a page holds whose id is to be looked for in the table.
// It is the one value that a Map cannot hold, beside 0.
const moved = 1<<64 - 1

// Map leads from ids to values. Ids may be any, and come in any order, but each only
// once, ever; the more of them rise by one, the less it costs. The zero Map is empty.
// Its methods may be called from any goroutine, for one id from one at a time, except
// Find, which may always be called.
//
// Invariants: a value is in the page of its id or else in the table; a cell that is
// moved stays so; a page that was given up is not made again, and none was made yet
// from the number next on.
type Map struct {
	ring atomic.Pointer[ring]
	old  table

	mu   sync.Mutex // held while ring, a place of it, next or hand changes
	next uint64     // guarded by mu
	hand uint64     // guarded by mu; the place of the ring that was swept last
}

// page holds the values of the ids from number × pageLen on.
type page struct {
	number  uint64
	givenUp atomic.Bool // set before what it holds moves to the table
	cells   [pageLen]atomic.Uint64
}

// ring holds each page at the low bits of its number.
type ring struct {
	mask  uint64
	pages []atomic.Pointer[page]
}

func newRing(length int) *ring {
	return &ring{mask: uint64(length) - 1, pages: make([]atomic.Pointer[page], length)}
}

func (r *ring) place(number uint64) *atomic.Pointer[page] { return &r.pages[number&r.mask] }

// page returns the page of an id, nil where it has none.
func (m *Map) page(id uint64) *page {
	if r := m.ring.Load(); r != nil {
		if p := r.place(id / pageLen).Load(); p != nil && p.number == id/pageLen {
			return p
		}
	}
	return nil
}

func (p *page) cell(id uint64) *atomic.Uint64 { return &p.cells[id%pageLen] }

// Find returns the value of an id, 0 where it has none. What Add added is found
// from its return until Remove is called.
func (m *Map) Find(id uint64) uint64 {
	if p := m.page(id); p != nil {
		if value := p.cell(id).Load(); value != moved {
			return value
		}
	}
	return m.old.find(id)
}

// Add gives an id its value, which is neither 0 nor 2^64 - 1. It panics where the id
// has one.
func (m *Map) Add(id, value uint64) {
	p := m.page(id)
	if p == nil {
		p = m.newPage(id)
	}
	m.put(p, id, value)
}

// AddOld is Add for an id beside which few others are expected: it gets no page.
func (m *Map) AddOld(id, value uint64) {
	m.mu.Lock()
	p := m.page(id)
	m.next = max(m.next, id/pageLen+1)
	m.mu.Unlock()
	m.put(p, id, value)
}

// put stores a value in the page of its id, or in the table where there is none.
func (m *Map) put(p *page, id, value uint64) {
	if p == nil && m.old.add(id, value) {
		return
	}
	if p == nil || !p.cell(id).CompareAndSwap(0, value) {
		panic(fmt.Sprintf("idmap: id %d is there already", id))
	}
	if p.givenUp.Load() { // if it is not, giveUp is yet to see the value
		m.mu.Lock()
		m.move(p.cell(id), id)
		m.mu.Unlock()
	}
}

// Remove takes an id away, whose value is known. It panics where it has another.
func (m *Map) Remove(id, value uint64) {
	if p := m.page(id); p != nil && p.cell(id).CompareAndSwap(value, 0) {
		return
	}
	if !m.old.remove(id, value) {
		panic(fmt.Sprintf("idmap: id %d has not the value %d", id, value))
	}
}

// newPage makes the page of an id that had none. It returns nil where the page has been
// given up, or its ids come so late that newer ones have pages.
func (m *Map) newPage(id uint64) *page {
	m.mu.Lock()
	defer m.mu.Unlock()
	number := id / pageLen
	if p := m.page(id); p != nil || number < m.next {
		return p // another goroutine has made it, or nobody will
	}
	p := &page{number: number}
	m.vacate(number).Store(p)
	m.next = number + 1
	m.sweep()
	return p
}

// vacate returns the place in the ring for a new page. What is left there of a sparse
// page moves to the table; for another one the ring grows, up to its limit.
// Callers hold mu.
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

// sweep gives up sparse pages that are no longer among the latest ringMin: a ring that
// has grown does not need its places for long. Callers hold mu.
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

// sparse reports whether a page has so few values that the table is the better place.
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

// giveUp moves what is in a page to the table and drops the page, while others find,
// add and remove. Callers hold mu.
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

// move moves the value of a cell to the table, unless it is removed meanwhile. First the
// value is in both, so that it is always found. Callers hold mu.
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

// All ranges over the ids and their values, in no order. Nothing is added or removed
// meanwhile.
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
