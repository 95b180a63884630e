package market

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// candleTwin has all trades of S, and makes its candles from them in the most obvious way.
type candleTwin struct {
	trades []exchange.Trade
	seqs   []uint64 // of their records
}

// candles returns all candles of an interval that trades up to a record made. A trade belongs to the interval of its
// time, or to the newest one that there was before if that is later.
func (w *candleTwin) candles(i exchange.Interval, seq uint64) (all []exchange.Candle) {
	for n := range w.trades {
		if w.seqs[n] > seq {
			break
		}
		t := &w.trades[n]
		start := time.Unix(0, t.Time).UTC().Truncate(time.Duration(i.Length())).UnixNano()
		if last := len(all) - 1; last < 0 || start > all[last].Start {
			all = append(all, exchange.Candle{Start: start, First: uint64(n + 1), Open: t.Price, High: t.Price, Low: t.Price})
		}
		c := &all[len(all)-1]
		c.High, c.Low, c.Close = max(c.High, t.Price), min(c.Low, t.Price), t.Price
		c.Trades++
		c.Shares = c.Shares.Add(t.Shares.Position())
		c.Notional = c.Notional.Add(exchange.Notional(t.Shares, t.Price))
		if t.Side() == exchange.Buy {
			c.TakerBought = c.TakerBought.Add(t.Shares.Position())
			c.TakerPaid = c.TakerPaid.Add(exchange.Notional(t.Shares, t.Price))
		}
	}
	return all
}

// candleMarket makes records of S, with prices from 1 to 40: buys rest up to 20, sells above.
type candleMarket struct {
	candleTwin
	r     *rand.Rand
	seq   uint64
	order exchange.OrderID
	now   int64
}

func newCandleMarket(seed uint64) (m *candleMarket, opening [][]byte) {
	m = &candleMarket{r: rand.New(rand.NewPCG(seed, 4)), now: 1_795_000_000 * exchange.Second}
	opening = [][]byte{made}
	for p := exchange.Price(1); p <= 40; p++ {
		m.order++
		opening = append(opening, placed(m.order, m.sideAt(p), 1e15, p))
	}
	m.seq = uint64(len(opening))
	return m, opening
}

// sideAt returns the side that rests at a price.
func (m *candleMarket) sideAt(p exchange.Price) exchange.Side {
	if p <= 20 {
		return exchange.Buy
	}
	return exchange.Sell
}

// trade returns the record of an order that trades once or more, at a later time, or now and then at an earlier one.
func (m *candleMarket) trade() []byte {
	switch m.r.IntN(20) {
	case 0:
		m.now += m.r.Int64N(400) * exchange.Second
	case 1:
		m.now += m.r.Int64N(5000) * exchange.Second
	case 2:
		m.now -= m.r.Int64N(200) * exchange.Second
	default:
		m.now += m.r.Int64N(exchange.Second)
	}
	m.seq++
	m.order++
	p := exchange.Price(1 + m.r.IntN(40))
	e := exchange.Event{Kind: exchange.OrderAccepted, Order: m.order, Time: m.now, Terms: exchange.Terms{
		Side: exchange.Buy + exchange.Sell - m.sideAt(p), Limit: p}}
	for range 1 + m.r.IntN(2) {
		n := exchange.Shares(1 + m.r.IntN(1000))
		e.Shares += n
		e.Fills = append(e.Fills, exchange.Fill{Resting: exchange.OrderID(p), Account: "1", Shares: n, Price: p})
	}
	for i := range e.Fills {
		m.trades = append(m.trades, e.Trade(i))
		m.seqs = append(m.seqs, m.seq)
	}
	return event(e)
}

