package market

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/markettest"
	"outcry/internal/testing/trailtest"
)

// candleSnapshotOf returns the snapshot that a database would have at the newest record.
func candleSnapshotOf(m *markettest.CandleMarket) *Snapshot {
	snap := &Snapshot{Seq: m.Seq, Symbols: []exchange.SymbolState{{Symbol: "S"}}}
	open := map[exchange.Price]exchange.Shares{}
	var traded exchange.Traded
	for i := range m.Trades {
		traded.Add(&m.Trades[i])
		open[m.Trades[i].Price] -= m.Trades[i].Shares
	}
	for p := exchange.Price(1); p <= 40; p++ {
		snap.Orders = append(snap.Orders, exchange.OrderState{ID: exchange.OrderID(p), Symbol: "S", Open: 1e15 + open[p],
			Terms: exchange.Terms{Side: m.SideAt(p), Limit: p}})
	}
	if traded.Trades == 0 {
		return snap
	}
	snap.Traded = []exchange.TradedState{{Symbol: "S", Traded: traded}}
	for i := range exchange.Intervals {
		all := m.Candles(i, m.Seq)
		keep := all[len(all)-1:]
		if i == exchange.Candle1h {
			keep = all[len(all)-min(len(all), windowHours):]
		}
		for _, c := range keep {
			snap.Candles = append(snap.Candles, exchange.CandleState{Symbol: "S", Interval: i, Candle: c})
		}
	}
	return snap
}

// chosen returns the candles that a query selects.
func chosen(all []exchange.Candle, from, to int64, limit int) []exchange.Candle {
	got := []exchange.Candle{}
	for _, c := range all {
		if c.Start >= from && (to == 0 || c.Start < to) {
			got = append(got, c)
		}
	}
	if from != 0 {
		return got[:min(len(got), limit)]
	}
	return got[len(got)-min(len(got), limit):]
}

// TestCandlesAreWhatTheTradesCameTo trades at random, with restarts, a clock that is occasionally set back, and a
// database that lags. The feed must return the candles of the trades, or the error that the database lags.
func TestCandlesAreWhatTheTradesCameTo(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m, opening := markettest.NewCandleMarket(seed)
	var stored uint64
	asked, behind := 0, 0
	source := &listed{records: opening}
	options := Options{Records: trailtest.Follow(source, 0, nil),
		Stored: func() uint64 { return stored },
		Candles: func(_ context.Context, sym exchange.Symbol, i exchange.Interval, from, to int64, limit int) (
			[]exchange.Candle, error,
		) {
			require.Equal(t, exchange.Symbol("S"), sym)
			asked++
			return chosen(m.Candles(i, stored), from, to, limit), nil
		}}
	f := NewFeed(options, &Snapshot{})
	for step := range 400 {
		for range m.R.IntN(20) {
			source.records = append(source.records, m.Trade())
		}
		require.NoError(t, f.step(background))
		if stored = max(stored, m.Seq-uint64(m.R.IntN(30))); m.R.IntN(20) == 0 {
			stored = m.Seq
			source = &listed{seq: m.Seq}
			options.Records = trailtest.Follow(source, m.Seq, nil)
			f = NewFeed(options, candleSnapshotOf(m))
			f.slots.candles = m.R.IntN(2) * candleSlotsMax // perhaps other symbols use all places
			require.NoError(t, f.Err(), "step %d", step)
		}
		for i := range exchange.Intervals {
			want := m.Candles(i, m.Seq)
			require.NoError(t, f.View("S", func(v *Market) {
				if len(want) == 0 {
					require.Zero(t, v.Candle(i))
					return
				}
				require.Equal(t, want[len(want)-1], v.Candle(i))
				after := uint64(m.R.IntN(len(m.Trades) + 1))
				recent := f.symbols["S"].candles.after(i, after, 3)
				wanted := slices.DeleteFunc(slices.Clone(want), func(c exchange.Candle) bool { return c.Last() <= after })
				wanted = wanted[len(wanted)-min(3, len(wanted)):]
				require.Equal(t, wanted[len(wanted)-min(len(wanted), len(recent)):], append([]exchange.Candle{}, recent...))
			}))
			q := CandlesQuery{Symbol: "S", Interval: i, Limit: 1 + m.R.IntN(30)}
			if len(want) > 0 && m.R.IntN(2) == 0 {
				q.From = want[m.R.IntN(len(want))].Start + m.R.Int64N(3) - 1
			}
			if len(want) > 0 && m.R.IntN(2) == 0 {
				q.To = want[m.R.IntN(len(want))].Start + m.R.Int64N(3) - 1
			}
			got, seq, err := f.Candles(background, q)
			if errors.Is(err, ErrNotStored) {
				behind++
				require.Less(t, stored, m.Seq)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, m.Seq, seq)
			require.Equal(t, chosen(want, q.From, q.To, q.Limit), append([]exchange.Candle{}, got...), "%+v", q)
		}
		if hours := m.Candles(exchange.Candle1h, m.Seq); len(hours) > 0 {
			from := hours[len(hours)-1].Start - m.R.Int64N(24)*exchange.Candle1h.Length()
			sum := exchange.Candle{}
			for _, c := range hours {
				switch {
				case c.Start < from:
				case sum.Trades == 0:
					sum = c
				default:
					sum.Join(&c)
				}
			}
			require.NoError(t, f.View("S", func(v *Market) { require.Equal(t, sum, v.Window(from)) }))
		}
	}
	require.Greater(t, asked, 100)
	require.Positive(t, behind)
	t.Logf("%d trades, the database was asked %d times, and behind %d times", len(m.Trades), asked, behind)
}

