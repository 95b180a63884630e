package exchange

import "slices"

// level is one price level: the resting orders of one side and price, oldest first.
type level struct {
	price        Price
	slot         slot // its own
	oldest, last slot
}

// ladder indexes the price levels of one side by price. Orders arrive and leave
// near the best price, so levels are kept sorted with the best at the end: the
// best is a cached pointer, and a new level moves only its better neighbours.
// The sorted run is cut into chunks, so that a far level in a book of a million
// levels moves a chunk and not the whole book (figures: docs/decisions).
//
// Invariants: no chunk is empty or longer than chunkMax; keys rise through
// all chunks; best is the last level, nil when there is none.
type ladder struct {
	sign     int64 // +1 for bids, -1 for asks: key = sign × price, so better is greater
	chunkMax int   // how many levels a chunk holds before it is split
	best     *level
	levels   int
	chunks   [][]rung
	slab     slab[level]
}

// rung is a level with its sort key beside it, so that a search stays in the chunk.
type rung struct {
	key   int64
	level slot
}

// ladderChunkMax is the chunkMax of every book. Only tests and measurements use
// another one.
const ladderChunkMax = 256

// at returns the level of a price, making it where there is none.
func (l *ladder) at(p Price) *level {
	if l.best != nil && l.best.price == p {
		return l.best
	}
	key := l.sign * int64(p)
	c, i, found := l.search(key)
	if found {
		return l.slab.at(l.chunks[c][i].level)
	}
	n := l.slab.take()
	lv := l.slab.at(n)
	*lv = level{price: p, slot: n}
	l.insert(c, i, rung{key, n})
	return lv
}

// drop removes an empty level.
func (l *ladder) drop(lv *level) {
	c, i, found := l.search(l.sign * int64(lv.price))
	if !found || l.chunks[c][i].level != lv.slot || lv.oldest != 0 {
		panic("exchange: dropping a price level that is not in the book, or not empty")
	}
	l.chunks[c] = slices.Delete(l.chunks[c], i, i+1)
	if len(l.chunks[c]) == 0 {
		l.chunks = slices.Delete(l.chunks, c, c+1)
	}
	l.levels--
	l.slab.give(lv.slot)
	l.findBest()
}

// search returns where key is, or the chunk and place where it belongs.
func (l *ladder) search(key int64) (chunk, i int, found bool) {
	if len(l.chunks) == 0 {
		return 0, 0, false
	}
	chunk = len(l.chunks) - 1
	if l.chunks[chunk][0].key > key {
		chunk, found = slices.BinarySearchFunc(l.chunks, key, func(c []rung, key int64) int { return compareKeys(c[0].key, key) })
		if !found && chunk > 0 {
			chunk--
		}
	}
	i, found = slices.BinarySearchFunc(l.chunks[chunk], key, func(r rung, key int64) int { return compareKeys(r.key, key) })
	return chunk, i, found
}

func compareKeys(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// insert puts r at place i of a chunk and splits the chunk when it is full.
func (l *ladder) insert(c, i int, r rung) {
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, make([]rung, 0, 8))
	}
	l.chunks[c] = slices.Insert(l.chunks[c], i, r)
	if n := len(l.chunks[c]); n > l.chunkMax {
		upper := slices.Clone(l.chunks[c][n/2:])
		clear(l.chunks[c][n/2:])
		l.chunks[c] = l.chunks[c][:n/2]
		l.chunks = slices.Insert(l.chunks, c+1, upper)
	}
	l.levels++
	l.findBest()
}

// findBest caches the last level.
func (l *ladder) findBest() {
	l.best = nil
	if n := len(l.chunks); n > 0 {
		last := l.chunks[n-1]
		l.best = l.slab.at(last[len(last)-1].level)
	}
}

// each calls f for every level, best first, until f returns false.
func (l *ladder) each(f func(*level) bool) {
	for c := len(l.chunks) - 1; c >= 0; c-- {
		for i := len(l.chunks[c]) - 1; i >= 0; i-- {
			if !f(l.slab.at(l.chunks[c][i].level)) {
				return
			}
		}
	}
}
