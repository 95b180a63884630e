package accounts

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
)

// BenchmarkRecords applies orders of 128 accounts for 10 symbols, of which every second one executes an older one, as
// the trail passes them on. The view has as many fills as it keeps.
func BenchmarkRecords(b *testing.B) {
	for _, depth := range []int{0, 1000} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			p := &trailtest.Pairs{Accounts: 128, Symbols: 10, Depth: depth}
			v := newView(new(memory), nil)
			events := make([]exchange.KeptEvent, 1<<14)
			seq := uint64(0)
			apply := func(events []exchange.KeptEvent) {
				for i := range events {
					seq++
					require.NoError(b, v.applyRecord(seq, &events[i]))
				}
			}
			for _, e := range p.Opening() {
				events[0].Keep(&e)
				apply(events[:1])
			}
			next := func(n int) []exchange.KeptEvent {
				for i := range events[:n] {
					e := p.Next()
					events[i].Recycle()
					events[i].Keep(&e)
				}
				return events[:n]
			}
			for range 2*fillsMax/len(events) + 20*depth/len(events) {
				apply(next(len(events)))
			}
			b.ReportAllocs()
			b.ResetTimer()
			least := math.MaxFloat64 // of all rounds, since other programs may use the processor
			for left := b.N; left > 0; left -= len(events) {
				b.StopTimer()
				some := next(min(left, len(events)))
				b.StartTimer()
				begun := time.Now()
				for i := range some {
					seq++
					if err := v.applyRecord(seq, &some[i]); err != nil {
						b.Fatal(err)
					}
				}
				least = min(least, float64(time.Since(begun))/float64(len(some)))
			}
			b.ReportMetric(least, "least-ns/op")
		})
	}
}