// TestCandlesThatTheDatabaseLacksAreNotLeftOut: the candles were dropped from memory, so the query fails until the
// database has them.
func TestCandlesThatTheDatabaseLacksAreNotLeftOut(t *testing.T) {
	m, opening := markettest.NewCandleMarket(1)
	var stored uint64
	source := &listed{records: opening}
	f := NewFeed(Options{Records: trailtest.Follow(source, 0, nil), Stored: func() uint64 { return stored },
		Candles: func(_ context.Context, _ exchange.Symbol, i exchange.Interval, from, to int64, limit int) (
			[]exchange.Candle, error,
		) {
			return chosen(m.Candles(i, stored), from, to, limit), nil
		}}, &Snapshot{})
	f.slots.candles = candleSlotsMax // other symbols use all places, so this one has the fewest
	for range 100 {
		source.records = append(source.records, m.Trade())
	}
	require.NoError(t, f.step(background))
	require.Len(t, f.symbols["S"].candles.rings[exchange.Candle1s].ring, candlesMin)
	want := m.Candles(exchange.Candle1s, m.Seq)
	q := CandlesQuery{Symbol: "S", Interval: exchange.Candle1s, Limit: 3}
	got, _, err := f.Candles(background, q)
	require.NoError(t, err)
	require.Equal(t, want[len(want)-3:], got, "these are in memory")
	q.Limit = 4
	_, _, err = f.Candles(background, q)
	require.ErrorIs(t, err, ErrNotStored)

	last := want[len(want)-4].Last() // the last trade of the newest candle that was dropped
	stored = m.Seqs[last-1] - 1
	_, _, err = f.Candles(background, q)
	require.ErrorIs(t, err, ErrNotStored)
	stored = m.Seqs[last-1]
	got, _, err = f.Candles(background, q)
	require.NoError(t, err)
	require.Equal(t, want[len(want)-4:], got)
}

// TestCandlesOfASnapshotFitItsTrades: a feed fails if the candles of its snapshot do not fit the trades.
func TestCandlesOfASnapshotFitItsTrades(t *testing.T) {
	m, _ := markettest.NewCandleMarket(2)
	for range 500 {
		m.Trade()
	}
	require.NoError(t, feedOf(&listed{seq: m.Seq}, candleSnapshotOf(m)).Err())
	for want, change := range map[string]func(*Snapshot){
		"S: the newest of 1s has trades": func(s *Snapshot) { s.Candles[0].Trades++ },
		"S: the newest of 1s":            func(s *Snapshot) { s.Candles = s.Candles[1:] },
		"1m has less than that of 1s": func(s *Snapshot) {
			second := &s.Candles[0]
			second.First, second.Trades = 1, second.Last()
		},
		"malformed or out of order": func(s *Snapshot) { s.Candles[0].Start++ },
		"never created":             func(s *Snapshot) { s.Candles[0].Symbol = "NONE" },
	} {
		snap := candleSnapshotOf(m)
		change(snap)
		require.ErrorContains(t, feedOf(&listed{seq: m.Seq}, snap).Err(), want)
	}
}

// TestMemoryOfCandlesIsBounded checks the bound of one symbol and the bound of all together.
func TestMemoryOfCandlesIsBounded(t *testing.T) {
	var slots int
	var busy candles
	for n := range uint64(3 * candlesMost) {
		busy.add(&exchange.Trade{Time: int64(n) * 86400 * exchange.Second, Price: 1, Shares: 1}, n+1, n, &slots)
	}
	require.Equal(t, int(exchange.Intervals)*candlesMost, slots)
	for i := range exchange.Intervals {
		require.Equal(t, candlesMost, busy.rings[i].n)
	}
	slots = candleSlotsMax
	var late candles
	for n := range uint64(100) {
		late.add(&exchange.Trade{Time: int64(n) * 86400 * exchange.Second, Price: 1, Shares: 1}, n+1, n, &slots)
	}
	require.Equal(t, candleSlotsMax+hoursMin+4*candlesMin, slots)
}
