package exchange

import (
	"iter"
	"math/bits"
)

// level is one price level: the resting orders of one side and price, oldest first.
type level struct{ oldest, last slot }

// A stretch is stretchTicks neighbouring prices, each with a level whether or not
// orders rest there. A block is blockStretches neighbouring stretches.
const (
	stretchTicks   = 16
	blockStretches = 16
	blockTicks     = blockStretches * stretchTicks
)

// block is a piece of the price scale on which orders rest or rested lately, by sort key.
type block struct {
	first         int64  // key of the first level of the first stretch, -1 where it is in no run
	tick          int64  // from one level's key to the next
	worse, better *block // its neighbours in its run
	used          uint16 // a bit for each stretch that is not empty
	vacant        bool   // it is in ladder.vacant
	stretches     [blockStretches]*stretch
}

// stretch is a piece of a block.
type stretch struct {
	block  *block
	place  uint8  // in the block
	used   uint16 // a bit for each level that is not empty
	slot   slot   // its place in ladder.stretches
	levels [stretchTicks]level
}

// How much without orders stays where it is, since near the best price levels come and go
// all the time: blocks, and stretches of blocks.
const (
	vacantMax = 64
	idleMax   = 1024
)

// blockHints is how many hints a ladder has: for a range of 32,768 cents.
const blockHints = 128

// hintsFrom is how many blocks in a row a ladder has before it is worth while to have hints.
const hintsFrom = 4

// cent is the tick of most prices. A price between two whole cents lies on a
// scale of its own, in which the tick is the smallest difference there is.
const cent = 1e6

// ladder finds the price levels of one side. Most prices are whole cents, and
// close to each other: a level lies in a stretch of neighbours, that in a block of
// stretches, and the price leads through them; a search is for the block alone. Blocks
// are kept in sorted chunks, so that it does not matter how many there are.
// What has become empty stays for a while, so that it need not be made again.
//
// Prices are compared by their keys: the better for the side, the greater.
// A level is named by a slot: that of its stretch × stretchTicks + its place there.
//
// Invariants: best is the level of bestKey, the greatest key of a level in use;
// levels counts those in use, idle the stretches that have none; an empty block is
// listed in vacant.
type ladder struct {
	base, up  int64 // key = base + up × price: 0 and 1 for bids, orderUnitsMax and -1 for asks
	cents     run   // blocks of whole cents
	others    run   // blocks of prices between them
	bestKey   int64 // noKey where no order rests
	best      *level
	bestSlot  slot
	levels    int
	stretches []*stretch // by slot; nil where there is none
	free      []slot     // slots that may be used again
	idle      int
	vacant    []*block            // have become empty; some are in use again
	longest   int                 // the one in vacant that is there the longest, once it is full
	hints     *[blockHints]*block // where a block was found, by the low bits of its number; nil while there are few
}

// noKey is below every key.
const noKey = 0

func newLadder(s Side, chunkMax int) ladder {
	l := ladder{base: 0, up: 1, cents: run{chunkMax: chunkMax}, others: run{chunkMax: chunkMax}}
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
	r, tick, ticks := &l.cents, int64(cent), uint64(key)/cent
	if int64(ticks*cent) != key {
		r, tick, ticks = &l.others, 1, uint64(key)
	}
	first := key - int64(ticks%blockTicks)*tick
	var b *block
	if l.hints == nil {
		if b = r.block(first, tick); len(r.chunks) > 1 || len(r.chunks[0]) > hintsFrom {
			l.hints = new([blockHints]*block)
		}
	} else if hint := &l.hints[ticks/blockTicks%blockHints]; !(*hint).begins(first, tick) {
		b = r.block(first, tick) // the hint is of another one, or of one that is gone
		*hint = b
	} else {
		b = *hint
	}
	s := b.stretches[ticks/stretchTicks%blockStretches]
	if s == nil {
		s = l.stretch(b, uint8(ticks/stretchTicks%blockStretches))
	}
	place := ticks % stretchTicks
	at, lv := s.slot*stretchTicks+slot(place), &s.levels[place]
	if s.used&(1<<place) == 0 {
		if s.used == 0 {
			b.used |= 1 << s.place
			l.idle--
		}
		s.used |= 1 << place
		l.levels++
		if key > r.bestKey {
			r.bestKey, r.best = key, at
			if key > l.bestKey {
				l.bestKey, l.bestSlot, l.best = key, at, lv
			}
		}
	}
	return at, lv
}

