package engine

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"sync"

	"outcry/internal/exchange"
)

const (
	// filterBlockRefs is how many refs a block of 512 bits holds: 24 bits for each. A full
	// layer then has one false positive in about 13,000 lookups.
	filterBlockRefs = 21

	// filterLayerMin is how many blocks the first layer has: 256 KiB for 86,016 refs.
	// Each of the next filterDoublings layers has twice as many as the one before, up to 64 MiB;
	// later layers have that size too.
	filterLayerMin  = 1 << 12
	filterDoublings = 8

	// filterAddMax is how many refs are added under one lock before it is released for readers.
	filterAddMax = 512
)

// refFilter reports which refs were certainly never used. It is a Bloom filter in layers, of
// which only the last grows. The eight bits of a ref are in one cache line of each
// layer. Its methods may be called from any goroutine.
type refFilter struct {
	seed maphash.Seed // random, so that clients cannot choose refs that collide

	mu     sync.RWMutex
	layers []filterLayer
}

// filterLayer is a filter for a fixed number of refs.
type filterLayer struct {
	blocks [][8]uint64
	room   int // how many more refs fit
}

func newRefFilter() *refFilter { return &refFilter{seed: maphash.MakeSeed()} }

// add adds refs to the filter.
func (f *refFilter) add(refs iter.Seq[exchange.RefKey]) {
	hashes := make([]uint64, 0, filterAddMax)
	for key := range refs {
		if hashes = append(hashes, f.hash(key)); len(hashes) == filterAddMax {
			f.addHashes(hashes)
			hashes = hashes[:0]
		}
	}
	f.addHashes(hashes)
}

func (f *refFilter) addHashes(hashes []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hashes {
		if f.mayHaveHash(h) {
			continue // present already, or a false positive, which has the same effect
		}
		n := len(f.layers)
		if n == 0 || f.layers[n-1].room == 0 {
			blocks := filterLayerMin << min(n, filterDoublings)
			f.layers = append(f.layers, filterLayer{make([][8]uint64, blocks), blocks * filterBlockRefs})
			n++
		}
		layer := &f.layers[n-1]
		layer.room--
		block := layer.block(h)
		for i := range block {
			block[i] |= filterBit(h, i)
		}
	}
}

// mayHave reports whether a ref may have been added. False means that it certainly was not.
func (f *refFilter) mayHave(key exchange.RefKey) bool {
	h := f.hash(key)
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mayHaveHash(h)
}

// mayHaveHash is mayHave for callers that hold mu. It searches the last layers first, because they have the most refs.
func (f *refFilter) mayHaveHash(h uint64) bool {
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].has(h) {
			return true
		}
	}
	return false
}

// bytes returns the size of the filter's memory in bytes.
func (f *refFilter) bytes() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := 0
	for i := range f.layers {
		n += len(f.layers[i].blocks) * len(f.layers[i].blocks[0]) * 8
	}
	return n
}

// hash hashes the account and the ref separately, so that ("ab", "c") and ("a", "bc") differ.
func (f *refFilter) hash(key exchange.RefKey) uint64 {
	account := maphash.String(f.seed, string(key.Account))
	return (maphash.String(f.seed, string(key.Ref)) ^ bits.RotateLeft64(account, 32)) * 0x9e3779b97f4a7c15
}

func (l *filterLayer) has(h uint64) bool {
	block := l.block(h)
	for i := range block {
		if block[i]&filterBit(h, i) == 0 {
			return false
		}
	}
	return true
}

// block returns the block of a ref: the upper bits of the hash choose it. filterBit chooses the bits in it.
func (l *filterLayer) block(h uint64) *[8]uint64 {
	n, _ := bits.Mul64(h, uint64(len(l.blocks)))
	return &l.blocks[n]
}

func filterBit(h uint64, i int) uint64 {
	return 1 << (h * 0xd6e8feb86659fd93 >> (6*i + 16) & 63)
}
