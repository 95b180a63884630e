package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkLadder measures the level index for one choice, how long a chunk may
// get; "sorted slice" never splits. An operation makes a random price's level, or
// drops it where it is there, so that half of the prices have a level. spread is
// how many prices, counted from the best, the operations fall on; levels is how
// many prices there are, with those beyond the spread at rest.
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
	l := &ladder{sign: +1, chunkMax: chunkMax}
	levels := make([]*level, prices+1) // by price; the best is the highest
	for p := 1; p <= prices; p += 2 {
		levels[p] = l.at(Price(p))
	}
	r := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		p := prices - r.IntN(spread)
		if lv := levels[p]; lv != nil {
			l.drop(lv)
			levels[p] = nil
		} else {
			levels[p] = l.at(Price(p))
		}
	}
}
