package jsonrpc

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/testing/streamtest"
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

// TestPartsHaveAllEntriesOnce: for two lists of any lengths, each message has at most entriesMax entries, all but the
// last are marked as having more to follow, and together they have each entry once, in order.
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

// TestTimesAreRoundedDown: times are also rounded down before the epoch, which the clocks of tests may show.
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
	for _, text := range []string{"plain", "quotes \" and \\", "\x00\x1f\x7f\n", "é…😀",
		jsontext.Quote("\xff\xfe"), `<&>`} {
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

// TestMessagesOfAccountsAreTheseBytes compares messages about orders, accounts and refusals with a golden file.
func TestMessagesOfAccountsAreTheseBytes(t *testing.T) {
	o := exchange.OrderDetail{ID: 9, Symbol: "SPY", Ref: "a", NewRef: "b", OnDisconnect: true,
		State: exchange.StatusCanceled, Why: exchange.CanceledRest, Executed: 3e8, Canceled: 2, Reduced: 1, Before: 4,
		Notional: exchange.Notional(3e8, 3), Replaces: 8, By: 10, Time: 1_000_001, Changed: -2_999_999}
	o.Side, o.Limit, o.STP, o.Post, o.TIF = exchange.Sell, 101e8, exchange.CancelBoth, true, exchange.IOC
	plain := exchange.OrderDetail{ID: 1, Symbol: "S", Open: 1e8, Time: 5, State: exchange.StatusOpen}
	plain.Side, plain.Limit, plain.Type = exchange.Buy, 1, exchange.Market
	fills := []exchange.AccountFill{{N: 4, Order: 9, Symbol: "SPY", Side: exchange.Sell, Shares: 3e8, Price: 3, Time: 7,
		Trade: 12, Maker: true}, {N: 5, Side: exchange.Buy}}
	positions := []exchange.PositionView{{Symbol: "SPY", Shares: exchange.Shares(5).Position()}, {Symbol: "T"}}
	made := []parts{
		eventParts("account.1", &exchange.AccountEvent{N: 2, Seq: 3, Time: 4, Balance: exchange.Notional(1e8, 7),
			Positions: positions, Orders: []exchange.OrderChange{{OrderDetail: o}, {OrderDetail: plain}}, Fills: fills}),
		snapshotParts("account.1", &accounts.Snapshot{N: 2, Seq: 3, LastFill: 4, Positions: positions,
			Orders: []exchange.OrderDetail{plain, o}}),
		snapshotParts("account.1", &accounts.Snapshot{}),
		ordersParts("orders.S", &accounts.OrdersSnapshot{Seq: 3, Bids: []accounts.RestingOrder{{ID: 1, Price: 2, Shares: 3},
			{ID: 4, Price: 5, Shares: 6}}}),
	}
	c := &accounts.OrdersChange{Symbol: "S", Prev: 1, Seq: 2, Time: 3}
	for kind := accounts.OpReplace; kind <= accounts.OpAdd; kind++ {
		c.Ops = append(c.Ops, accounts.OrderOp{Kind: kind, Order: 1, By: 2, Trade: 3, Shares: 4, Open: 5,
			Side: exchange.Buy, Price: 6})
	}
	made = append(made, changeParts("orders.S", c))
	var b []byte
	for _, p := range made {
		for _, f := range framesOf(p) {
			b = append(append(b, f.Text()...), '\n')
		}
	}
	b = append(endResult(memberOrder(beginResult(b, []byte(`"x"`)), &o, fills)), '\n')
	b = append(appendFault(b, nil, wrong(invalidValue, "<\"é\" & \x01\n\x7f\u2028\xff>")), '\n')
	streamtest.Compare(t, "testdata/accounts.txt", string(appendFault(b, []byte("7"), unseen())))
}
