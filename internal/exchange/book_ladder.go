package exchange

import (
	"iter"
	"math/bits"
)

// level is one price level: the resting orders of one side and price, oldest first.
type level struct{ oldest, last slot }

// A stretch is stretchTicks neighbouring price levels, whether or not orders rest at
// them. A block is blockStretches neighbouring stretches.
const (
	stretchTicks   = 16
	blockStretches = 16
	blockTicks     = blockStretches * stretchTicks
)

// block is a range of the price scale, in sort keys, where orders rest or rested recently.
type block struct {
	first         int64  // key of the first level of the first stretch; -1 once the block was removed from its run
	tick          int64  // distance between the keys of two neighbouring levels
	worse, better *block // neighbours in the run
	used          uint16 // one bit for each stretch with a level in use
	vacant        bool   // the block is listed in ladder.vacant
	stretches     [blockStretches]*stretch
}

// stretch is stretchTicks neighbouring levels of a block.
type stretch struct {
	block  *block
	place  uint8  // index in block.stretches
	used   uint16 // one bit for each level in use
	slot   slot   // index in ladder.stretches
	levels [stretchTicks]level
}

// How many empty blocks and empty stretches are kept for reuse: near the best price, levels appear and disappear all
// the time.
const (
	vacantMax = 64
	idleMax   = 1024
)

// blockHints is the number of hints of a ladder: enough for a range of 32,768 cents.
const blockHints = 128

// hintsFrom is the number of blocks above which a ladder uses hints.
const hintsFrom = 4

// cent is the tick of most prices. Prices between two whole cents are in blocks of
// their own, whose tick is the smallest price difference.
const cent = 1e6

// ladder finds the price levels of one side. Most prices are whole cents and close
// to each other, so levels lie in stretches of neighbours, and stretches in blocks.
// Only the block is searched for; the level's place in it is computed from the price.
// Blocks are kept in sorted chunks, so that large numbers of them cost little.
// Empty blocks and stretches are kept for a while, so that they need not be made again.
//
// Prices are compared by their sort keys: the better the price for the side, the greater
// its key. The slot of a level is the slot of its stretch × stretchTicks + its place there.
//
// Invariants: best is the level of bestKey, the greatest key of a level in use;
// levels counts the levels in use, idle the stretches without any; every empty block is
// listed in vacant.
type ladder struct {
	base, up  int64 // key = base + up × price: 0 and 1 for bids, orderUnitsMax and -1 for asks
	cents     run   // blocks of prices in whole cents
	others    run   // blocks of all other prices
	bestKey   int64 // noKey if no order rests
	best      *level
	bestSlot  slot
	levels    int
	stretches []*stretch // by slot; nil if the slot is free
	free      []slot     // free slots of stretches
	idle      int
	vacant    []*block            // blocks that became empty; some of them are in use again
	longest   int                 // index of the oldest entry of vacant, once vacant is full
	hints     *[blockHints]*block // where a block was last found, by the low bits of its number; nil with few blocks
}

// noKey is below the key of every price.
const noKey = 0

func newLadder(s Side, chunkMax int) ladder {
	l := ladder{base: 0, up: 1, cents: run{chunkMax: chunkMax}, others: run{chunkMax: chunkMax}}
	if s == Sell {
		l.base, l.up = orderUnitsMax, -1
	}
	return l
}

// key returns the sort key of a price, and price is its inverse. Keys are above 0, and
// prices in whole cents have keys in whole cents.
func (l *ladder) key(p Price) int64 { return l.base + l.up*int64(p) }

func (l *ladder) price(key int64) Price { return Price(l.up * (key - l.base)) }

// at returns the level of a price and its slot. If the level was not in use, at marks it as in use.
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
		b = r.block(first, tick) // the hint is for another block, or for a removed one
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

// begins reports whether b is the block with this first key and tick. b may be nil.
func (b *block) begins(first, tick int64) bool { return b != nil && b.first == first && b.tick == tick }

// level returns the level at a slot.
func (l *ladder) level(s slot) *level { return &l.stretches[s/stretchTicks].levels[s%stretchTicks] }

// stretch adds an empty stretch to a block.
func (l *ladder) stretch(b *block, place uint8) *stretch {
	if l.stretches == nil {
		l.stretches = make([]*stretch, 1, 2) // slot 0 means none
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

// remove removes an empty stretch from its block, for the garbage collector.
func (l *ladder) remove(s *stretch) {
	s.block.stretches[s.place] = nil
	l.stretches[s.slot] = nil
	l.free = append(l.free, s.slot)
	l.idle--
}

// drop marks an empty level as not in use. It panics if the level has orders or is not in use.
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

// vacate lists an empty block in vacant and leaves it in its run for now. If the list is full, its oldest block leaves
// the list and, unless it is in use again, its run.
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

// below returns the key and slot of the best level in use that is worse than the level at
// `at` and in the same run, or noKey and 0 if there is none.
func (l *ladder) below(at slot) (int64, slot) {
	s := l.stretches[at/stretchTicks]
	if used := s.used & (1<<(at%stretchTicks) - 1); used != 0 {
		return s.last(used)
	}
	return s.block.last(s.block.used & (1<<s.place - 1))
}

// last returns the key and slot of the best level in use among the given stretches of b
// and all worse blocks, or noKey and 0 if there is none.
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

// last returns the key and slot of the best of the given levels of s.
func (s *stretch) last(used uint16) (int64, slot) {
	place := slot(bits.Len16(used) - 1)
	return s.block.first + int64(slot(s.place)*stretchTicks+place)*s.block.tick, s.slot*stretchTicks + place
}

// all ranges over the levels in use, best first, with their prices and slots.
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
