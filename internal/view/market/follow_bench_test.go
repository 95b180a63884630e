package market

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
)

// BenchmarkRecords applies orders for 10 symbols, of which every second one executes an older one, as the trail passes
// them on. There are no listeners.
func BenchmarkRecords(b *testing.B) {
	p := &trailtest.Pairs{Accounts: 128, Symbols: 10, Depth: 0}
	f := NewFeed(Options{Log: slog.New(slog.DiscardHandler)}, &Snapshot{})
	events := make([]exchange.KeptEvent, 1<<14)
	seq := uint64(0)
	for _, e := range p.Opening() {
		events[0].Keep(&e)
		seq++
		require.NoError(b, f.applyRecord(seq, &events[0]))
	}
	b.ReportAllocs()
	b.ResetTimer()
	least := math.MaxFloat64 // of all rounds, since other programs may use the processor
	for left := b.N; left > 0; left -= len(events) {
		b.StopTimer()
		some := events[:min(left, len(events))]
		for i := range some {
			e := p.Next()
			some[i].Recycle()
			some[i].Keep(&e)
		}
		b.StartTimer()
		begun := time.Now()
		for i := range some {
			seq++
			if err := f.applyRecord(seq, &some[i]); err != nil {
				b.Fatal(err)
			}
		}
		least = min(least, float64(time.Since(begun))/float64(len(some)))
		f.TakeChanged(math.MaxInt, nil)
	}
	b.ReportMetric(least, "least-ns/op")
}
