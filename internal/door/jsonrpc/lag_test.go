package jsonrpc_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/door"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// slowed returns how often clients had to wait for the views.
func (s *server) slowed() (hits float64) {
	all, err := s.figures.Gather()
	require.NoError(s.t, err)
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == "outcry_limit_hits_total" && m.GetLabel()[0].GetValue() == "followers" {
				hits = m.GetCounter().GetValue()
			}
		}
	}
	return hits
}

// flood places and cancels dust, as fast as its rate allows: 64 orders and a cancel-all in each round.
func (s *server) flood(account exchange.AccountID, rounds int) {
	caller, err := s.sessions.Enter("trader", nil, func() {})
	if !assert.NoError(s.t, err) {
		return
	}
	defer caller.Leave()
	for range rounds {
		requests := make([]engine.Request, 65)
		for i := range requests {
			requests[i].Command = exchange.Command{Kind: exchange.PlaceOrder, Account: account, Symbol: "SPY", Shares: 1,
				Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}}
		}
		requests[64].Command = exchange.Command{Kind: exchange.CancelAll, Account: account}
		pending, err := s.sessions.Call(context.Background(), caller, requests, make([]door.Outcome, 65))
		if !assert.NoError(s.t, err) || !assert.NoError(s.t, pending.Wait(context.Background())) {
			return
		}
	}
}

// TestTradersOfDustDelayNobodyElse: traders who place and cancel dust faster than the views can follow must wait, so
// that another client's order is answered as soon as the views have made a little progress.
func TestTradersOfDustDelayNobodyElse(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	s.create(`<account id="1" balance="100000"/><account id="2" balance="100000"/><account id="3" balance="100000"/>` +
		`<account id="4" balance="100000"/><symbol sym="SPY"/>`)
	w := s.dial()
	const order = `{"account":"4","sym":"SPY","amount":"1","limit":"1"}`
	w.Must("order.place", order)
	before := s.sessions.Mark().Seq
	s.gate.Store(before)
	var trading sync.WaitGroup
	defer trading.Wait()
	defer s.gate.Store(1 << 60)
	for i := range 3 {
		trading.Go(func() { s.flood(accountID(i+1), 600) })
	}
	require.Eventually(t, func() bool { return s.slowed() == 3 }, patience, time.Millisecond, "all three wait")
	s.create(`<account id="5" balance="1"/><symbol sym="QQQ"/>`)
	require.NotContains(t, s.xml(`<transactions id="4"><cancel-all/></transactions>`), "<error")
	w.Send("order.place", order)
	// Each trader has sent at most its share of 16,384 records and cancels, plus one round.
	s.gate.Store(before + 3*(16_384+65+64) + 10)
	require.Nil(t, w.Next().Error)
	require.Equal(t, 3.0, s.slowed())
}

// serveXML serves XML over TCP and returns the address.
func (s *server) serveXML() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	served := make(chan error, 1)
	go func() { served <- s.sessions.Serve(l, door.Adapt(wire.XML{})) }()
	s.t.Cleanup(func() {
		require.NoError(s.t, s.sessions.Shutdown(context.Background()))
		require.NoError(s.t, <-served)
	})
	return l.Addr().String()
}

// TestASlowSyncSlowsNoClient: while the journal's disk does not finish a sync, the views may not see the records that
// wait for it. So no client waits for the views and no order is rejected because of them, however much its client
// sends. Cancel-all and the registrar work too. Once the sync ends, all are answered.
func TestASlowSyncSlowsNoClient(t *testing.T) {
	// Not parallel: the views have little time to take all of it in before the answer over WebSocket is due.
	s := startWith(t, 16<<20, 0)
	s.create(`<account id="1" balance="1000000"/><account id="2" balance="100000"/><symbol sym="SPY"/>`)
	w, address := s.dial(), s.serveXML()
	const place, order = `{"account":"2","sym":"SPY","amount":"1","limit":"1"}`, `<order sym="SPY" amount="1" limit="1"/>`
	w.Must("order.place", place)
	s.disk.Lock()
	release := sync.OnceFunc(s.disk.Unlock)
	defer release()
	w.Must("order.place", place) // the last sync that ends; the disk is slow from then on
	before := s.sessions.Mark().Seq
	executed := func(more int) {
		require.Eventually(t, func() bool { return s.sessions.Mark().Seq >= before+uint64(more) }, patience, time.Millisecond)
	}

	// The first frame of each connection is more than its share, and all are more than that of their account.
	const connections, each = 4, 17_000
	first := wire.AppendFrame(nil, []byte(`<transactions id="1">`+strings.Repeat(order, each)+`</transactions>`))
	second := wire.AppendFrame(nil, []byte(`<transactions id="1">`+order+`<query id="1"/></transactions>`))
	var sending sync.WaitGroup
	defer sending.Wait()
	for range connections {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		sending.Go(func() {
			_, err := conn.Write(append(first[:len(first):len(first)], second...))
			assert.NoError(t, err)
			replies := wire.NewFrameReader(conn, 16<<20)
			for range 2 {
				reply, err := replies.Next()
				assert.NoError(t, err)
				assert.NotContains(t, string(reply), "<error")
			}
		})
	}
	executed(connections * (each + 1))
	w.Send("order.place", place)
	created := make(chan string, 1)
	go func() {
		created <- s.xml(`<create><account id="3" balance="1"/><symbol sym="QQQ"/></create>`) +
			s.xml(`<transactions id="2"><cancel-all/></transactions>`)
	}()
	executed(connections*(each+1) + 3)
	require.Zero(t, s.slowed(), "nothing that waits for the disk is lag of a view")
	release()
	require.Nil(t, w.Next().Error)
	require.NotContains(t, <-created, "<error")
	sending.Wait()
}
