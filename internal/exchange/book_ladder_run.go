package exchange

import "slices"

// run is a sorted list of blocks, best last, cut into chunks: inserting a distant
// block into a book of a million moves one chunk and not the whole list (figures:
// docs/decisions/0016).
//
// Invariants: no chunk is empty or longer than chunkMax; keys rise through all
// chunks; the blocks are linked in the same order; best is the slot of the level of
// bestKey, the greatest key of a level in use.
type run struct {
	bestKey  int64 // noKey if no order rests
	best     slot
	chunkMax int // a chunk with more blocks is split
	chunks   [][]rung
}

// rung is a block with a copy of its key, so that a search reads only the chunk.
type rung struct {
	key   int64
	block *block
}

// ladderChunkMax is the chunkMax of every book. Only tests and benchmarks use
// another value.
const ladderChunkMax = 256

// search returns the chunk and index of key, or where key would be inserted. Its comparisons compile to conditional
// moves, because their outcome is unpredictable.
func (r *run) search(key int64) (chunk, i int, found bool) {
	if len(r.chunks) == 0 {
		return 0, 0, false
	}
	chunk = len(r.chunks) - 1
	if r.chunks[chunk][0].key > key {
		chunk = 0 // becomes the last chunk whose first key is at or below key
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

// insert inserts g at index i of chunk c, and splits the chunk if it is too long.
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

// block returns the block whose first key is first, and makes it if there is none.
func (r *run) block(first, tick int64) *block {
	c, i, found := r.search(first)
	if found {
		return r.chunks[c][i].block
	}
	b := &block{first: first, tick: tick}
	if c < len(r.chunks) {
		r.link(b, r.chunks[c], i)
	}
	r.insert(c, i, rung{first, b})
	return b
}

// link links b with its neighbours; b is about to be inserted at index i of chunk.
func (r *run) link(b *block, chunk []rung, i int) {
	if i < len(chunk) {
		b.better = chunk[i].block
		b.worse, b.better.worse = b.better.worse, b
	} else {
		b.worse = chunk[i-1].block
		if b.better = b.worse.better; b.better != nil {
			b.better.worse = b
		}
	}
	if b.worse != nil {
		b.worse.better = b
	}
}

// remove removes a block. It panics if the block is not in the run.
func (r *run) remove(b *block) {
	c, i, found := r.search(b.first)
	if !found {
		panic("exchange: dropping a block of prices that is not in the book")
	}
	if b.worse != nil {
		b.worse.better = b.better
	}
	if b.better != nil {
		b.better.worse = b.worse
	}
	b.first = -1                 // a hint may still point here
	b.worse, b.better = nil, nil // otherwise a hint would keep all blocks removed since in memory
	r.chunks[c] = slices.Delete(r.chunks[c], i, i+1)
	if len(r.chunks[c]) == 0 {
		r.chunks = slices.Delete(r.chunks, c, c+1)
	}
}
