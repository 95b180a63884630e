package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkLadder measures the price levels for several maximum lengths of a chunk;
// with "sorted slice" chunks never split. An operation adds a random price's level, or
// drops it if it is in use, so that half of the prices have a level. spread is
// how many prices, counted from the best, the operations use; prices is the total
// number of prices, including those beyond the spread, which do not change.
func BenchmarkLadder(b *testing.B) {
	for _, shape := range []struct{ spread, prices int }{
		{100, 100},
		{10_000, 10_000},
		{100, 1_000_000},
		{1_000_000, 1_000_000},
	} {
		for _, chunkMax := range []int{64, 128, 256, 512, 1024, math.MaxInt} {
			name := fmt.Sprint(chunkMax)
			if chunkMax == math.MaxInt {
				name = "sorted slice"
			}
			b.Run(fmt.Sprintf("spread=%d/prices=%d/chunk=%s", shape.spread, shape.prices, name), func(b *testing.B) {
				benchmarkLadder(b, shape.spread, shape.prices, chunkMax)
			})
		}
	}
}

func benchmarkLadder(b *testing.B, spread, prices, chunkMax int) {
	l := newLadder(Buy, chunkMax)
	levels := make([]slot, prices+1) // by price; the best is the highest
	for p := 1; p <= prices; p += 2 {
		levels[p], _ = l.at(Price(p) * tick)
	}
	r := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		p := prices - r.IntN(spread)
		if at := levels[p]; at != 0 {
			l.drop(at)
			levels[p] = 0
		} else {
			levels[p], _ = l.at(Price(p) * tick)
		}
	}
}
