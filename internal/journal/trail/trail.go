// Package trail passes the journal's records to those that follow them: the view of accounts, the market data feed,
// the projector of Postgres and, on a node of a cluster, the standby. Records are values; the package does not know
// what they contain.
//
//	shards ── Put ──▶ ring of recent records ──┬──▶ Follower (a goroutine and a position each)
//	                                           │
//	journal's files ── read and decoded once ──┘    only for a follower that is further back than the ring
//
// The goroutine that appends a record to the journal puts its value on the Trail. A follower gets the values from the
// ring without reading or decoding anything again. A follower further back than the ring reads the journal's files, in
// blocks that are decoded once for all followers at the same place.
//
// A follower sees a record only once the journal has synced it, or later if its Limit says so. The ring makes nobody
// wait: if it is full, the oldest records leave it. The journal keeps the segments that a follower still needs,
// whether it uses the ring or not.
//
// The files, each of which calls those below it: follower.go passes records to one follower, at the times that pace.go
// decides; trail.go has the ring, and block.go what was read from files; waits.go has the callers that wait for a
// follower.
package trail

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"outcry/internal/journal"
)

// Bounds of the ring.
const (
	ringPages = 1 << 8   // pages of pageRecords
	ringBytes = 16 << 20 // bytes that the values refer to; Recycle may keep a part of it with a slot in addition

	// wakePages is the number of new pages after which followers are woken, so that under load they find records in the
	// processor's cache and never fall out of the ring.
	wakePages = 8
)

// Options tell a Trail how to handle values of type E. A value is copied by assignment; its copies share what it
// refers to.
type Options[E any] struct {
	// Decode returns a function that decodes a record into a value, which is zero or recycled. Each function is called by
	// one goroutine at a time.
	Decode func() func(record []byte, into *E) error
	// Extra returns the memory that a value refers to, in bytes; most values refer to none.
	Extra func(*E) int
	// Work returns how much work a value is for a follower, at least 1.
	Work func(*E) int
	// Recycle is called when no follower reads the value any more, before its memory is used again.
	Recycle func(*E)

	pages, bytes int // bounds of the ring; tests lower them
}

// Trail is the ring of recent records and the list of its followers. Its methods may be called from any goroutine.
//
// The ring consists of pages. The goroutine that has appended a record writes the value into its slot without a lock,
// since no other one has that record's number. A follower reads the slots up to the last synced record. A page is
// reused once all its slots are written and no follower may read it; otherwise a new one takes its place, and
// goroutines that write or read the old one are not disturbed.
type Trail[E any] struct {
	options Options[E]
	journal *journal.Journal
	decode  func(record []byte, into *E) error // of PutRecord
	first   uint64                             // first record that is put; older ones are only in files
	pages   []atomic.Pointer[page[E]]          // page n is at n % len(pages)
	floor   atomic.Uint64                      // older pages have left the ring
	bytes   atomic.Int64                       // number of bytes that the values of all pages refer to

	mu        sync.Mutex // held while a page is replaced; guards the fields below
	newest    uint64     // number of the newest page
	followers []*Follower[E]

	files files[E]
}

// pageRecords is the number of records in a page.
const pageRecords = 64

// page has records n × pageRecords to (n+1) × pageRecords - 1.
type page[E any] struct {
	n     atomic.Uint64
	extra atomic.Int64 // number of bytes that the values refer to
	slots [pageRecords]slot[E]
}

// slot is the place of a record in the ring.
type slot[E any] struct {
	seq   atomic.Uint64 // set after the value
	value E
}

// Place is the place of a record on the trail, for the goroutine that has appended the record. It is used once.
type Place[E any] struct {
	// The caller must set Value, which is zero or recycled. If it is nil, the record has already left the ring, and
	// nothing is left to do.
	Value *E
	trail *Trail[E]
	page  *page[E]
	seq   uint64
}

// New returns a trail of the records that are appended to j from now on.
func New[E any](j *journal.Journal, o Options[E]) *Trail[E] {
	if o.pages == 0 {
		o.pages, o.bytes = ringPages, ringBytes
	}
	t := &Trail[E]{options: o, journal: j, first: j.Appended() + 1, pages: make([]atomic.Pointer[page[E]], o.pages)}
	t.floor.Store(t.first / pageRecords)
	t.files.options, t.files.ended = &t.options, sync.NewCond(&t.files.mu)
	return t
}

// Place returns the place of record seq, which the journal has accepted. Each appended record must be put, in any
// order: the caller sets the Value and then calls Put.
func (t *Trail[E]) Place(seq uint64) Place[E] {
	p := t.page(seq)
	if p == nil {
		return Place[E]{}
	}
	return Place[E]{&p.slots[seq%pageRecords].value, t, p, seq}
}

// Put shows the record to followers, once the journal has synced it. What the Value refers to belongs to the trail
// afterwards.
func (w Place[E]) Put() {
	extra := int64(w.trail.options.Extra(w.Value))
	if extra > 0 {
		w.page.extra.Add(extra)
		w.trail.bytes.Add(extra)
	}
	w.page.slots[w.seq%pageRecords].seq.Store(w.seq)
	switch {
	case extra == 0:
	case w.page.n.Load() == noPage: // the page has left the ring meanwhile
		w.trail.uncount(w.page)
	case w.trail.bytes.Load() > int64(w.trail.options.bytes):
		w.trail.shrink()
	}
}

