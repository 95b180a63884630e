package web

import (
	"net/http"
	"outcry/internal/exchange"
	"outcry/internal/testing/markettest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// answersOf returns candles as clients decode them.
func answersOf(all []exchange.Candle) (want []candleAnswer) {
	want = []candleAnswer{}
	for _, c := range all {
		want = append(want, candleAnswer{c.Start / 1e6, c.Open.String(), c.High.String(), c.Low.String(), c.Close.String(),
			c.Shares.String(), c.Notional.String(), c.First, c.Trades})
	}
	return want
}

// TestCandlesAreShown checks candles over HTTP and in the stream, and the refusals of wrong requests.
func TestCandlesAreShown(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := openSite(t, func(*APIOptions) {})
	m, opening := markettest.NewCandleMarket(seed)
	s.play(opening...)
	var got candlesAnswer
	require.Equal(t, http.StatusOK, s.get("/api/v1/candles/S?interval=1m", &got))
	require.Equal(t, candlesAnswer{"S", "1m", m.Seq, []candleAnswer{}}, got)
	var records [][]byte
	for range 100 {
		records = append(records, m.Trade())
	}
	s.play(records...)
	for i := range exchange.Intervals {
		want := answersOf(m.Candles(i, m.Seq))
		path := "/api/v1/candles/S?interval=" + i.String()
		require.Equal(t, http.StatusOK, s.get(path, &got))
		require.Equal(t, candlesAnswer{"S", i.String(), m.Seq, want}, got)
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
		if want := answersOf(m.Candles(exchange.Candle1s, m.Seq)); got.Seq == m.Seq {
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
			s.play(m.Trade(), m.Trade(), m.Trade())
		}
	}
}
