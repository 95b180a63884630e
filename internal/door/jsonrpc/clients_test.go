package jsonrpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
	"outcry/internal/testing/rpctest"
)

// TestOrdersEndWithTheirWebSocket: orders with cod are canceled when either side closes their WebSocket.
func TestOrdersEndWithTheirWebSocket(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="1000"/><symbol sym="SPY"/>`)
	watcher := s.dial()
	watcher.Must("subscribe", `{"channels":["account.1"]}`)
	require.Equal(t, "snapshot", watcher.Event().Data["type"])
	for _, end := range []func(w *rpctest.Conn){
		func(w *rpctest.Conn) { require.NoError(t, w.Socket.Close(1000, "")) },
		func(w *rpctest.Conn) { require.NoError(t, w.Socket.CloseNow()) },
		func(w *rpctest.Conn) { w.Write(strings.Repeat(" ", 1<<17)) },
	} {
		w := s.dial()
		w.Must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"1"}`)
		w.Must("session.cancel_on_disconnect", `{"on":true}`)
		w.Must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"2"}`)
		for range 2 {
			require.Equal(t, "open", stateOf(watcher.Event()))
		}
		end(w)
		e := watcher.Event()
		require.Equal(t, "canceled", stateOf(e))
		b, err := json.Marshal(e.Data["orders"])
		require.NoError(t, err)
		require.Contains(t, string(b), `"why":"disconnect"`)
		require.Contains(t, string(b), `"limit":"2"`)
	}
}

// TestOrdersEndWithASilentWebSocket: a client that disappears without closing the connection is detected by its
// unanswered pings.
func TestOrdersEndWithASilentWebSocket(t *testing.T) {
	t.Parallel()
	s := start(t, 2*time.Second)
	s.create(`<account id="1" balance="1000"/><symbol sym="SPY"/>`)
	silent := s.dial()
	silent.Must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"2","cod":true}`) // and stops reading
	require.Eventually(t, func() bool {
		return strings.Contains(s.xml(`<transactions id="1"><query id="1"/></transactions>`), `<canceled shares="1"`)
	}, patience, 25*time.Millisecond)
}

// TestMissedEventsComeAgain: a client that gives the number of its last event is sent the later events, with the
// same bytes as clients that stayed connected, and then new events. A number above the newest is answered with a
// snapshot.
func TestMissedEventsComeAgain(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="1000"/><symbol sym="SPY"/>`)
	stays, client := s.dial(), s.dial()
	stays.Must("subscribe", `{"channels":["account.1"]}`)
	require.EqualValues(t, 1, stays.Event().Data["n"])
	place := func() { client.Must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"1"}`) }
	for range 5 {
		place()
	}
	var sent []string
	for range 5 {
		sent = append(sent, stays.Read())
	}
	comes := s.dial()
	comes.Must("subscribe", `{"channels":["account.1","book.SPY"],"after":3}`)
	for _, want := range sent[2:] {
		require.Equal(t, want, comes.Read())
	}
	require.Equal(t, "book.SPY", comes.Event().Channel)
	comes.Must("unsubscribe", `{"channels":["book.SPY"]}`)
	place()
	require.Equal(t, stays.Read(), comes.Read())

	comes.Must("subscribe", `{"channels":["account.1"],"after":7}`) // 7 is the newest event
	place()
	require.Equal(t, stays.Read(), comes.Read())
	comes.Must("subscribe", `{"channels":["account.1"],"after":9}`)
	e := comes.Event()
	require.Equal(t, "snapshot", e.Data["type"])
	require.EqualValues(t, 8, e.Data["n"])
	require.Len(t, e.Data["orders"], 7)

	comes.Must("subscribe", `{"channels":["account.1"]}`) // starts with a snapshot
	require.Equal(t, "snapshot", comes.Event().Data["type"])
	require.Empty(t, comes.Must("unsubscribe", `{"channels":["account.1"]}`)["channels"])
	place()
	stays.Read()
	_, err := comes.ReadOrTimeout(rpctest.Quiet)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing comes any more")
}

// TestTickersAndCandlesTellTheNewest: a trade appears in the ticker and in its candle. Each candle is closed exactly
// once, after its last trade.
func TestTickersAndCandlesTellTheNewest(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="1000"/><symbol sym="SPY">` +
		`<account id="1">10</account></symbol>`)
	w, client := s.dial(), s.dial()
	w.Must("subscribe", `{"channels":["candles.SPY.1s","ticker.SPY"]}`)
	require.NotContains(t, w.Event().Data, "open", "there is no candle yet")
	require.NotContains(t, w.Event().Data, "last", "nor a trade")
	for trade := 1; trade <= 2; trade++ {
		client.Must("order.place", `{"account":"1","sym":"SPY","amount":"-2","limit":"100"}`)
		client.Must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"100"}`)
		var candle, ticker map[string]any
		for ticker["trades"] != float64(trade) || candle["closed"] != true {
			if e := w.Event(); e.Channel == "ticker.SPY" {
				ticker = e.Data
			} else {
				require.False(t, candle["closed"] == true && candle["start_ms"] == e.Data["start_ms"], "closed before")
				candle = e.Data
			}
		}
		require.Equal(t, "100", candle["close"])
		require.EqualValues(t, 1, candle["trades"])
		require.Equal(t, "100", ticker["ask"])
		require.NotContains(t, ticker, "bid")
	}
}

