package web

import (
	"context"
	"errors"
	"testing"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/testing/streamtest"
)

// TestStreamsOfTheStory compares the events of the stream with a golden file.
func TestStreamsOfTheStory(t *testing.T) {
	streamtest.Play(t, "testdata/streams.txt", func() *streamtest.Door {
		api := NewAPI(APIOptions{
			Health: func() Health {
				return Health{OrdersPerSecond: 1, P99: 0.5, LagRecords: 2, NotReady: errors.New("why")}
			},
			Order: func(_ context.Context, id exchange.OrderID, _, most int) (exchange.PublicOrder, bool, error) {
				o := exchange.PublicOrder{Symbol: "S", Shares: 7e8}
				o.Side, o.Limit, o.Status.Open = exchange.Sell, 10e8, 2e8
				if id == 2 {
					return o, true, nil
				}
				o.Terms = exchange.Terms{Side: exchange.Buy, Limit: 1, Type: exchange.Market, TIF: exchange.IOC, Post: true,
					STP: exchange.CancelBoth}
				o.Status.Canceled, o.Status.CanceledAt = 1e8, 3*exchange.Second
				o.Status.Changes = &exchange.Changes{Replaced: 9, Reduced: 1e8, ReducedAt: 2 * exchange.Second}
				e := exchange.Execution{Shares: 1e8, Price: 10e8, Time: exchange.Second}
				o.Status.Executions = []exchange.Execution{e, e, e}[:min(most, 3)]
				return o, true, nil
			},
			Orders: OrderEntry{Port: 1}, Version: "test", ReadersMax: 100, WriteTimeout: time.Hour, Metrics: NewMetrics()})
		api.start = "start"
		return &streamtest.Door{Handler: api, Attach: api.Attach, Publish: api.Publish, Close: func() {},
			Open:    func(query string) (path string, messages []string) { return "/api/v1/stream?" + query, nil },
			Readers: []string{"", "sym=S", "sym=S&depth=1", "sym=S&interval=1s", "sym=S&interval=1m&depth=50"},
			Slow:    []string{"", "sym=S&interval=1s&depth=50"},
			Asks: []string{"/api/v1/symbols", "/api/v1/symbols?after=S", "/api/v1/book/S?depth=3",
				"/api/v1/trades/S?limit=2", "/api/v1/candles/S?interval=1m", "/api/v1/orders/1", "/api/v1/orders/2",
				"/api/v1/orders/1?limit=1", "/api/v1/book/%3C%E2%80%A8"},
		}
	})
}
