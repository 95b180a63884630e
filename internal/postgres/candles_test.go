package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// TestCandlesAreThoseOfTheTrades compares pages of candles of every interval, and the candles from which a
// feed starts, with the trades.
func TestCandlesAreThoseOfTheTrades(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	h, s, _, w, past := detailed(t, budget.Of(12_000))
	var newest []exchange.CandleState
	for _, sym := range []exchange.Symbol{"A", "B", "C"} {
		for i := range exchange.Intervals {
			all := w.candles[sym][i]
			last := len(all) - 1
			from := last
			for i == exchange.Candle1h && from > 0 && all[from-1].Start >= all[last].Start-25*i.Length() {
				from--
			}
			for _, c := range all[from:] {
				newest = append(newest, exchange.CandleState{Symbol: sym, Interval: i, Candle: c})
			}
			for range 20 {
				from, to, limit := int64(0), int64(0), 1+h.r.IntN(40)
				if h.r.IntN(2) == 0 {
					from = 1 + all[h.r.IntN(len(all))].Start + h.r.Int64N(3) - 1
				}
				if h.r.IntN(2) == 0 {
					to = 1 + all[h.r.IntN(len(all))].Start + h.r.Int64N(3) - 1
				}
				want := slices.DeleteFunc(slices.Clone(all), func(c exchange.Candle) bool {
					return c.Start < from || to != 0 && c.Start >= to
				})
				if from != 0 {
					want = want[:min(len(want), limit)]
				} else {
					want = want[max(0, len(want)-limit):]
				}
				got, err := past.Candles(background, sym, i, from, to, limit)
				require.NoError(t, err)
				require.Equal(t, append([]exchange.Candle{}, want...), append([]exchange.Candle{}, got...),
					"%s %s, %d to %d, %d", sym, i, from, to, limit)
			}
		}
	}
	require.Greater(t, len(w.candles["A"][exchange.Candle5m]), 5)
	got, err := s.LoadCandles(background)
	require.NoError(t, err)
	require.Equal(t, newest, got)
}

// TestCandlesFollowEachOtherThoughTheClockDoesNot trades at times that go backward, within a batch and between
// batches.
func TestCandlesFollowEachOtherThoughTheClockDoesNot(t *testing.T) {
	url := newTables(t)
	s, h, w := mustOpen(t, url), newHistory(uint64(time.Now().UnixNano())), newDetailTwin()
	b, seq := newBatch(), uint64(0)
	add := func(e exchange.Event) {
		seq++
		require.NoError(t, addKept(b, seq, &e))
		w.apply(seq, &e)
	}
	b.reset(0)
	add(exchange.Event{Kind: exchange.AccountOpened, Account: "1", Balance: exchange.Notional(1e9*1e8, 1e8)})
	add(exchange.Event{Kind: exchange.SymbolMade, Symbol: "A"})
	add(exchange.Event{Kind: exchange.SharesDeposited, Account: "1", Symbol: "A",
		Deposited: exchange.Shares(1e6 * 1e8).Position()})
	at := int64(1_800_000_000) * exchange.Second
	order := exchange.OrderID(0)
	place := func(side exchange.Side, fills ...exchange.Fill) {
		order++
		add(exchange.Event{Kind: exchange.OrderAccepted, Account: "1", Symbol: "A", Order: order, Shares: 1e8, Time: at,
			Terms: exchange.Terms{Side: side, Limit: exchange.Price(100+order) * 1e8}, Fills: fills})
	}
	for range 300 {
		place(exchange.Sell)
		place(exchange.Buy, exchange.Fill{Account: "1", Resting: order, Shares: 1e8, Price: exchange.Price(100+order) * 1e8})
		if at += h.r.Int64N(90 * exchange.Second); h.r.IntN(10) == 0 {
			at -= h.r.Int64N(3600 * exchange.Second)
		}
		if h.r.IntN(20) == 0 {
			_, err := s.write(background, b)
			require.NoError(t, err)
			b.reset(seq)
		}
	}
	_, err := s.write(background, b)
	require.NoError(t, err)
	past, err := OpenHistory(background, url, "")
	require.NoError(t, err)
	defer past.Close()
	same := func() {
		for i := range exchange.Intervals {
			got, err := past.Candles(background, "A", i, 0, 0, 1000)
			require.NoError(t, err)
			require.Equal(t, w.candles["A"][i], got, i.String())
		}
		a := mustOpenArchive(t, url)
		defer a.Close() // an upgrade waits for readers to close
		require.NoError(t, a.CheckCandles(background))
	}
	same()
	asNinth(t, s)
	mustReopen(t, s, url)
	same()
}
