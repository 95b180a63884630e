package door

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
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
	for _, l := range []struct {
		kind    exchange.CommandKind
		outcome outcome
		want    uint64
	}{
		{exchange.OpenAccount, outcomeOK, 2},
		{exchange.OpenAccount, outcomeRejected, 1},
		{exchange.QueryOrder, outcomeOK, 2},
		{exchange.QueryOrder, outcomeRefused, 0},
	} {
		require.Equal(t, l.want, m.latency[l.kind][l.outcome].Count(), "%s %s", l.kind, outcomeNames[l.outcome])
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestLimitsOfTheExchangeAreCounted lets the database be unavailable, and sends commands that run into each
// limit.
func TestLimitsOfTheExchangeAreCounted(t *testing.T) {
	m := NewMetrics()
	b := new(batch)
	for reason := exchange.OK; known(reason); reason++ {
		for range reason {
			b.commands = append(b.commands, engine.Request{Command: exchange.Command{Kind: exchange.PlaceOrder}})
			b.results = append(b.results, exchange.Result{Reason: reason})
		}
	}
	r := new(reply)
	m.executed(b, r)
	for reason, limit := range limitOf {
		require.InDelta(t, float64(reason), testutil.ToFloat64(m.byLimit[limit]), 0, limitNames[limit])
		require.Equal(t, outcomeRefused, outcomeOf(reason))
	}
	require.Len(t, r.tallies, 2, "different reasons of one outcome share a tally")
	refused := 0
	for _, reason := range []exchange.RejectReason{exchange.SymbolLimitExceeded, exchange.NoRoom, exchange.NoRoomToCancel,
		exchange.TooManyFills, exchange.DatabaseBehind, exchange.HistoryUnavailable, exchange.Halted,
		exchange.AccountLimitExceeded, exchange.AccountOrdersExceeded, exchange.OpenOrdersExceeded, exchange.NobodyOpposite,
		exchange.Blocked, exchange.NotReadYet, exchange.ViewUnavailable, exchange.Unresumed} {
		refused += int(reason)
	}
	require.Contains(t, r.tallies, tally{exchange.PlaceOrder, outcomeRefused, refused})
	require.Contains(t, r.tallies, tally{exchange.PlaceOrder, outcomeRejected, len(b.commands) - refused})
}

// The queries request more than fits into a reply: first for orders in memory, then for orders that are only in the
// database, which answers.
func TestQueriesThatAreNotAnsweredAreCountedAsSuch(t *testing.T) {
	for _, past := range []exchange.OrderID{0, 10} {
		l, x, m := listen(t), newFake(), NewMetrics()
		x.past, x.executions = past, 100
		s := start(t, l, x, Options{ReplyBytesMax: 9000, Metrics: m})
		c := dial(t, l)
		c.send(asking("", 1, 2, 3, 4, 5, 6))
		require.Equal(t, 4, strings.Count(c.reply(), "<error "))
		require.NoError(t, c.Close())
		eventually(t, func() bool { return s.count() == 0 })
		for outcome, want := range map[string]float64{"ok": 2, "reply_too_long": 4, "history_unavailable": 0,
			"no_memory": 0} {
			require.Equal(t, want, testutil.ToFloat64(m.commands.WithLabelValues("query", outcome)), outcome)
		}
		for o, want := range [outcomes]uint64{outcomeOK: 2, outcomeRejected: 4} {
			require.Equal(t, want, m.latency[exchange.QueryOrder][o].Count(), outcomeNames[o])
		}
	}
}

// TestStagesOfRequestsAreDrawn sends requests, over TCP and over Answer, until some batches were measured,
// and checks that each stage was measured for the same batches.
func TestStagesOfRequestsAreDrawn(t *testing.T) {
	l, m := listen(t), NewMetrics()
	s := start(t, l, newFake(), Options{Metrics: m})
	c := dial(t, l)
	mine := []stage{stageDecode, stageEncode, stageJournal, stageWrite}
	drawn := func() bool {
		for _, s := range mine {
			if m.byStage[s].Count() == 0 {
				return false
			}
		}
		return true
	}
	sent := uint64(0)
	for ; !drawn(); sent++ { // 8 rounds on average
		require.Less(t, sent, uint64(1000), "never drawn")
		c.send(query(1))
		c.reply()
		_, err := ask(s, t.Context(), framedXML(query(1)))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	eventually(t, func() bool { return s.count() == 0 })
	for _, s := range mine {
		require.Equal(t, m.byStage[stageDecode].Count(), m.byStage[s].Count(), stageNames[s])
		require.LessOrEqual(t, m.byStage[s].Count(), 2*sent)
	}
	require.Equal(t, 2*sent, m.latency[exchange.QueryOrder][outcomeOK].Count())
	require.Zero(t, m.byStage[stageInbox].Count())
	m.Executed(time.Second, time.Millisecond)
	require.EqualValues(t, 1, m.byStage[stageInbox].Count())
	require.EqualValues(t, 1, m.byStage[stageMatch].Count())
}

// BenchmarkObserveBatch measures what it costs to count a batch: one frame alone, and 16 frames together,
// with a market's mix of commands.
func BenchmarkObserveBatch(b *testing.B) {
	for _, frames := range []int{1, 16} {
		b.Run(fmt.Sprintf("frames=%d", frames), func(b *testing.B) {
			m := NewMetrics()
			batch := &batch{messages: make([]message, frames), frames: frames}
			for i := range frames {
				batch.messages[i].Message = xmlCodec.NewMessage()
				kind, reason := exchange.PlaceOrder, exchange.OK
				if i%4 == 3 {
					kind = exchange.CancelOrder
					if i%8 == 7 {
						reason = exchange.AlreadyExecuted
					}
				}
				batch.commands = append(batch.commands, engine.Request{Command: exchange.Command{Kind: kind}})
				batch.results = append(batch.results, exchange.Result{Reason: reason})
			}
			r, begun := new(reply), time.Now()
			for b.Loop() {
				r.tallies, r.begun = r.tallies[:0], begun
				batch.watch.Start()
				m.lap(&batch.watch, stageDecode)
				batch.watch.Lap()
				m.executed(batch, r)
				m.lap(&r.watch, stageJournal)
				m.answered(r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames), "ns/command")
		})
	}
}

func TestEveryOutcomeHasACounter(t *testing.T) {
	m := NewMetrics()
	require.Equal(t, "unknown", (exchange.ListFills + 1).String(), "a kind after the last that is counted")
	for kind := exchange.OpenAccount; kind <= exchange.ListFills; kind++ {
		if kind == exchange.ShowOrder {
			continue // no frame contains this kind
		}
		for reason := exchange.OK; reason <= exchange.HistoryUnavailable; reason++ {
			require.NotNil(t, m.byKind[kind][reason], "%s %s", kind, reason)
		}
	}
	for _, reason := range unanswered {
		require.False(t, known(reason), "%s: the exchange has no such reason", reason)
		require.NotNil(t, m.byKind[exchange.QueryOrder][reason], reason)
	}
}

func TestAnswerDoesWhatAFrameDoes(t *testing.T) {
	x := newFake()
	s := New(x, Options{})
	for order := 1; order <= 3; order++ {
		reply, err := ask(s, t.Context(), framedXML(query(order)))
		require.NoError(t, err)
		require.Equal(t, answer(order), string(reply))
	}
	reply, err := ask(s, t.Context(), nil)
	require.NoError(t, err)
	require.Contains(t, string(reply), "<results><error>malformed XML")
	require.Equal(t, []int{1, 1, 1}, x.calls, "frames without commands do not reach the exchange")
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
