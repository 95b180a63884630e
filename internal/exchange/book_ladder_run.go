package exchange

import "slices"

// run is a sorted run of blocks with the best at its end, cut into chunks: a far
// block in a book of a million moves a chunk and not the whole run (figures:
// docs/decisions/0016).
//
// Invariants: no chunk is empty or longer than chunkMax; keys rise through all
// chunks; the blocks are linked in the same order; best is the slot of the level of
// bestKey, the greatest key of a level in use.
type run struct {
	bestKey  int64 // noKey where no order rests
	best     slot
	chunkMax int // how many blocks a chunk holds before it is split
	chunks   [][]rung
}

// rung is a block with its key beside it, so that a search stays in the chunk.
type rung struct {
	key   int64
	block *block
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

// block returns the block that begins with a key, made where there is none.
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

// link links b with its neighbours: its place is i in a chunk.
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

// remove takes out a block. It panics where it is not there.
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
	b.first = -1                 // a hint may still lead here
	b.worse, b.better = nil, nil // else a hint would keep all that were removed since
	r.chunks[c] = slices.Delete(r.chunks[c], i, i+1)
	if len(r.chunks[c]) == 0 {
		r.chunks = slices.Delete(r.chunks, c, c+1)
	}
}
