package binance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/testing/streamtest"
	"outcry/internal/view/market"
)

// TestStreamsOfTheStory compares the events of the market streams with a golden file.
func TestStreamsOfTheStory(t *testing.T) {
	streamtest.Play(t, "testdata/streams.txt", func() *streamtest.Door {
		var feed *market.Feed
		sockets := websocket.NewServer(websocket.Options{})
		d := New(Options{Sockets: sockets, Feed: func() *market.Feed { return feed },
			Sessions: func() *door.Server { return nil }, OrderValueMin: func() exchange.Cash { return exchange.Cash{} }})
		return &streamtest.Door{
			Handler: d, Attach: func(f *market.Feed) { feed = f },
			Close: func() {
				sockets.Abort()
				require.NoError(t, sockets.Shutdown(context.Background()))
			},
			Open: func(channels string) (path string, messages []string) {
				channels, wrapped := strings.CutPrefix(channels, "/stream ")
				path = Prefix + "/ws"
				if wrapped {
					path = Prefix + "/stream"
				}
				return path, []string{fmt.Sprintf(`{"id":1,"method":"SUBSCRIBE","params":["%s"]}`,
					strings.ReplaceAll(channels, ",", `","`))}
			},
			Readers: []string{"susd@trade", "susd@aggTrade", "susd@bookTicker", "susd@depth", "susd@depth@100ms",
				"susd@depth5@100ms", "susd@depth20", "susd@kline_1s", "susd@kline_1m", "susd@miniTicker", "susd@ticker",
				"/stream susd@depth@100ms"},
			Slow: []string{"susd@trade", "susd@depth@100ms", "susd@kline_1s"},
			Asks: []string{Prefix + "/api/v3/ping", Prefix + "/api/v3/time", Prefix + "/api/v3/exchangeInfo",
				Prefix + "/api/v3/exchangeInfo?symbols=%5B%22SUSD%22%5D", Prefix + "/api/v3/depth?symbol=SUSD&limit=3",
				Prefix + "/api/v3/trades?symbol=SUSD&limit=2", Prefix + "/api/v3/aggTrades?symbol=SUSD&limit=2",
				Prefix + "/api/v3/klines?symbol=SUSD&interval=1m", Prefix + "/api/v3/ticker/24hr",
				Prefix + "/api/v3/ticker/price?symbol=SUSD", Prefix + "/api/v3/ticker/bookTicker?symbol=SUSD",
				Prefix + "/api/v3/order%3C%E2%80%A8", Prefix + "/sapi/v1/asset/tradeFee", Prefix + "/fapi/v1/exchangeInfo"},
		}
	})
}