// snapshot is what a database would have at the newest record.
func (m *candleMarket) snapshot() *Snapshot {
	snap := &Snapshot{Seq: m.seq, Symbols: []exchange.SymbolState{{Symbol: "S"}}}
	open := map[exchange.Price]exchange.Shares{}
	var traded exchange.Traded
	for i := range m.trades {
		traded.Add(&m.trades[i])
		open[m.trades[i].Price] -= m.trades[i].Shares
	}
	for p := exchange.Price(1); p <= 40; p++ {
		snap.Orders = append(snap.Orders, exchange.OrderState{ID: exchange.OrderID(p), Symbol: "S", Open: 1e15 + open[p],
			Terms: exchange.Terms{Side: m.sideAt(p), Limit: p}})
	}
	if traded.Trades == 0 {
		return snap
	}
	snap.Traded = []exchange.TradedState{{Symbol: "S", Traded: traded}}
	for i := range exchange.Intervals {
		all := m.candles(i, m.seq)
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

// chosen are the candles that a query asks for.
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

// TestCandlesAreWhatTheTradesCameTo trades at random, over restarts, with a clock that is set back now and then,
// and a database that lags: what the feed answers is what a twin has, or says that the database is behind.
func TestCandlesAreWhatTheTradesCameTo(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m, opening := newCandleMarket(seed)
	var stored uint64
	asked, behind := 0, 0
	options := Options{Records: &listed{records: opening},
		Stored: func() uint64 { return stored },
		Candles: func(_ context.Context, sym exchange.Symbol, i exchange.Interval, from, to int64, limit int) (
			[]exchange.Candle, error,
		) {
			require.Equal(t, exchange.Symbol("S"), sym)
			asked++
			return chosen(m.candles(i, stored), from, to, limit), nil
		}}
	f := NewFeed(options, &Snapshot{})
	for step := range 400 {
		for range m.r.IntN(20) {
			record := m.trade()
			f.options.Records.(*listed).records = append(f.options.Records.(*listed).records, record)
		}
		require.NoError(t, f.step(background))
		if stored = max(stored, m.seq-uint64(m.r.IntN(30))); m.r.IntN(20) == 0 {
			stored = m.seq
			options.Records = &listed{seq: m.seq}
			f = NewFeed(options, m.snapshot())
			f.slots.candles = m.r.IntN(2) * candleSlotsMax // of others: this one has the least then
			require.NoError(t, f.Err(), "step %d", step)
		}
		for i := range exchange.Intervals {
			want := m.candles(i, m.seq)
			require.NoError(t, f.View("S", func(v *Market) {
				if len(want) == 0 {
					require.Zero(t, v.Candle(i))
					return
				}
				require.Equal(t, want[len(want)-1], v.Candle(i))
				after := uint64(m.r.IntN(len(m.trades) + 1))
				recent := f.symbols["S"].candles.after(i, after, 3)
				wanted := slices.DeleteFunc(slices.Clone(want), func(c exchange.Candle) bool { return c.Last() <= after })
				wanted = wanted[len(wanted)-min(3, len(wanted)):]
				require.Equal(t, wanted[len(wanted)-min(len(wanted), len(recent)):], append([]exchange.Candle{}, recent...))
			}))
			q := CandlesQuery{Symbol: "S", Interval: i, Limit: 1 + m.r.IntN(30)}
			if len(want) > 0 && m.r.IntN(2) == 0 {
				q.From = want[m.r.IntN(len(want))].Start + m.r.Int64N(3) - 1
			}
			if len(want) > 0 && m.r.IntN(2) == 0 {
				q.To = want[m.r.IntN(len(want))].Start + m.r.Int64N(3) - 1
			}
			got, seq, err := f.Candles(background, q)
			if errors.Is(err, ErrNotStored) {
				behind++
				require.Less(t, stored, m.seq)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, m.seq, seq)
			require.Equal(t, chosen(want, q.From, q.To, q.Limit), append([]exchange.Candle{}, got...), "%+v", q)
		}
		if hours := m.candles(exchange.Candle1h, m.seq); len(hours) > 0 {
			from := hours[len(hours)-1].Start - m.r.Int64N(24)*exchange.Candle1h.Length()
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
	t.Logf("%d trades, the database was asked %d times, and behind %d times", len(m.trades), asked, behind)
}

// TestCandlesThatTheDatabaseLacksAreNotLeftOut: they were dropped from memory, so there is no answer until it has
// them.
func TestCandlesThatTheDatabaseLacksAreNotLeftOut(t *testing.T) {
	m, opening := newCandleMarket(1)
	var stored uint64
	f := NewFeed(Options{Records: &listed{records: opening}, Stored: func() uint64 { return stored },
		Candles: func(_ context.Context, _ exchange.Symbol, i exchange.Interval, from, to int64, limit int) (
			[]exchange.Candle, error,
		) {
			return chosen(m.candles(i, stored), from, to, limit), nil
		}}, &Snapshot{})
	f.slots.candles = candleSlotsMax // of others: this one has the least
	for range 100 {
		f.options.Records.(*listed).records = append(f.options.Records.(*listed).records, m.trade())
	}
	require.NoError(t, f.step(background))
	require.Len(t, f.symbols["S"].candles.rings[exchange.Candle1s].ring, candlesMin)
	want := m.candles(exchange.Candle1s, m.seq)
	q := CandlesQuery{Symbol: "S", Interval: exchange.Candle1s, Limit: 3}
	got, _, err := f.Candles(background, q)
	require.NoError(t, err)
	require.Equal(t, want[len(want)-3:], got, "these are in memory")
	q.Limit = 4
	_, _, err = f.Candles(background, q)
	require.ErrorIs(t, err, ErrNotStored)

	last := want[len(want)-4].Last() // of the newest that was dropped
	stored = m.seqs[last-1] - 1
	_, _, err = f.Candles(background, q)
	require.ErrorIs(t, err, ErrNotStored)
	stored = m.seqs[last-1]
	got, _, err = f.Candles(background, q)
	require.NoError(t, err)
	require.Equal(t, want[len(want)-4:], got)
}

// TestCandlesOfASnapshotFitItsTrades, else there is no market data.
func TestCandlesOfASnapshotFitItsTrades(t *testing.T) {
	m, _ := newCandleMarket(2)
	for range 500 {
		m.trade()
	}
	require.NoError(t, feedOf(&listed{seq: m.seq}, m.snapshot()).Err())
	for want, change := range map[string]func(*Snapshot){
		"S: the newest of 1s has trades": func(s *Snapshot) { s.Candles[0].Trades++ },
		"S: the newest of 1s":            func(s *Snapshot) { s.Candles = s.Candles[1:] },
		"1m has less than that of 1s": func(s *Snapshot) {
			second := &s.Candles[0]
			second.First, second.Trades = 1, second.Last()
		},
		"out of its order": func(s *Snapshot) { s.Candles[0].Start++ },
		"never made":       func(s *Snapshot) { s.Candles[0].Symbol = "NONE" },
	} {
		snap := m.snapshot()
		change(snap)
		require.ErrorContains(t, feedOf(&listed{seq: m.seq}, snap).Err(), want)
	}
}

// TestMemoryOfCandlesIsBounded, of one symbol and of all together.
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

// candleAnswer is a candle as clients decode it.
type candleAnswer struct {
	StartMs                                  int64 `json:"start_ms"`
	Open, High, Low, Close, Shares, Notional string
	First, Trades                            uint64
}

type candlesAnswer struct {
	Sym, Interval string
	Seq           uint64
	Candles       []candleAnswer
}

// told returns how candles should be told.
func told(all []exchange.Candle) (want []candleAnswer) {
	want = []candleAnswer{}
	for _, c := range all {
		want = append(want, candleAnswer{c.Start / 1e6, c.Open.String(), c.High.String(), c.Low.String(), c.Close.String(),
			c.Shares.String(), c.Notional.String(), c.First, c.Trades})
	}
	return want
}

// TestCandlesAreTold over HTTP and in the stream, and what is asked for wrongly is refused with the reason.
func TestCandlesAreTold(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := openSite(t, func(*APIOptions) {})
	m, opening := newCandleMarket(seed)
	s.play(opening...)
	var got candlesAnswer
	require.Equal(t, http.StatusOK, s.get("/api/v1/candles/S?interval=1m", &got))
	require.Equal(t, candlesAnswer{"S", "1m", m.seq, []candleAnswer{}}, got)
	var records [][]byte
	for range 100 {
		records = append(records, m.trade())
	}
	s.play(records...)
	for i := range exchange.Intervals {
		want := told(m.candles(i, m.seq))
		path := "/api/v1/candles/S?interval=" + i.String()
		require.Equal(t, http.StatusOK, s.get(path, &got))
		require.Equal(t, candlesAnswer{"S", i.String(), m.seq, want}, got)
		first := want[len(want)/2]
		require.Equal(t, http.StatusOK, s.get(path+"&limit=1&start="+strconv.FormatInt(first.StartMs, 10), &got))
		require.Equal(t, []candleAnswer{first}, got.Candles)
		require.Equal(t, http.StatusOK, s.get(path+"&limit=1&end="+strconv.FormatInt(first.StartMs, 10), &got))
		require.Equal(t, []candleAnswer{first}, got.Candles)
		require.Equal(t, http.StatusOK, s.get(path+"&end="+strconv.FormatInt(want[0].StartMs-1, 10), &got))
		require.Empty(t, got.Candles)
	}
	for path, want := range map[string]string{
		"S":                                         "interval \"\" is not one of",
		"S?interval=1w":                             "interval \"1w\" is not one of",
		"S?interval=1m&limit=1001":                  "limit \"1001\" is not a number",
		"S?interval=1m&start=0":                     "start \"0\" is not a number of milliseconds",
		"S?interval=1m&start=9223372036855":         "start \"9223372036855\" is not a number",
		"S?interval=1m&end=2026-01-01":              "end \"2026-01-01\" is not a number",
		"not-a-symbol?interval=1m":                  "symbol \"not-a-symbol\"",
		"S?interval=1m&end=99999999999999999999999": "end \"99999999999999999999999\"",
	} {
		var refused struct{ Error string }
		require.Equal(t, http.StatusBadRequest, s.get("/api/v1/candles/"+path, &refused), path)
		require.Contains(t, refused.Error, want)
	}
	var refused struct{ Error string }
	require.Equal(t, http.StatusNotFound, s.get("/api/v1/candles/NONE?interval=1m", &refused))
	require.Equal(t, http.StatusBadRequest, s.get("/api/v1/stream?sym=S&interval=2m", &refused))

	r := s.open("sym=S&interval=1s")
	known := map[int64]candleAnswer{}
	for turn := 0; ; turn++ {
		e := r.until("candles", &got)
		require.Equal(t, e.id, got.Seq)
		require.Equal(t, "1s", got.Interval)
		for _, c := range got.Candles {
			known[c.StartMs] = c
		}
		if want := told(m.candles(exchange.Candle1s, m.seq)); got.Seq == m.seq {
			require.Equal(t, want[len(want)-1], got.Candles[len(got.Candles)-1])
			if turn == 0 {
				require.Equal(t, want[len(want)-1:], got.Candles)
			}
			for _, c := range want[slices.IndexFunc(want, func(c candleAnswer) bool { _, ok := known[c.StartMs]; return ok }):] {
				require.Equal(t, c, known[c.StartMs])
			}
			if turn > 3 {
				break
			}
			s.play(m.trade(), m.trade(), m.trade())
		}
	}
}