// TestASnapshotInParts: the snapshot of an account with thousands of open orders is split into messages that are
// small enough for any client.
func TestASnapshotInParts(t *testing.T) {
	budget.SkipRaced(t, "it is long, and shorter tests use the same parts")
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="1000000"/><symbol sym="SPY"/>`)
	const many = 2500
	client := s.dial()
	go func() {
		for i := range many {
			client.Send("order.place", fmt.Sprintf(`{"account":"1","sym":"SPY","amount":"1","limit":"1.%04d"}`, i))
		}
	}()
	for range many {
		require.Nil(t, client.Next().Error)
	}
	w := s.dial()
	w.Must("subscribe", `{"channels":["account.1","book.SPY","orders.SPY"]}`)
	for _, channel := range []string{"account.1", "book.SPY", "orders.SPY"} {
		list := "bids"
		if channel == "account.1" {
			list = "orders"
		}
		got, more := 0, true
		for more {
			e := w.Event()
			require.Equal(t, channel, e.Channel)
			got += len(e.Data[list].([]any))
			more = e.Data["more"] == true
		}
		require.Equal(t, many, got)
	}
	page, after := w.Must("orders.open", `{"account":"1"}`), 0.0
	for n := 0; ; n += 1000 {
		orders := page["orders"].([]any)
		require.Len(t, orders, min(1000, many-n))
		if page["more"] == false {
			break
		}
		after = orders[len(orders)-1].(map[string]any)["id"].(float64)
		page = w.Must("orders.open", fmt.Sprintf(`{"account":"1","after":%v}`, after))
	}
}

// stateOf returns the state of the first order in an event.
func stateOf(e rpctest.Event) any { return e.Data["orders"].([]any)[0].(map[string]any)["state"] }

// TestManyRequestsUnderWay: a client sends thousands of requests before it reads, and all are answered in order.
func TestManyRequestsUnderWay(t *testing.T) {
	budget.SkipRaced(t, "it is long, and shorter tests use the same parts")
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="100000"/><symbol sym="SPY"/>`)
	w := s.dial()
	const many = 5000
	go func() {
		for i := range many {
			method, params := "order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"1"}`
			switch {
			case i%100 == 50:
				method, params = "account.get", `{"account":"1"}`
			case i%100 == 70:
				method, params = "book.get", `{"sym":"SPY"}`
			case i%7 == 3:
				method, params = "ping", `{}`
			}
			w.Send(method, params)
		}
	}()
	seq := 0.0
	for i := range many {
		a := w.Next()
		require.Nil(t, a.Error, a.Text)
		require.Equal(t, i+1, a.ID)
		if replied, ok := a.Result["seq"].(float64); ok {
			require.GreaterOrEqual(t, replied, seq, "seq never goes back")
			seq = replied
		}
	}
}

// TestSlowReadersOverWebSocket: a client that does not read is disconnected if it follows a channel that may not
// skip events; the close reason has the number of the last event that it was sent. A client that follows only a
// book gets fewer, merged deltas instead. Neither delays other clients.
func TestSlowReadersOverWebSocket(t *testing.T) {
	budget.SkipRaced(t, "it is long, and shorter tests use the same parts")
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="100000000"/>` +
		`<symbol sym="SPY"><account id="1">1000000</account></symbol>`)
	small := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { // a small buffer in the kernel
		return c.Control(func(fd uintptr) {
			require.NoError(t, syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096))
		})
	}}
	client := s.dial()
	ref := strings.Repeat("r", 50)
	place := func(from, to int) {
		var sending sync.WaitGroup
		sending.Go(func() {
			for n := from; n < to; n++ {
				client.Send("order.place", fmt.Sprintf(
					`{"account":"1","sym":"SPY","amount":"1","limit":"%d.%02d","ref":"%s%d"}`, 1+n%5, n%100, ref, n))
			}
		})
		for range to - from {
			require.Nil(t, client.Next().Error)
		}
		sending.Wait()
	}
	place(0, 100)
	private, book := rpctest.DialWith(t, s.http, "", small), rpctest.DialWith(t, s.http, "", small)
	private.Must("subscribe", `{"channels":["account.1","orders.SPY","book.SPY"]}`)
	book.Must("subscribe", `{"channels":["book.SPY"]}`)
	go func() { // answers that the client does not read count, too
		for range 2500 {
			book.Send("book.get", `{"sym":"SPY","depth":1000}`)
		}
	}()
	const most = 40_000 // enough orders to fill the kernel's buffers, too
	cut, placed := false, 100
	for ; placed < most && !cut; placed += 500 {
		place(placed, placed+500)
		cut = s.figure("outcry_websocket_cut_total") > 0
	}
	require.True(t, cut, "after %d orders", most)
	code, reason := private.Closed()
	require.Equal(t, 4008, code)
	require.Contains(t, reason, "too slow: account.1 was sent up to n ")

	want := client.Must("book.get", `{"sym":"SPY","depth":1000}`)
	kept, messages := rpctest.Book{T: t}, 0
	for kept.Seq < want["book_seq"].(float64) || kept.More {
		if text := book.Read(); strings.Contains(text, `"method":"subscription"`) {
			var m struct{ Params rpctest.Event }
			require.NoError(t, json.Unmarshal([]byte(text), &m))
			kept.Apply(m.Params.Data)
			messages++
		}
	}
	require.Equal(t, want["checksum"], float64(kept.Checksum()))
	require.Less(t, messages, placed-100, "deltas were merged")
}
