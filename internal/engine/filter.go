package engine

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"sync"

	"outcry/internal/exchange"
)

const (
	// filterBlockRefs is how many refs a block of 512 bits takes: 24 bits for each, so
	// that a layer which is full lets one in some 13,000 others pass.
	filterBlockRefs = 21

	// filterLayerMin is how many blocks the first layer has, 256 KiB for 86,016 refs.
	// Each further layer has twice as many, filterDoublings times: up to 64 MiB.
	filterLayerMin  = 1 << 12
	filterDoublings = 8

	// filterAddMax is how many refs are added before readers have their turn.
	filterAddMax = 512
)

// refFilter knows which refs were certainly never used: a Bloom filter in layers, of
// which only the last grows. The eight bits of a ref are in one cache line of each
// layer. Its methods may be called from any goroutine.
type refFilter struct {
	seed maphash.Seed // clients choose refs: nobody can choose them to be alike

	mu     sync.RWMutex
	layers []filterLayer
}

// filterLayer is a filter for as many refs as its blocks take.
type filterLayer struct {
	blocks [][8]uint64
	room   int // for refs
}

func newRefFilter() *refFilter { return &refFilter{seed: maphash.MakeSeed()} }

// add adds refs.
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
		if f.perhaps(h) {
			continue // there already, or as good as
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

// mayHave reports whether a ref was perhaps added; false is certain.
func (f *refFilter) mayHave(key exchange.RefKey) bool {
	h := f.hash(key)
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.perhaps(h)
}

// perhaps is mayHave, under mu. The last layers have the most refs.
func (f *refFilter) perhaps(h uint64) bool {
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].has(h) {
			return true
		}
	}
	return false
}

// bytes returns the memory that the filter takes.
func (f *refFilter) bytes() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := 0
	for i := range f.layers {
		n += len(f.layers[i].blocks) * len(f.layers[i].blocks[0]) * 8
	}
	return n
}

// hash mixes both names of a ref, so that neither can stand for the other's end.
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

// block is chosen by the upper bits of the hash, and the bits in it by a multiple.
func (l *filterLayer) block(h uint64) *[8]uint64 {
	n, _ := bits.Mul64(h, uint64(len(l.blocks)))
	return &l.blocks[n]
}

func filterBit(h uint64, i int) uint64 {
	return 1 << (h * 0xd6e8feb86659fd93 >> (6*i + 16) & 63)
}
