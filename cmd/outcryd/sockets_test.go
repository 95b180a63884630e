package main

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
	"outcry/internal/testing/rpctest"
)

// twoAccounts creates two accounts and a symbol.
const twoAccounts = `<create><account id="1" balance="1000000"/><account id="2" balance="1000000"/>` +
	`<symbol sym="SPY"><account id="1">1000000</account></symbol></create>`

// TestAStopAnswersWhatWebSocketClientsHaveSent: a stopping server answers every request that it has executed, and
// executes none without an answer.
func TestAStopAnswersWhatWebSocketClientsHaveSent(t *testing.T) {
	raced(t)
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t, twoAccounts), "error")
	c, idle := rpctest.Dial(t, p.http, ""), rpctest.Dial(t, p.http, "")
	stopping := make(chan error, 1)
	const sent = 2000
	answered := 0
	go func() {
		for n := range sent {
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"order.place","params":{"account":"1","sym":"SPY",`+
				`"amount":"1","limit":"10","ref":"r%d"}}`, n+1, n+1)
			if c.Socket.Write(t.Context(), websocket.MessageText, []byte(text)) != nil {
				break // the server has closed the connection
			}
			if n == sent/4 {
				stopping <- p.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}()
	for {
		_, text, err := c.Socket.Read(t.Context())
		if err != nil {
			require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
			break
		}
		answered++
		require.Contains(t, string(text), fmt.Sprintf(`"id":%d,"result":`, answered), "in their order")
	}
	code, _ := idle.Closed()
	require.Equal(t, 1001, code)
	require.NoError(t, <-stopping)
	require.NoError(t, p.cmd.Wait(), "log: %s", p.log)
	require.Positive(t, answered)
	require.Equal(t, fmt.Sprint(answered), query(t, database, "SELECT count(*)::text FROM orders")[0][0])
}

// TestWebSocketAndXMLShareTheirPlaces: connections of both kinds count towards --max-connections.
func TestWebSocketAndXMLShareTheirPlaces(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, append(flags, "--max-connections=2")...)
	first := dial(t, p.xml)
	require.NotContains(t, first.must(t, twoAccounts), "error")
	second := rpctest.Dial(t, p.http, "")
	second.Must("ping", `{}`)
	_, answer, err := websocket.Dial(t.Context(), "ws://"+p.http+"/api/v1/ws", nil)
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, dial(t, p.xml).must(t, `<account id="1"/>`), "the exchange has 2 connections and accepts no more")
	require.NoError(t, second.Socket.Close(websocket.StatusNormalClosure, ""))
	require.Eventually(t, func() bool {
		c, _, err := websocket.Dial(t.Context(), "ws://"+p.http+"/api/v1/ws", nil)
		if err != nil {
			return false
		}
		return c.CloseNow() == nil
	}, patience, 5*time.Millisecond)
}

// TestAStandbyThatLeadsEndsItsWebSockets: a standby that becomes leader closes its WebSockets, because what a
// connection can do must not change while it is open. WebSockets of other nodes stay open.
func TestAStandbyThatLeadsEndsItsWebSockets(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	conns := map[*node]*rpctest.Conn{}
	for _, n := range others(nodes, leader) {
		conns[n] = rpctest.Dial(t, n.http, "")
		conns[n].Must("ping", `{}`)
		require.Equal(t, 1002, conns[n].Call("account.get", `{"account":"1"}`).Error.Code, "a standby has no accounts")
	}
	leader.crash()
	next := leaderOf(t, others(nodes, leader)...)
	code, reason := conns[next].Closed()
	require.Equal(t, 1001, code)
	require.Equal(t, "this node leads from now on; connect again", reason)
	again := rpctest.Dial(t, next.http, "")
	again.Must("order.place", `{"account":"1","sym":"SPY","amount":"1","limit":"10"}`)
	for _, n := range others(nodes, leader) {
		if n != next {
			n.becomes(t, remote.RoleStandby)
			conns[n].Must("ping", `{}`)
		}
	}
}

// TestPagesOfListedOriginsMayRead: pages of a listed origin may read over HTTP and open WebSockets.
func TestPagesOfListedOriginsMayRead(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, append(flags, "--cors-origins=https://desk.example")...)
	const listed = "https://desk.example"
	for origin, want := range map[string]string{listed: listed, "https://evil.example": ""} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.http+"/api/v1/symbols", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.Header.Get("Access-Control-Allow-Origin"))
		c, _, err := websocket.Dial(t.Context(), "ws://"+p.http+"/api/v1/ws",
			&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		require.Equal(t, origin == listed, err == nil, "%s: %v", origin, err)
		if err == nil {
			require.NoError(t, c.CloseNow())
		}
	}
}
