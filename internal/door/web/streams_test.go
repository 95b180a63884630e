package web

import (
	"errors"
	"testing"
	"time"

	"outcry/internal/testing/streamtest"
)

// TestStreamsOfTheStory compares the events of the stream with a golden file.
func TestStreamsOfTheStory(t *testing.T) {
	streamtest.Play(t, "testdata/streams.txt", func() *streamtest.Door {
		api := NewAPI(APIOptions{
			Health: func() Health {
				return Health{OrdersPerSecond: 1, P99: 0.5, LagRecords: 2, NotReady: errors.New("why")}
			},
			Orders: OrderEntry{Port: 1}, Version: "test", ReadersMax: 100, WriteTimeout: time.Hour, Metrics: NewMetrics()})
		api.start = "start"
		return &streamtest.Door{Handler: api, Attach: api.Attach, Publish: api.Publish, Close: func() {},
			Open:    func(query string) (path string, messages []string) { return "/api/v1/stream?" + query, nil },
			Readers: []string{"", "sym=S", "sym=S&depth=1", "sym=S&interval=1s", "sym=S&interval=1m&depth=50"},
			Slow:    []string{"", "sym=S&interval=1s&depth=50"},
		}
	})
}
