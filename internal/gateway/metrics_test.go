package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestMetricsCountWhatHappened(t *testing.T) {
	l, m := listen(t), NewMetrics()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	s := start(t, l, newFake(), Options{Metrics: m})
	c := dial(t, l)
	c.send(opening(1))
	c.send(frame(`<create><account id="2" balance="1"/><account id="2" balance="1"/><account id="x"/></create>`))
	c.send(frame("no XML"))
	c.send(query(1), query(2))
	received := 0
	for range 5 {
		received += len(frame(c.reply()))
	}
	require.NoError(t, c.Close())
	eventually(t, func() bool { return s.count() == 0 && testutil.ToFloat64(m.connections) == 0 })
	commands := func(kind, outcome string) prometheus.Counter { return m.commands.WithLabelValues(kind, outcome) }
	for _, count := range []struct {
		name string
		of   prometheus.Collector
		want float64
	}{
		{"accounts opened", commands("account", "ok"), 2},
		{"accounts refused", commands("account", "account_exists"), 1},
		{"queries", commands("query", "ok"), 2},
		{"orders", commands("order", "ok"), 0},
		{"frames", m.frames, 5},
		{"malformed", m.malformed, 2},
		{"connections", m.accepted, 1},
		{"reply bytes", m.replyBytes, float64(received)},
	} {
		require.Equal(t, count.want, testutil.ToFloat64(count.of), count.name)
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestEveryOutcomeHasACounter(t *testing.T) {
	m := NewMetrics()
	require.Equal(t, "unknown", (exchange.CancelOrder + 1).String(), "a kind after the last that is counted")
	for kind := exchange.OpenAccount; kind <= exchange.CancelOrder; kind++ {
		require.Greater(t, len(m.byKind[kind]), int(exchange.HistoryUnavailable))
	}
}

func TestAnswerDoesWhatAFrameDoes(t *testing.T) {
	x := newFake()
	s := New(x, Options{BareReplies: true})
	for order := 1; order <= 3; order++ {
		reply, err := ask(s, t.Context(), framedXML(query(order)))
		require.NoError(t, err)
		require.Equal(t, answer(order), string(reply))
	}
	reply, err := ask(s, t.Context(), nil)
	require.NoError(t, err)
	require.Contains(t, string(reply), "<results><error>malformed XML")
	require.Equal(t, []int{1, 1, 1}, x.calls, "what asks nothing does not reach the exchange")
}

func TestAnswerWaitsUntilItMayTell(t *testing.T) {
	x := newFake()
	x.held = true
	s := New(x, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := ask(s, ctx, framedXML(query(1)))
		done <- err
	}()
	eventually(t, func() bool { return x.executed() == 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestAnswerReturnsTheErrorOfAFailedExchange(t *testing.T) {
	gone := errors.New("the disk is gone")
	for _, x := range []*fake{{executeErr: gone}, {durableErr: gone}} {
		reply, err := ask(New(x, Options{}), t.Context(), framedXML(query(1)))
		require.ErrorIs(t, err, gone)
		require.Nil(t, reply)
	}
}

// framedXML returns the XML of a frame.
func framedXML(frame string) []byte {
	_, xml, _ := strings.Cut(frame, "\n")
	return []byte(xml)
}
