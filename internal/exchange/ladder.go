package exchange

import "iter"

// level is one price level: the resting orders of one side and price, oldest first.
type level struct{ oldest, last slot }

// A stretch is stretchTicks neighbouring prices, each with a level whether or not
// orders rest there.
const stretchTicks = 16

// stretch is a piece of the price scale on which orders rest, by sort key.
type stretch struct {
	first  int64  // key of levels[0]
	tick   int64  // from one level's key to the next
	slot   slot   // its place in ladder.stretches
	used   uint16 // a bit for each level that is not empty
	levels [stretchTicks]level
}

// stretchesFreeMax is how many stretches without orders a ladder keeps.
const stretchesFreeMax = 1024

// stretchHints is how many hints a ladder has: for a range of 2,048 cents.
const stretchHints = 128

// cent is the tick of most prices. A price between two whole cents lies on a
// scale of its own, in which the tick is the smallest difference there is.
const cent = 1e6

// ladder finds the price levels of one side. Most prices are whole cents, and
// close to each other: a level lies in a stretch of neighbours, where its price
// leads to it, and a search is for the stretch alone. Stretches are kept in
// sorted chunks, so that it does not matter how many there are.
//
// Prices are compared by their keys: the better for the side, the greater.
// A level is named by a slot: that of its stretch × stretchTicks + its place there.
//
// Invariants: best is the level of bestKey, the greatest key of a level in use;
// no stretch is empty; levels counts those in use.
type ladder struct {
	base, up  int64 // key = base + up × price: 0 and 1 for bids, orderUnitsMax and -1 for asks
	cents     run   // stretches of whole cents
	others    run   // stretches of prices between them
	bestKey   int64 // noKey where no order rests
	best      *level
	bestSlot  slot
	levels    int
	stretches []*stretch         // by slot; where there is none, the one at 0, which is not in the book
	free      []slot             // slots that may be used again, with the stretches that are left there
	hints     [stretchHints]slot // where a stretch was found, by the low bits of its number
}

// noKey is below every key.
const noKey = 0

func newLadder(s Side, chunkMax int) ladder {
	l := ladder{base: 0, up: 1, cents: run{chunkMax: chunkMax}, others: run{chunkMax: chunkMax}, stretches: []*stretch{{first: -1}}}
	if s == Sell {
		l.base, l.up = orderUnitsMax, -1
	}
	return l
}

// key returns a price's sort key, and price the price of a key: each is the
// other's inverse. Keys are above 0, and whole cents have keys of whole cents.
func (l *ladder) key(p Price) int64 { return l.base + l.up*int64(p) }

func (l *ladder) price(key int64) Price { return Price(l.up * (key - l.base)) }

// at returns the level of a price, put in use where it is empty.
func (l *ladder) at(p Price) (slot, *level) {
	key := l.key(p)
	if key == l.bestKey {
		return l.bestSlot, l.best
	}
	r, tick, ticks := &l.cents, int64(cent), key/cent
	if ticks*cent != key {
		r, tick, ticks = &l.others, 1, key
	}
	place := ticks & (stretchTicks - 1)
	first, hint := key-place*tick, &l.hints[ticks/stretchTicks&(stretchHints-1)]
	s := l.stretches[*hint]
	if s.first != first || s.tick != tick || s.used == 0 { // it is another one, or gone
		s = l.stretch(r, first, tick)
		*hint = s.slot
	}
	at, lv := s.slot*stretchTicks+slot(place), &s.levels[place]
	if s.used&(1<<place) == 0 {
		s.used |= 1 << place
		l.levels++
		if key > l.bestKey {
			l.bestKey, l.best, l.bestSlot = key, lv, at
		}
	}
	return at, lv
}

// level returns the level of a slot.
func (l *ladder) level(s slot) *level { return &l.stretches[s/stretchTicks].levels[s%stretchTicks] }

// stretch returns the stretch that begins with a key, made where there is none.
func (l *ladder) stretch(r *run, first, tick int64) *stretch {
	c, i, found := r.search(first)
	if found {
		return r.chunks[c][i].stretch
	}
	at := slot(len(l.stretches))
	if n := len(l.free); n > 0 {
		at, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.stretches = append(l.stretches, l.stretches[0])
	}
	s := l.stretches[at]
	if s == l.stretches[0] {
		s = &stretch{slot: at}
		l.stretches[at] = s
	}
	s.first, s.tick = first, tick
	r.insert(c, i, rung{first, s})
	return s
}

// drop takes a level that has become empty out of use.
func (l *ladder) drop(at slot) {
	s, place := l.stretches[at/stretchTicks], at%stretchTicks
	if s.used&(1<<place) == 0 || s.levels[place] != (level{}) {
		panic("exchange: dropping a price level that is not in use, or not empty")
	}
	s.used &^= 1 << place
	l.levels--
	if s.used == 0 {
		if s.tick == cent {
			l.cents.remove(s.first)
		} else {
			l.others.remove(s.first)
		}
		if len(l.free) >= stretchesFreeMax {
			l.stretches[s.slot] = l.stretches[0]
		}
		l.free = append(l.free, s.slot)
	}
	if at == l.bestSlot {
		l.bestKey, l.bestSlot = l.below(l.bestKey)
		l.best = nil
		if l.bestSlot != 0 {
			l.best = l.level(l.bestSlot)
		}
	}
}

// below returns the best level in use whose key is below the given one: its key
// and slot, noKey and 0 where there is none.
func (l *ladder) below(key int64) (int64, slot) {
	cents, at := l.cents.below(key)
	if others, otherAt := l.others.below(key); others > cents {
		return others, otherAt
	}
	return cents, at
}

// all ranges over the levels in use, best first: their prices and slots.
func (l *ladder) all() iter.Seq2[Price, slot] {
	return func(yield func(Price, slot) bool) {
		for key, at := l.bestKey, l.bestSlot; at != 0 && yield(l.price(key), at); {
			key, at = l.below(key)
		}
	}
}