// begins reports whether b is there and is the block that begins with a key, of a scale.
func (b *block) begins(first, tick int64) bool { return b != nil && b.first == first && b.tick == tick }

// level returns the level of a slot.
func (l *ladder) level(s slot) *level { return &l.stretches[s/stretchTicks].levels[s%stretchTicks] }

// stretch makes an empty stretch of a block.
func (l *ladder) stretch(b *block, place uint8) *stretch {
	if l.stretches == nil {
		l.stretches = make([]*stretch, 1, 2) // slot 0 is none
	}
	at := slot(len(l.stretches))
	if n := len(l.free); n > 0 {
		at, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.stretches = append(l.stretches, nil)
	}
	s := &stretch{block: b, place: place, slot: at}
	l.stretches[at], b.stretches[place] = s, s
	l.idle++
	return s
}

// remove gives an empty stretch to the garbage collector.
func (l *ladder) remove(s *stretch) {
	s.block.stretches[s.place] = nil
	l.stretches[s.slot] = nil
	l.free = append(l.free, s.slot)
	l.idle--
}

// drop takes a level that has become empty out of use.
func (l *ladder) drop(at slot) {
	s, place := l.stretches[at/stretchTicks], at%stretchTicks
	if s.used&(1<<place) == 0 || s.levels[place] != (level{}) {
		panic("exchange: dropping a price level that is not in use, or not empty")
	}
	s.used &^= 1 << place
	l.levels--
	b := s.block
	if s.used == 0 {
		b.used &^= 1 << s.place
		if l.idle++; l.idle > idleMax {
			l.remove(s)
		}
		if b.used == 0 && !b.vacant {
			l.vacate(b)
		}
	}
	r := l.run(b)
	if at != r.best {
		return
	}
	r.bestKey, r.best = b.last(b.used)
	if at == l.bestSlot {
		l.bestKey, l.bestSlot, l.best = l.cents.bestKey, l.cents.best, nil
		if l.others.bestKey > l.bestKey {
			l.bestKey, l.bestSlot = l.others.bestKey, l.others.best
		}
		if l.bestSlot != 0 {
			l.best = l.level(l.bestSlot)
		}
	}
}

func (l *ladder) run(b *block) *run {
	if b.tick == cent {
		return &l.cents
	}
	return &l.others
}

// vacate leaves a block that has become empty where it is for now, and takes the one
// out of its run for which that was done the longest ago, unless it is in use again.
func (l *ladder) vacate(b *block) {
	b.vacant = true
	if len(l.vacant) < vacantMax {
		l.vacant = append(l.vacant, b)
		return
	}
	old := l.vacant[l.longest]
	l.vacant[l.longest] = b
	l.longest = (l.longest + 1) % vacantMax
	if old.vacant = false; old.used != 0 {
		return
	}
	for _, s := range old.stretches {
		if s != nil {
			l.remove(s)
		}
	}
	l.run(old).remove(old)
}

// below returns the best level in use of the same run that is below a level: its key
// and slot, noKey and 0 where there is none.
func (l *ladder) below(at slot) (int64, slot) {
	s := l.stretches[at/stretchTicks]
	if used := s.used & (1<<(at%stretchTicks) - 1); used != 0 {
		return s.last(used)
	}
	return s.block.last(s.block.used & (1<<s.place - 1))
}

// last returns the best level in use among some stretches of b and all of the blocks
// below: its key and slot, noKey and 0 where there is none.
func (b *block) last(used uint16) (int64, slot) {
	for used == 0 {
		if b = b.worse; b == nil {
			return noKey, 0
		}
		used = b.used
	}
	s := b.stretches[bits.Len16(used)-1]
	return s.last(s.used)
}

// last returns the best of some levels of s: its key and slot.
func (s *stretch) last(used uint16) (int64, slot) {
	place := slot(bits.Len16(used) - 1)
	return s.block.first + int64(slot(s.place)*stretchTicks+place)*s.block.tick, s.slot*stretchTicks + place
}

// all ranges over the levels in use, best first: their prices and slots.
func (l *ladder) all() iter.Seq2[Price, slot] {
	return func(yield func(Price, slot) bool) {
		cents, atCents := l.cents.bestKey, l.cents.best
		others, atOthers := l.others.bestKey, l.others.best
		for cents != others { // both are noKey at the end
			key, at := cents, atCents
			if cents > others {
				cents, atCents = l.below(at)
			} else {
				key, at = others, atOthers
				others, atOthers = l.below(at)
			}
			if !yield(l.price(key), at) {
				return
			}
		}
	}
}
