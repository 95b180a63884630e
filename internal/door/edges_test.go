package door

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// padded returns a frame of n bytes with a query of order 1.
func padded(n int) string {
	const xml = `<transactions id="1"><query id="1"/></transactions>`
	return frame(strings.Repeat(" ", n-len(xml)) + xml)
}

// A frame above a limit is answered with the reason. The connection stays open, unless the stream cannot be
// read any further.
func TestOverloadEveryLimitOfAFrameAtOneBelowAndOneAbove(t *testing.T) {
	const frameMax = 2_000_000
	for name, edge := range map[string]struct {
		limit  int
		send   func(n int) string
		want   string // part of the reply to a frame at the limit
		above  string // part of the reply to a frame above the limit
		closes bool
	}{
		"bytes of a frame": {frameMax, padded,
			`<status id="1">`, "a frame of 2000001 bytes is over the limit of 2000000", true},
		"digits of a length line": {1024, func(n int) string {
			return strings.Repeat("0", n-1) + "9\n<create/>"
		}, "<results/>", "a frame's length line has more than 1024 digits", true},
		"elements": {100_000, func(n int) string {
			return frame(`<transactions id="1">` + strings.Repeat(`<query id="1"/>`, n-1) + `</transactions>`)
		}, `<status id="1">`, "there are more than 100000 elements in a frame", false},
		"depth": {16, func(n int) string {
			return frame(strings.Repeat("<a>", n) + strings.Repeat("</a>", n))
		}, "unknown root element &lt;a&gt;", "elements are nested more than 16 deep", false},
		"attributes of an element": {32, func(n int) string {
			var attributes strings.Builder
			for i := range n {
				fmt.Fprintf(&attributes, ` a%d=""`, i)
			}
			return frame(`<create` + attributes.String() + `/>`)
		}, "&lt;create&gt; has no attribute a0", "an element has more than 32 attributes", false},
		"digits of an account": {64, func(n int) string {
			return frame(`<create><account id="` + strings.Repeat("7", n) + `" balance="0"/></create>`)
		}, "<created ", "is not 1 to 64 digits", false},
		"characters of a symbol": {32, func(n int) string {
			return frame(`<create><symbol sym="` + strings.Repeat("S", n) + `"/></create>`)
		}, "<created ", "is not 1 to 32 characters", false},
	} {
		t.Run(name, func(t *testing.T) {
			l, x := listen(t), realExchange(t)
			start(t, l, x, Options{FrameBytesMax: frameMax, ReplyBytesMax: 1 << 30})
			c := openMarket(t, l)
			c.trade() // makes order 1
			for _, n := range []int{edge.limit - 1, edge.limit} {
				c.send(edge.send(n))
				require.Contains(t, c.reply(), edge.want, "%d", n)
			}
			c.send(edge.send(edge.limit + 1))
			require.Contains(t, c.reply(), edge.above)
			if edge.closes {
				require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
				c.ends()
				return
			}
			c.trade()
		})
	}
}

func TestOverloadConnectionsAtOneBelowAndOneAboveTheLimit(t *testing.T) {
	const limit = 10
	l, x := listen(t), newFake()
	start(t, l, x, Options{ConnectionsMax: limit})
	var clients []*client
	for range limit {
		clients = append(clients, dial(t, l))
		for _, c := range clients { // all clients so far
			c.send(query(1))
			require.Equal(t, answer(1), c.reply())
		}
	}
	above := dial(t, l)
	above.isLast("the exchange has 10 connections and accepts no more; try again later")
	for _, c := range clients {
		c.send(query(2))
		require.Equal(t, answer(2), c.reply())
	}
}
