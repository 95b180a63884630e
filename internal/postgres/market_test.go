package postgres

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// tradedOf returns the totals of the trades in events, and all trades.
func tradedOf(events []exchange.Event) (sums map[exchange.Symbol]exchange.Traded,
	trades map[exchange.Symbol][]exchange.Trade) {
	sums, trades = map[exchange.Symbol]exchange.Traded{}, map[exchange.Symbol][]exchange.Trade{}
	for _, e := range events {
		for i := range e.Fills {
			t, sum := e.Trade(i), sums[e.Symbol]
			sum.Add(&t)
			sums[e.Symbol] = sum
			trades[e.Symbol] = append(trades[e.Symbol], t)
		}
	}
	return sums, trades
}

// requireMarket requires that the loaded totals and trades are those of events.
func requireMarket(t *testing.T, s *Store, events []exchange.Event) {
	t.Helper()
	wantSums, wantTrades := tradedOf(events)
	traded, trades, err := s.LoadMarket(background)
	require.NoError(t, err)
	sums := map[exchange.Symbol]exchange.Traded{}
	for _, d := range traded {
		sums[d.Symbol] = d.Traded
	}
	require.Equal(t, wantSums, sums)
	got := map[exchange.Symbol][]exchange.Trade{}
	for _, trade := range trades {
		got[trade.Symbol] = append(got[trade.Symbol], trade.Trade)
	}
	require.Equal(t, wantTrades, got)
}

func TestTheMarketFollowsWhatIsTraded(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	requireMarket(t, s, nil)
	var events []exchange.Event
	for range 5 {
		events = append(events, written(t, s, h, 400)...)
		requireMarket(t, s, events)
	}
	require.NoError(t, mustOpenArchive(t, url).CheckMarket(background))
}

// TestTheMarketOfAnOldDatabaseIsFilledFromHistory reverts migration 3 and later ones, and upgrades.
func TestTheMarketOfAnOldDatabaseIsFilledFromHistory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	h.plain = true
	events := written(t, s, h, 1000)
	_, err := s.conn.Exec(background, undoOperations+`DROP TABLE public.market;
		UPDATE public.outcry_schema_version SET version = 2`)
	require.NoError(t, err)
	s.Close()
	var log bytes.Buffer
	s, err = Open(background, url, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.Contains(t, log.String(), fmt.Sprintf("version=2 new_version=%d", SchemaVersion()))
	requireMarket(t, s, events)
	events = append(events, written(t, s, h, 300)...)
	requireMarket(t, s, events)
	require.NoError(t, mustOpenArchive(t, url).CheckMarket(background))
}

// TestTurnoverHasNoBound trades the largest orders until the sum exceeds a Cash, within one batch and over
// several.
func TestTurnoverHasNoBound(t *testing.T) {
	s := mustOpen(t, newTables(t))
	const most = math.MaxInt64 / 10
	var events []exchange.Event
	b := newBatch()
	for range 3 {
		seq := uint64(len(events))
		b.reset(seq)
		for range 200 {
			e := exchange.Event{Kind: exchange.OrderAccepted, Symbol: "S", Terms: exchange.Terms{Side: exchange.Buy,
				Limit: most}, Order: 2, Shares: most,
				Fills: []exchange.Fill{{Resting: 1, Shares: most, Price: most}}}
			events = append(events, e)
			b.trade(&e)
		}
		w := &writer{ctx: background, conn: s.conn}
		w.traded(b)
		require.NoError(t, w.err)
	}
	want, _ := tradedOf(events)
	traded, _, err := s.LoadMarket(background)
	require.NoError(t, err)
	require.Len(t, traded, 1)
	require.Equal(t, want["S"], traded[0].Traded)
	require.Greater(t, traded[0].Notional.Rounds, uint64(10), "beyond what a Cash has room for")
}
