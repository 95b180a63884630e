package web

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAHaltIsShownUntilItEnds checks the list of symbols and the stream.
func TestAHaltIsShownUntilItEnds(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	halted := func() string {
		var answer struct {
			Symbols []struct {
				Halted json.RawMessage
			}
		}
		require.Equal(t, 200, s.get("/api/v1/symbols", &answer))
		require.Len(t, answer.Symbols, 1)
		return string(answer.Symbols[0].Halted)
	}
	s.play(made, placed(1, exchange.Sell, 5, 7))
	require.Empty(t, halted())
	reader, _, err := s.api.hub.Load().join(nil, 1, topicKey{})
	require.NoError(t, err)
	s.play(event(exchange.Event{Kind: exchange.SymbolHalted, Time: 77 * exchange.Second, Reason: `"news" <b>`}))
	require.JSONEq(t, `{"time":77,"reason":"\"news\" <b>"}`, halted())
	require.Eventually(t, func() bool {
		news, _, _ := s.api.hub.Load().appendNews(nil, reader)
		return bytes.Contains(bytes.Join(news, nil), []byte(`"halted":{"time":77,`))
	}, patience, time.Millisecond)
	s.play(event(exchange.Event{Kind: exchange.SymbolResumed, Time: 78}))
	require.Empty(t, halted())
}

// TestACancelOfManyEmptiesItsLevelsAtOnce checks the books of two symbols after one record canceled orders of both.
func TestACancelOfManyEmptiesItsLevelsAtOnce(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	order := exchange.Event{Kind: exchange.OrderAccepted, Account: "1", Symbol: "T", Order: 3,
		Terms:  exchange.Terms{Side: exchange.Buy, Limit: 2},
		Shares: 4}
	s.play(made, exchange.AppendEvent(nil, &exchange.Event{Kind: exchange.SymbolMade, Symbol: "T"}),
		placed(1, exchange.Sell, 5, 7), placed(2, exchange.Sell, 6, 7), exchange.AppendEvent(nil, &order),
		canceledAll(exchange.Cancel{Order: 1, Symbol: "S", Terms: exchange.Terms{Side: exchange.Sell, Limit: 7}, Shares: 5},
			exchange.Cancel{Order: 3, Symbol: "T", Terms: exchange.Terms{Side: exchange.Buy, Limit: 2}, Shares: 4}))
	var a, b bookAnswer
	require.Equal(t, 200, s.get("/api/v1/book/S", &a))
	require.Equal(t, 200, s.get("/api/v1/book/T", &b))
	require.Equal(t, [][2]string{{"0.00000007", "0.00000006"}}, a.Asks)
	require.Empty(t, b.Bids)
	require.Equal(t, []uint64{6, 6}, []uint64{a.Seq, b.Seq})
}
