package market

import (
	"fmt"
	"log/slog"
	"math"
	"outcry/internal/testing/markettest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/trailtest"
)

// repeating is a journal that repeats its records.
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

// BenchmarkFeed applies the records of a market in which symbols trade around a middle: of five commands four are
// orders, of which about half are filled, and one is a cancel. The market returns to where it began, so that it can be
// repeated.
func BenchmarkFeed(b *testing.B) {
	for _, symbols := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("symbols=%d", symbols), func(b *testing.B) { benchmarkFeed(b, symbols, false) })
	}
}

func benchmarkFeed(b *testing.B, symbols int, listened bool) {
	if symbols > 1 {
		budget.SkipShort(b, "more symbols")
	}
	m := markettest.NewRandomMarket(1, 1000)
	for range symbols {
		m.MakeSymbol()
	}
	opening := m.Take()
	for range 200_000 {
		m.Trade()
	}
	m.CancelAll()
	round := m.Take()
	r := &repeating{records: opening}
	f := NewFeed(Options{Records: trailtest.Follow(r, 0, nil), Log: slog.New(slog.DiscardHandler)}, &Snapshot{})
	take := func(n int) {
		r.left = n
		require.NoError(b, f.step(background))
		f.TakeChanged(math.MaxInt, nil)
	}
	take(len(opening))
	r.records, r.seq = round, 0
	f.records = trailtest.Follow(r, 0, nil)
	take(len(round))
	if listened {
		for _, s := range m.Symbols {
			if _, err := f.Listen(s.Name, new(counting), func(*Market) {}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	take(b.N)
}

// counting is a listener that computes the checksum after each change.
type counting struct{ sum uint32 }

func (c *counting) Change(change *Change) { c.sum += change.Market.Checksum() }
func (c *counting) Flush(*Market)         {}
func (c *counting) End(error)             {}

// BenchmarkListenedFeed is BenchmarkFeed with a listener to each symbol.
func BenchmarkListenedFeed(b *testing.B) {
	for _, symbols := range []int{1, 100} {
		b.Run(fmt.Sprintf("symbols=%d", symbols), func(b *testing.B) { benchmarkFeed(b, symbols, true) })
	}
}

// BenchmarkCandles counts trades that are a millisecond or a second apart.
func BenchmarkCandles(b *testing.B) {
	for _, each := range []int64{1e6, 1e9} {
		b.Run(fmt.Sprintf("apart=%s", time.Duration(each)), func(b *testing.B) {
			var slots int
			var c candles
			t := exchange.Trade{Price: 100e8, Shares: 5, Buy: 2, Sell: 1}
			b.ReportAllocs()
			for n := range b.N {
				t.Time += each
				c.add(&t, uint64(n+1), uint64(n), &slots)
			}
		})
	}
}
