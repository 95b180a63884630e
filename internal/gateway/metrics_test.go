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
	c.reply()
	c.send(frame(`<create><account id="2" balance="1"/><account id="2" balance="1"/><account id="x"/></create>`))
	c.reply()
	c.send(frame("no XML"))
	c.reply()
	c.send(query(1), query(2))
	c.reply()
	c.reply()
	require.NoError(t, c.Close())
	eventually(t, func() bool { return s.count() == 0 && testutil.ToFloat64(m.connections) == 0 })
	want := `
# HELP outcry_commands_total Commands that were executed, by kind and by what they came to: ok or the reason of a reject.
# TYPE outcry_commands_total counter
outcry_commands_total{kind="account",outcome="account_exists"} 1
outcry_commands_total{kind="account",outcome="ok"} 2
outcry_commands_total{kind="query",outcome="ok"} 2
# HELP outcry_connections_accepted_total TCP connections that were accepted, without those over the limit.
# TYPE outcry_connections_accepted_total counter
outcry_connections_accepted_total 1
# HELP outcry_frames_total Whole frames that were executed.
# TYPE outcry_frames_total counter
outcry_frames_total 5
# HELP outcry_malformed_total Errors in replies that no command led to: malformed documents, elements and values.
# TYPE outcry_malformed_total counter
outcry_malformed_total 2
`
	got := withoutZeros(t, registry, "outcry_commands_total", "outcry_connections_accepted_total", "outcry_frames_total", "outcry_malformed_total")
	require.Equal(t, strings.TrimSpace(want), got)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// withoutZeros returns the text of the named metrics, without values of 0.
func withoutZeros(t *testing.T, g prometheus.Gatherer, names ...string) string {
	t.Helper()
	text, err := testutil.CollectAndFormat(collectorOf{g}, "text/plain", names...)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, " 0\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
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
		reply, err := s.Answer(t.Context(), framedXML(query(order)))
		require.NoError(t, err)
		require.Equal(t, answer(order), string(reply))
	}
	reply, err := s.Answer(t.Context(), nil)
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
		_, err := s.Answer(ctx, framedXML(query(1)))
		done <- err
	}()
	eventually(t, func() bool { return x.executed() == 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestAnswerReturnsTheErrorOfAFailedExchange(t *testing.T) {
	gone := errors.New("the disk is gone")
	for _, x := range []*fake{{executeErr: gone}, {durableErr: gone}} {
		reply, err := New(x, Options{}).Answer(t.Context(), framedXML(query(1)))
		require.ErrorIs(t, err, gone)
		require.Nil(t, reply)
	}
}

// framedXML returns the XML of a frame.
func framedXML(frame string) []byte {
	_, xml, _ := strings.Cut(frame, "\n")
	return []byte(xml)
}
