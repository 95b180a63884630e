package jsonrpc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door"
	"outcry/internal/door/websocket"
	"outcry/internal/testing/streamtest"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// TestStreamsOfTheStory compares the messages of the channels of a market with a golden file.
func TestStreamsOfTheStory(t *testing.T) {
	streamtest.Play(t, "testdata/streams.txt", func() *streamtest.Door {
		var feed *market.Feed
		sockets := websocket.NewServer(websocket.Options{})
		d := NewDoor(Options{Socket: sockets, Feed: func() *market.Feed { return feed },
			Sessions: func() *door.Server { return nil }, Why: func() error { return nil },
			View: func() *accounts.View { return nil }})
		return &streamtest.Door{
			Handler: d, Attach: func(f *market.Feed) { feed = f },
			Close: func() {
				sockets.Abort()
				require.NoError(t, sockets.Shutdown(context.Background()))
			},
			Open: func(channels string) (path string, messages []string) {
				if channels == "reads" {
					for i, ask := range []string{`ping","params":{}`, `symbols.list","params":{}`, `book.get","params":{"sym":"S"}`,
						`book.get","params":{"sym":"S","depth":1}`, `trades.list","params":{"sym":"S","after":1}`} {
						messages = append(messages, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s}`, i, ask))
					}
					return "/", messages
				}
				return "/", []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channels":["%s"]}}`,
					strings.ReplaceAll(channels, ",", `","`))}
			},
			Readers: []string{"book.S", "book.S.100ms", "trades.S", "ticker.S", "candles.S.1s", "candles.S.1m", "reads"},
			Slow:    []string{"book.S", "book.S.100ms", "book.S,trades.S", "trades.S", "ticker.S", "candles.S.1s"},
		}
	})
}
