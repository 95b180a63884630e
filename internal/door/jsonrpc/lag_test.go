package jsonrpc_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/door"
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
