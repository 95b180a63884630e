package jsonrpc

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/fanout"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// bookMessage is a message of a book.
type bookMessage struct {
	Params struct {
		Data struct {
			Type       string
			Prev, Seq  uint64
			Bids, Asks [][2]string
			Checksum   uint32
			More       bool
		}
	}
}

// messagesOf returns the messages of parts.
func messagesOf(t *testing.T, p parts) (all []bookMessage) {
	for _, f := range framesOf(p) {
		var m bookMessage
		require.NoError(t, json.Unmarshal(f.Text(), &m), "%s", f.Text())
		all = append(all, m)
	}
	return all
}

// TestPartsHaveAllEntriesOnce: whatever the lengths of two lists, each message has at most entriesMax entries, all
// but the last say that there is more, and together they have each entry once, in order.
func TestPartsHaveAllEntriesOnce(t *testing.T) {
	lengths := []int{0, 1, 999, 1000, 1001, 1999, 2000, 2001, 5200}
	for _, bids := range lengths {
		for _, asks := range lengths {
			d := bookUpdate{kind: kindDelta, BookChange: fanout.BookChange{Prev: 3, Seq: 4}, checksum: 5}
			for i := range bids {
				d.Bids = append(d.Bids, level(i))
			}
			for i := range asks {
				d.Asks = append(d.Asks, level(i))
			}
			all := messagesOf(t, d.parts("book.SPY"))
			require.Len(t, all, max(1, (bids+asks+entriesMax-1)/entriesMax))
			var gotBids, gotAsks [][2]string
			for i, m := range all {
				data := m.Params.Data
				require.LessOrEqual(t, len(data.Bids)+len(data.Asks), entriesMax)
				require.Equal(t, i < len(all)-1, data.More)
				require.Equal(t, "delta 3 4 5", fmt.Sprint(data.Type, " ", data.Prev, data.Seq, data.Checksum))
				gotBids, gotAsks = append(gotBids, data.Bids...), append(gotAsks, data.Asks...)
			}
			requireLevels(t, d.Bids, gotBids)
			requireLevels(t, d.Asks, gotAsks)
		}
	}
}

func level(i int) market.Level {
	return market.Level{Price: exchange.Price(i + 1), Shares: exchange.Shares(i + 2).Position()}
}

func requireLevels(t *testing.T, want []market.Level, got [][2]string) {
	require.Len(t, got, len(want))
	for i, l := range want {
		require.Equal(t, [2]string{l.Price.String(), l.Shares.String()}, got[i])
	}
}

// TestNewestMessages: a slow reader gets the newest closed candle and the present one, or only the one that it
// lacks.
func TestNewestMessages(t *testing.T) {
	for want, n := range map[string]newest{
		"":            {},
		"now;":        {now: text("now")},
		"closed;":     {closed: text("closed")},
		"closed;now;": {closed: text("closed"), now: text("now")},
	} {
		r := reader{giving: n.parts()}
		got := ""
		for f, ok := r.give(); ok; f, ok = r.give() {
			got += string(f.Text()) + ";"
		}
		require.Equal(t, want, got)
	}
}

// TestMissedEventsAreTheSameBytes: a client that connects again gets the missed events as the bytes that were sent,
// even if they were split into parts.
func TestMissedEventsAreTheSameBytes(t *testing.T) {
	var missed []*exchange.AccountEvent
	var want []string
	for n, fills := range []int{0, 1, 2500, 999} {
		e := &exchange.AccountEvent{N: uint64(n + 1), Seq: uint64(n + 5), Time: 1_500_000_001, Account: "1"}
		for i := range fills {
			e.Fills = append(e.Fills, exchange.AccountFill{N: uint64(i + 1), Order: 1, Symbol: "SPY", Side: exchange.Buy,
				Shares: 1, Price: 1, Trade: 1})
		}
		e.Positions = []exchange.PositionView{{Symbol: "SPY"}}
		missed = append(missed, e)
		for _, f := range framesOf(eventParts("account.1", e)) {
			want = append(want, string(f.Text()))
		}
	}
	var got []string
	for _, f := range framesOf(eventsParts("account.1", missed)) {
		got = append(got, string(f.Text()))
	}
	require.Equal(t, want, got)
	require.Empty(t, eventsParts("account.1", nil))
}

// TestTimesAreRoundedDown: times are also rounded down before the epoch, where clocks of tests may be.
func TestTimesAreRoundedDown(t *testing.T) {
	for time, want := range map[int64]string{
		1_795_359_391_127_904_408: `{"time_ns":"1795359391127904408","time_ms":1795359391127`,
		-1:                        `{"time_ns":"-1","time_ms":-1`, 999_999: `{"time_ns":"999999","time_ms":0`, 0: `{`,
	} {
		require.Equal(t, want, string(memberTime([]byte("{"), "time", time)))
	}
}

// TestTextIsEscaped: any text that a message repeats becomes valid JSON.
func TestTextIsEscaped(t *testing.T) {
	for _, text := range []string{"plain", "quotes \" and \\", "\x00\x1f\x7f\n", "é…😀", quote("\xff\xfe"), `<&>`} {
		var got string
		require.NoError(t, json.Unmarshal(appendText(nil, clean(text)), &got))
		require.Equal(t, text, got)
	}
}

// TestAMessageIsMadeOnceForAllReaders: all readers of the same event or change get the same memory.
func TestAMessageIsMadeOnceForAllReaders(t *testing.T) {
	var events madeOnce[exchange.AccountEvent]
	e := &exchange.AccountEvent{N: 1}
	first, again := events.frames("account.1", e, eventParts),
		events.frames("account.1", e, eventParts)
	require.Same(t, &first[0].Text()[0], &again[0].Text()[0])
	require.NotEqual(t, first, events.frames("account.1", &exchange.AccountEvent{N: 2}, eventParts))
	var orders madeOnce[accounts.OrdersChange]
	c := &accounts.OrdersChange{Seq: 1}
	first, again = orders.frames("orders.SPY", c, changeParts),
		orders.frames("orders.SPY", c, changeParts)
	require.Same(t, &first[0].Text()[0], &again[0].Text()[0])
	require.NotEqual(t, first, orders.frames("orders.SPY", &accounts.OrdersChange{Seq: 2}, changeParts))
}