// uncount subtracts the bytes of values that were put after their page had left the ring. It does nothing if the page
// is used again: empty has subtracted them then, and the page has the bytes of other values.
func (t *Trail[E]) uncount(p *page[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.n.Load() == noPage {
		t.bytes.Add(-p.extra.Swap(0))
	}
}

// PutRecord puts a record on the trail of a machine that does not have its value. It must be called before the record
// is appended to the journal, by one goroutine at a time. The error is that of Options.Decode.
func (t *Trail[E]) PutRecord(seq uint64, record []byte) error {
	if t.decode == nil {
		t.decode = t.options.Decode()
	}
	at := t.Place(seq)
	if at.Value == nil {
		return nil
	}
	if err := t.decode(record, at.Value); err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	at.Put()
	return nil
}

// page returns the page of a record, nil if it has left the ring already.
func (t *Trail[E]) page(seq uint64) *page[E] {
	n := seq / pageRecords
	if p := t.pages[n%uint64(len(t.pages))].Load(); p != nil && p.n.Load() == n {
		return p
	}
	return t.turn(n)
}

// turn makes page n, or returns it if another goroutine has made it. It is nil if the page has left the ring.
func (t *Trail[E]) turn(n uint64) *page[E] {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := &t.pages[n%uint64(len(t.pages))]
	old := at.Load()
	switch {
	case old != nil && old.n.Load() == n:
		return old
	case n < t.floor.Load():
		return nil
	}
	t.floor.Store(max(t.floor.Load(), n-min(n, uint64(len(t.pages)-1))))
	p := t.empty(old)
	p.n.Store(n)
	at.Store(p)
	if t.newest = max(t.newest, n); n%wakePages == 0 {
		for _, f := range t.followers {
			f.Hurry()
		}
	}
	return p
}

// noPage is the number of a page that has left the ring.
const noPage = ^uint64(0)

// empty returns an empty page: old if no goroutine can write or read it any more, otherwise a new one. The floor is
// above old already. Its caller holds mu.
func (t *Trail[E]) empty(old *page[E]) *page[E] {
	if old == nil {
		return new(page[E])
	}
	n := old.n.Swap(noPage)
	used := t.used(old, n)
	t.bytes.Add(-old.extra.Swap(0)) // after used: a Put first counts the bytes of its value, and then sets the slot's seq
	if used {
		return new(page[E])
	}
	for i := range old.slots {
		t.options.Recycle(&old.slots[i].value)
	}
	return old
}

// used reports whether a goroutine may still write or read a page that has left the ring; n was its number. Its caller
// holds mu.
func (t *Trail[E]) used(old *page[E], n uint64) bool {
	for i := range old.slots {
		if old.slots[i].seq.Load() != n*pageRecords+uint64(i) {
			return true // its record was not put yet, or never will be
		}
	}
	for _, f := range t.followers { // a follower first sets pin, and then checks that the page has the expected number
		if f.pin.Load() == n+1 {
			return true
		}
	}
	return false
}

// shrink removes the oldest pages until the values of the others refer to less memory than the bound.
func (t *Trail[E]) shrink() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := t.floor.Load(); t.bytes.Load() > int64(t.options.bytes) && n <= t.newest; n++ {
		t.floor.Store(n + 1)
		at := &t.pages[n%uint64(len(t.pages))]
		if p := at.Load(); p != nil && p.n.Load() == n {
			at.Store(nil)
			p.n.Store(noPage)
			t.bytes.Add(-p.extra.Swap(0))
		}
	}
}

// Abandon empties the ring permanently: from now on, followers read the journal's files. It must be called before the
// journal reuses the number of a record that is already on the trail.
func (t *Trail[E]) Abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floor.Store(noPage)
	for i := range t.pages {
		if p := t.pages[i].Swap(nil); p != nil {
			p.n.Store(noPage)
			t.bytes.Add(-p.extra.Swap(0))
		}
	}
}

// recent returns the page of record seq, pinned for f, and how many of its records, from seq to last, are present
// without a gap. gone means that the page has left the ring.
func (t *Trail[E]) recent(f *Follower[E], seq, last uint64) (p *page[E], n int, gone bool) {
	if seq < t.first {
		return nil, 0, true
	}
	number := seq / pageRecords
	f.pin.Store(number + 1)
	if p = t.pages[number%uint64(len(t.pages))].Load(); p == nil || p.n.Load() != number || number < t.floor.Load() {
		f.pin.Store(0)
		return nil, 0, number < t.floor.Load() // if the page is not gone, its first record was not put yet
	}
	for at := int(seq % pageRecords); at+n < pageRecords && seq+uint64(n) <= last; n++ {
		if p.slots[at+n].seq.Load() != seq+uint64(n) {
			break // the record is synced, but not put yet
		}
	}
	return p, n, false
}

// join adds a follower, and leave removes it.
func (t *Trail[E]) join(f *Follower[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = append(t.followers, f)
}

func (t *Trail[E]) leave(f *Follower[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = slices.DeleteFunc(t.followers, func(g *Follower[E]) bool { return f == g })
}
