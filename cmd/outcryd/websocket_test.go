package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/rpctest"
)

// TestWebSocketTranscripts plays the transcripts of testdata/websocket that kill their server. The others are played
// in internal/door/jsonrpc.
func TestWebSocketTranscripts(t *testing.T) {
	t.Parallel()
	rpctest.Play(t, func(t *testing.T) *rpctest.Server {
		flags, _ := dataFlags(t)
		return transcribed(t, start(t, flags...), flags)
	})
}

// transcribed returns a server in the form that transcripts need.
func transcribed(t *testing.T, p *program, flags []string) *rpctest.Server {
	return &rpctest.Server{HTTP: p.http,
		XML: func(xml string) string { return dial(t, p.xml).must(t, xml) },
		Restart: func() *rpctest.Server {
			p.kill()
			return transcribed(t, start(t, flags...), flags)
		}}
}

// TestAStandbyOverWebSocket: a standby serves market data, and gives the reason why it refuses orders and account
// queries.
func TestAStandbyOverWebSocket(t *testing.T) {
	raced(t)
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	w := rpctest.Dial(t, leader.http, "")
	placed := w.Must("order.place", `{"account":"1","sym":"SPY","amount":"-5","limit":"10"}`)
	oneDigest(t, nodes)
	standby := rpctest.Dial(t, others(nodes, leader)[0].http, "")
	for method, params := range map[string]string{
		"order.place": `{"account":"1","sym":"SPY","amount":"1","limit":"10"}`, "account.get": `{"account":"1"}`,
		"order.get": `{"account":"1","id":1}`, "subscribe": `{"channels":["account.1"]}`,
	} {
		require.Contains(t, standby.Refused("not_ready", method, params), "standby", method)
	}
	book := standby.Must("book.get", `{"sym":"SPY"}`)
	require.Equal(t, placed["seq"], book["book_seq"])
	standby.Must("subscribe", `{"channels":["book.SPY","orders.SPY","trades.SPY"]}`)
	w.Must("order.place", `{"account":"2","sym":"SPY","amount":"2","limit":"10"}`)
	kept, orders := rpctest.Book{T: t}, rpctest.Orders{T: t}
	for kept.Seq <= placed["seq"].(float64) || orders.Seq <= placed["seq"].(float64) {
		switch e := standby.Event(); e.Channel {
		case "book.SPY":
			kept.Apply(e.Data)
		case "orders.SPY":
			orders.Apply(e.Data)
		}
	}
	require.Equal(t, map[string]string{"10": "3"}, kept.Asks)
}
