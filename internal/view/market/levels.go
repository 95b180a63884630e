package market

import (
	"iter"
	"slices"
	"sort"

	"outcry/internal/exchange"
)

// levelsMax is the maximum number of levels in a chunk, and so of levels moved when one is added or removed.
const levelsMax = 128

// level is the open shares at one price.
type level struct {
	key    int64
	shares exchange.Position // more than 0; the sum of many orders may exceed the maximum of one order
}

// levels is the price levels of one side of a book, best last, because most changes are at the best price. A value
// with only up set is empty.
//
// Invariants: no chunk is empty or longer than levelsMax; keys rise within a chunk and from chunk to chunk.
type levels struct {
	up     int64 // 1 for buys, -1 for sells, so that a better price has a higher key
	chunks [][]level
}

// add changes the open shares at a price. ok is false if the result would be negative, and then l is unchanged.
func (l *levels) add(price exchange.Price, change exchange.Position) (ok bool) {
	key := l.up * int64(price)
	c := l.chunk(key)
	if c < 0 {
		return l.insert(0, 0, level{key, change})
	}
	chunk := l.chunks[c]
	i := sort.Search(len(chunk), func(i int) bool { return chunk[i].key >= key })
	if i == len(chunk) || chunk[i].key != key {
		return l.insert(c, i, level{key, change})
	}
	sum := chunk[i].shares.Add(change)
	switch sum.Sign() {
	case 1:
		chunk[i].shares = sum
	case 0:
		l.remove(c, i)
	default:
		return false
	}
	return true
}

// chunk returns the index of the chunk that has a key, or where the key belongs; -1 if there are no chunks.
func (l *levels) chunk(key int64) int {
	last := len(l.chunks) - 1
	if last <= 0 || l.chunks[last][0].key <= key {
		return last
	}
	return max(0, sort.Search(last, func(i int) bool { return l.chunks[i][0].key > key })-1)
}

// insert inserts a level at index i of chunk c, and splits the chunk if it is full.
func (l *levels) insert(c, i int, v level) (ok bool) {
	if v.shares.Sign() <= 0 {
		return false
	}
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, make([]level, 0, 4))
	}
	chunk := l.chunks[c]
	if len(chunk) == levelsMax {
		const half = levelsMax / 2
		upper := append(make([]level, 0, levelsMax), chunk[half:]...)
		chunk = chunk[:half]
		l.chunks[c] = chunk
		l.chunks = slices.Insert(l.chunks, c+1, upper)
		if i > half {
			c, i, chunk = c+1, i-half, upper
		}
	}
	l.chunks[c] = slices.Insert(chunk, i, v)
	return true
}

// remove removes a level. Small adjacent chunks are merged, so that there are never many nearly empty ones.
func (l *levels) remove(c, i int) {
	l.chunks[c] = slices.Delete(l.chunks[c], i, i+1)
	if left := len(l.chunks[c]); left > levelsMax/4 || l.join(c) || l.join(c-1) || left > 0 {
		return
	}
	l.chunks = slices.Delete(l.chunks, c, c+1)
}

// join merges chunk c with the next one if both exist and are small. It reports whether it did.
func (l *levels) join(c int) bool {
	if c < 0 || c+1 >= len(l.chunks) || len(l.chunks[c])+len(l.chunks[c+1]) > levelsMax/2 {
		return false
	}
	l.chunks[c] = append(l.chunks[c], l.chunks[c+1]...)
	l.chunks = slices.Delete(l.chunks, c+1, c+2)
	return true
}

// meets reports whether an order of the opposite side with this limit would execute here.
func (l *levels) meets(limit exchange.Price) bool {
	n := len(l.chunks)
	if n == 0 {
		return false
	}
	last := l.chunks[n-1]
	return last[len(last)-1].key >= l.up*int64(limit)
}

// at returns the open shares at a price.
func (l *levels) at(price exchange.Price) (shares exchange.Position) {
	key := l.up * int64(price)
	if c := l.chunk(key); c >= 0 {
		chunk := l.chunks[c]
		i := sort.Search(len(chunk), func(i int) bool { return chunk[i].key >= key })
		if i < len(chunk) && chunk[i].key == key {
			return chunk[i].shares
		}
	}
	return shares
}

// all returns the levels, best first.
func (l *levels) all() iter.Seq2[exchange.Price, exchange.Position] {
	return func(yield func(exchange.Price, exchange.Position) bool) {
		for c := len(l.chunks) - 1; c >= 0; c-- {
			for i := len(l.chunks[c]) - 1; i >= 0; i-- {
				if v := &l.chunks[c][i]; !yield(exchange.Price(l.up*v.key), v.shares) {
					return
				}
			}
		}
	}
}

// best calls f for up to n levels, best first.
func (l *levels) best(n int, f func(exchange.Price, exchange.Position)) {
	for c := len(l.chunks) - 1; c >= 0; c-- {
		for i := len(l.chunks[c]) - 1; i >= 0; i-- {
			if n--; n < 0 {
				return
			}
			v := &l.chunks[c][i]
			f(exchange.Price(l.up*v.key), v.shares)
		}
	}
}
