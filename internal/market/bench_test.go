package market

import (
	"fmt"
	"log/slog"
	"testing"
)

// repeating is a journal that holds the same records again and again.
type repeating struct {
	records [][]byte
	seq     uint64
	left    int
}

func (r *repeating) TryNext() (uint64, []byte, bool, error) {
	if r.left == 0 {
		return 0, nil, false, nil
	}
	r.left--
	r.seq++
	return r.seq, r.records[(r.seq-1)%uint64(len(r.records))], true, nil
}

func (r *repeating) Close() {}

// BenchmarkFeed takes in a market of 100 symbols that trade around a middle: four
// orders in five, of which about half are filled, and one cancel. The market comes
// back to where it began, so that it can go on for ever.
func BenchmarkFeed(b *testing.B) {
	for _, symbols := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("symbols=%d", symbols), func(b *testing.B) {
			m := newRandomMarket(1, 1000)
			for range symbols {
				m.makeSymbol()
			}
			opening := m.take()
			for range 200_000 {
				m.trade()
			}
			m.cancelAll()
			round := m.take()
			r := &repeating{records: opening}
			f := NewFeed(Options{Records: r, Log: slog.New(slog.DiscardHandler)}, &Snapshot{})
			take := func(n int) {
				for r.left = n; r.left > 0; {
					if _, err := f.takeChunk(); err != nil {
						b.Fatal(err)
					}
				}
				for _, s := range f.hub.pending {
					s.waits = false
				}
				f.hub.pending = f.hub.pending[:0]
			}
			take(len(opening))
			r.records, r.seq = round, 0
			f.seq.Store(0)
			take(len(round))
			b.ReportAllocs()
			b.ResetTimer()
			take(b.N)
		})
	}
}
