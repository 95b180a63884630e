package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOrdersEndWithTheirWebSocket: orders with cod are canceled when either side closes their WebSocket.
func TestOrdersEndWithTheirWebSocket(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="1000"/><symbol sym="SPY"/></create>`),
		"<error")
	watcher := dialWS(t, p.http, "")
	watcher.must("subscribe", `{"channels":["account.1"]}`)
	require.Equal(t, "snapshot", watcher.event().Data["type"])
	for _, end := range []func(w *wsConn){
		func(w *wsConn) { require.NoError(t, w.c.Close(1000, "")) },
		func(w *wsConn) { require.NoError(t, w.c.CloseNow()) },
		func(w *wsConn) { w.write(strings.Repeat(" ", 1<<17)) },
	} {
		w := dialWS(t, p.http, "")
		w.must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"1"}`)
		w.must("session.cancel_on_disconnect", `{"on":true}`)
		w.must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"2"}`)
		for range 2 {
			require.Equal(t, "open", stateOf(watcher.event()))
		}
		end(w)
		e := watcher.event()
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
	flags, _ := dataFlags(t)
	p := start(t, append(flags, "--idle-timeout=2s")...)
	require.NotContains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="1000"/><symbol sym="SPY"/></create>`),
		"<error")
	silent := dialWS(t, p.http, "")
	silent.must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"2","cod":true}`) // and stops reading
	require.Eventually(t, func() bool {
		// A new connection for each query, so that it cannot itself time out as silent.
		reply, err := askWithin(p.xml, `<transactions id="1"><query id="1"/></transactions>`, patience)
		return err == nil && strings.Contains(reply, `<canceled shares="1"`)
	}, patience, lookEvery)
}

// TestAStandbyOverWebSocket: a standby serves market data, and gives the reason why it refuses orders and account
// queries.
func TestAStandbyOverWebSocket(t *testing.T) {
	raced(t)
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	w := dialWS(t, leader.http, "")
	placed := w.must("order.place", `{"account":"1","sym":"SPY","amount":"-5","limit":"10"}`)
	oneDigest(t, nodes)
	standby := dialWS(t, others(nodes, leader)[0].http, "")
	for method, params := range map[string]string{
		"order.place": `{"account":"1","sym":"SPY","amount":"1","limit":"10"}`, "account.get": `{"account":"1"}`,
		"order.get": `{"account":"1","id":1}`, "subscribe": `{"channels":["account.1"]}`,
	} {
		require.Contains(t, standby.refused("not_ready", method, params), "standby", method)
	}
	book := standby.must("book.get", `{"sym":"SPY"}`)
	require.Equal(t, placed["seq"], book["book_seq"])
	standby.must("subscribe", `{"channels":["book.SPY","orders.SPY","trades.SPY"]}`)
	w.must("order.place", `{"account":"2","sym":"SPY","amount":"2","limit":"10"}`)
	kept, orders := wsBook{t: t}, wsOrders{t: t}
	for kept.seq <= placed["seq"].(float64) || orders.seq <= placed["seq"].(float64) {
		switch e := standby.event(); e.Channel {
		case "book.SPY":
			kept.apply(e.Data)
		case "orders.SPY":
			orders.apply(e.Data)
		}
	}
	require.Equal(t, map[string]string{"10": "3"}, kept.asks)
}

// TestMissedEventsComeAgain: a client that gives the number of its last event is sent the later events, with the
// same bytes as clients that stayed connected, and then new events. A number above the newest is answered with a
// snapshot.
func TestMissedEventsComeAgain(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="1000"/><symbol sym="SPY"/></create>`),
		"<error")
	stays, client := dialWS(t, p.http, ""), dialWS(t, p.http, "")
	stays.must("subscribe", `{"channels":["account.1"]}`)
	require.EqualValues(t, 1, stays.event().Data["n"])
	place := func() { client.must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"1"}`) }
	for range 5 {
		place()
	}
	var sent []string
	for range 5 {
		sent = append(sent, stays.read())
	}
	comes := dialWS(t, p.http, "")
	comes.must("subscribe", `{"channels":["account.1","book.SPY"],"after":3}`)
	for _, want := range sent[2:] {
		require.Equal(t, want, comes.read())
	}
	require.Equal(t, "book.SPY", comes.event().Channel)
	comes.must("unsubscribe", `{"channels":["book.SPY"]}`)
	place()
	require.Equal(t, stays.read(), comes.read())

	comes.must("subscribe", `{"channels":["account.1"],"after":7}`) // 7 is the newest event
	place()
	require.Equal(t, stays.read(), comes.read())
	comes.must("subscribe", `{"channels":["account.1"],"after":9}`)
	e := comes.event()
	require.Equal(t, "snapshot", e.Data["type"])
	require.EqualValues(t, 8, e.Data["n"])
	require.Len(t, e.Data["orders"], 7)

	comes.must("subscribe", `{"channels":["account.1"]}`) // starts with a snapshot
	require.Equal(t, "snapshot", comes.event().Data["type"])
	require.Empty(t, comes.must("unsubscribe", `{"channels":["account.1"]}`)["channels"])
	place()
	stays.read()
	_, err := comes.readOrTimeout(storyQuiet)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing comes any more")
}

// TestTickersAndCandlesTellTheNewest: a trade appears in the ticker and in its candle. Each candle is closed exactly
// once, after its last trade.
func TestTickersAndCandlesTellTheNewest(t *testing.T) {
	raced(t)
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="1000"/><symbol sym="SPY">`+
		`<account id="1">10</account></symbol></create>`), "<error")
	w, client := dialWS(t, p.http, ""), dialWS(t, p.http, "")
	w.must("subscribe", `{"channels":["candles.SPY.1s","ticker.SPY"]}`)
	require.NotContains(t, w.event().Data, "open", "there is no candle yet")
	require.NotContains(t, w.event().Data, "last", "nor a trade")
	for trade := 1; trade <= 2; trade++ {
		client.must("order.place", `{"account":"1","sym":"SPY","amount":"-2","limit":"100"}`)
		client.must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"100"}`)
		var candle, ticker map[string]any
		for ticker["trades"] != float64(trade) || candle["closed"] != true {
			if e := w.event(); e.Channel == "ticker.SPY" {
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
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t,
		`<create><account id="1" balance="1000000"/><symbol sym="SPY"/></create>`), "<error")
	const many = 2500
	client := dialWS(t, p.http, "")
	go func() {
		for i := range many {
			client.send("order.place", fmt.Sprintf(`{"account":"1","sym":"SPY","amount":"1","limit":"1.%04d"}`, i))
		}
	}()
	for range many {
		require.Nil(t, client.next().Error)
	}
	w := dialWS(t, p.http, "")
	w.must("subscribe", `{"channels":["account.1","book.SPY","orders.SPY"]}`)
	for _, channel := range []string{"account.1", "book.SPY", "orders.SPY"} {
		list := "bids"
		if channel == "account.1" {
			list = "orders"
		}
		got, more := 0, true
		for more {
			e := w.event()
			require.Equal(t, channel, e.Channel)
			got += len(e.Data[list].([]any))
			more = e.Data["more"] == true
		}
		require.Equal(t, many, got)
	}
	page, after := w.must("orders.open", `{"account":"1"}`), 0.0
	for n := 0; ; n += 1000 {
		orders := page["orders"].([]any)
		require.Len(t, orders, min(1000, many-n))
		if page["more"] == false {
			break
		}
		after = orders[len(orders)-1].(map[string]any)["id"].(float64)
		page = w.must("orders.open", fmt.Sprintf(`{"account":"1","after":%v}`, after))
	}
}

// stateOf returns the state of the first order in an event.
func stateOf(e event) any { return e.Data["orders"].([]any)[0].(map[string]any)["state"] }

// TestManyRequestsUnderWay: a client sends thousands of requests before it reads, and all are answered in order.
func TestManyRequestsUnderWay(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t,
		`<create><account id="1" balance="100000"/><symbol sym="SPY"/></create>`), "<error")
	w := dialWS(t, p.http, "")
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
			w.send(method, params)
		}
	}()
	seq := 0.0
	for i := range many {
		a := w.next()
		require.Nil(t, a.Error, a.text)
		require.Equal(t, i+1, a.ID)
		if replied, ok := a.Result["seq"].(float64); ok {
			require.GreaterOrEqual(t, replied, seq, "seq never goes back")
			seq = replied
		}
	}
}
