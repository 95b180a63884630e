package exchange

import (
	"math/bits"
	"slices"
)

// run is a sorted run of stretches with the best at its end, cut into chunks: a far
// stretch in a book of a million moves a chunk and not the whole run (figures:
// docs/decisions/0006).
//
// Invariants: no chunk is empty or longer than chunkMax; keys rise through all
// chunks.
type run struct {
	chunkMax int // how many stretches a chunk holds before it is split
	chunks   [][]rung
}

// rung is a stretch with its key beside it, so that a search stays in the chunk.
type rung struct {
	key     int64
	stretch *stretch
}

// ladderChunkMax is the chunkMax of every book. Only tests and measurements use
// another one.
const ladderChunkMax = 256

// search returns where key is, or the chunk and place where it belongs. Its
// comparisons become conditional moves: which way one goes cannot be foreseen.
func (r *run) search(key int64) (chunk, i int, found bool) {
	if len(r.chunks) == 0 {
		return 0, 0, false
	}
	chunk = len(r.chunks) - 1
	if r.chunks[chunk][0].key > key {
		chunk = 0 // becomes the last that begins at or below key
		for n := len(r.chunks); n > 1; {
			half := n / 2
			if r.chunks[chunk+half][0].key <= key {
				chunk += half
			}
			n -= half
		}
	}
	rungs := r.chunks[chunk] // i becomes the first rung at or above key
	for n := len(rungs); n > 1; {
		half := n / 2
		if rungs[i+half-1].key < key {
			i += half
		}
		n -= half
	}
	if rungs[i].key < key {
		i++
	}
	return chunk, i, i < len(rungs) && rungs[i].key == key
}

// insert puts g at place i of a chunk and splits the chunk when it is full.
func (r *run) insert(c, i int, g rung) {
	if len(r.chunks) == 0 {
		r.chunks = append(r.chunks, make([]rung, 0, 4))
	}
	r.chunks[c] = slices.Insert(r.chunks[c], i, g)
	if n := len(r.chunks[c]); n > r.chunkMax {
		upper := slices.Clone(r.chunks[c][n/2:])
		clear(r.chunks[c][n/2:])
		r.chunks[c] = r.chunks[c][:n/2]
		r.chunks = slices.Insert(r.chunks, c+1, upper)
	}
}

// remove takes out the stretch of a key. It panics where there is none.
func (r *run) remove(key int64) {
	c, i, found := r.search(key)
	if !found {
		panic("exchange: dropping a stretch of prices that is not in the book")
	}
	r.chunks[c] = slices.Delete(r.chunks[c], i, i+1)
	if len(r.chunks[c]) == 0 {
		r.chunks = slices.Delete(r.chunks, c, c+1)
	}
}

// below returns the key and slot of the best level in use whose key is below the
// given one, noKey and 0 where there is none.
func (r *run) below(key int64) (int64, slot) {
	c := len(r.chunks) - 1
	if c < 0 {
		return noKey, 0
	}
	i := len(r.chunks[c]) // behind the stretch in question
	if r.chunks[c][i-1].key >= key {
		c, i, _ = r.search(key)
	}
	for {
		if i--; i < 0 {
			if c--; c < 0 {
				return noKey, 0
			}
			i = len(r.chunks[c]) - 1
		}
		if k, at := r.chunks[c][i].stretch.below(key); at != 0 {
			return k, at
		}
	}
}

// below is run.below for one stretch that begins below key.
func (s *stretch) below(key int64) (int64, slot) {
	used := s.used
	if n := (key-1-s.first)/s.tick + 1; n < stretchTicks {
		used &= 1<<n - 1
	}
	if used == 0 {
		return noKey, 0
	}
	place := int64(bits.Len16(used) - 1)
	return s.first + place*s.tick, s.slot*stretchTicks + slot(place)
}
