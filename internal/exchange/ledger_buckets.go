package exchange

// buckets is the part of a hash table that does not depend on what it holds: the
// first value of each chain, named by its slot. There is one bucket more than
// values at the least. The table grows by one bucket at a time, whose values were
// all in one other bucket (linear hashing), so that no command has to wait while a
// large table is made anew. The zero buckets are ready.
type buckets struct {
	first []slot
	mask  uint32 // the least 2^n - 1 that is not below the last bucket
}

// of returns where the chain of a hash begins. There is at least one bucket.
func (b *buckets) of(hash uint32) *slot {
	i := hash & b.mask
	if i >= uint32(len(b.first)) {
		i &= b.mask >> 1 // its own bucket is still to come
	}
	return &b.first[i]
}

// reserve sees to it that there are more buckets than values. link returns the hash
// of a value that is in a chain, and where the slot of the next one stands.
func (b *buckets) reserve(values int, link func(slot) (hash uint32, next *slot)) {
	for values >= len(b.first) {
		last := uint32(len(b.first))
		if last > b.mask {
			b.mask = 2*b.mask + 1
		}
		b.first = append(b.first, 0)
		if last == 0 {
			continue
		}
		from := &b.first[last&(b.mask>>1)]
		i := *from
		*from = 0
		for i != 0 { // each stays, or moves to the new bucket
			hash, next := link(i)
			first := b.of(hash)
			i, *next, *first = *next, *first, i
		}
	}
}
