package exchange

// buckets is the part of a hash table that does not depend on its values: the first
// value of each chain, by slot. There are always more buckets than values. The table
// grows by one bucket at a time, whose values come from one other bucket (linear
// hashing), so that no command waits for the rehashing of a large table. The zero
// buckets are ready to use.
type buckets struct {
	first []slot
	mask  uint32 // the smallest 2^n - 1 that is at least the index of the last bucket
}

// of returns where the chain of a hash begins. There must be at least one bucket.
func (b *buckets) of(hash uint32) *slot {
	i := hash & b.mask
	if i >= uint32(len(b.first)) {
		i &= b.mask >> 1 // its own bucket does not exist yet
	}
	return &b.first[i]
}

// reserve adds buckets until there are more than values. link returns the hash of a
// value that is in a chain, and a pointer to the slot of the next value in the chain.
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
		for i != 0 { // each value stays, or moves to the new bucket
			hash, next := link(i)
			first := b.of(hash)
			i, *next, *first = *next, *first, i
		}
	}
}
