package script

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/faulty"
)

// faultyPlayer returns a Player for a faulty server.
func faultyPlayer(t *testing.T, o faulty.Options) *Player {
	t.Helper()
	addr, stop, err := faulty.Start(o)
	require.NoError(t, err)
	t.Cleanup(stop)
	options := dialect.Options{Habits: o.Habits, ReplyTime: replyTime}
	return &Player{Dialer: &dialect.Connector{Addr: addr, Options: options},
		Habits: o.Habits, Seed: 1, Salt: "123456789"}
}

func playTapes(t *testing.T, p *Player) (outs []Outcome) {
	t.Helper()
	for n := 1; n <= 4; n++ {
		outs = append(outs, p.Play(t.Context(), parse(t, "matching", fmt.Sprintf("| tape %d\n", n))))
	}
	return outs
}

func TestTapesHold(t *testing.T) {
	for name, p := range map[string]*Player{
		"twin":  twin(t, nil),
		"other": faultyPlayer(t, faulty.Options{}),
		"one frame": faultyPlayer(t, faulty.Options{
			Habits: dialect.Habits{OneFrame: true, AccountAttribute: true, Whole: true}}),
		"fault of another group": faultyPlayer(t, faulty.Options{Faults: []string{"open-unchanged"}}),
	} {
		for n, out := range playTapes(t, p) {
			require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out, "%s, tape %d", name, n+1)
		}
	}
}

// Of 40 orders, at most a handful remain in the shortened tape.
func TestTapesFindFaultsOfMatchingAndShowFewOrders(t *testing.T) {
	for _, fault := range []string{"priority-lost", "newest-first", "worst-price", "incoming-price", "strict-cross",
		"one-execution"} {
		failed := 0
		for _, out := range playTapes(t, faultyPlayer(t, faulty.Options{Faults: []string{fault}})) {
			if out.Status == Pass {
				continue
			}
			failed++
			all := strings.Join(out.Conversation, "\n")
			require.LessOrEqual(t, strings.Count(all, "<order "), 5, "%s:\n%s", fault, all)
			require.Contains(t, out.Message, fmt.Sprintf("Of 40 orders, %d ", strings.Count(all, "<order ")))
			require.True(t, strings.HasPrefix(out.Conversation[len(out.Conversation)-1], "! "), all)
			require.False(t, out.Trouble)
		}
		require.GreaterOrEqual(t, failed, 3, fault)
	}
}

// The outcome says what was found before the server went down, and has Trouble set.
func TestATapeThatBringsTheServerDown(t *testing.T) {
	var queries atomic.Int64
	p := twin(t, func(doc, reply string) string {
		if strings.Contains(doc, "<query") && queries.Add(1) > 1 {
			return "" // closes the connection
		}
		return strings.ReplaceAll(reply, "<open ", "<executed ")
	})
	out := p.Play(t.Context(), parse(t, "matching", "| tape 1\n"))
	require.Equal(t, Fail, out.Status)
	require.True(t, out.Trouble)
	require.Regexp(t, "^Of 40 orders, 40 orders are enough to show it. .* While the tape was being shortened: the server ",
		out.Message)

	out = twin(t, func(doc, reply string) string { return strings.Replace(reply, "<opened ", hang, 1) }).
		Play(t.Context(), parse(t, "matching", "| tape 1\n"))
	require.Equal(t, Fail, out.Status)

	p = twin(t, func(doc, reply string) string {
		if strings.Contains(doc, "<order") {
			return ""
		}
		return reply
	})
	out = p.Play(t.Context(), parse(t, "matching", "| tape 1\n"))
	require.Equal(t, Fail, out.Status)
	require.True(t, out.Trouble)
}

func TestATapeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := twin(t, func(_, reply string) string {
		cancel()
		return reply
	})
	out := p.Play(ctx, parse(t, "matching", "| tape 1\n"))
	require.Equal(t, Fail, out.Status)
}

func TestHistoriesAreLegal(t *testing.T) {
	for name, p := range map[string]*Player{
		"twin": twin(t, nil), "other": faultyPlayer(t, faulty.Options{}),
		"one frame": faultyPlayer(t, faulty.Options{Habits: dialect.Habits{OneFrame: true}}),
	} {
		out := p.Play(t.Context(), parse(t, "concurrency", "| legal 4\n"))
		require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out, name)
	}
}

// The servers have a race: they check first, and act later.
func TestRacesAreNotLegal(t *testing.T) {
	for _, fault := range []string{"racing-trades", "racing-ids"} {
		out := faultyPlayer(t, faulty.Options{Faults: []string{fault}}).
			Play(t.Context(), parse(t, "concurrency", "| legal 4\n"))
		require.Equal(t, Fail, out.Status, "%s: %+v", fault, out)
		require.NotEmpty(t, out.Conversation, fault)
	}
}

func TestWhatIsWrongOneAfterAnotherIsNotForLegal(t *testing.T) {
	for _, fault := range []string{"newest-first", "priority-lost", "worst-price", "strict-cross", "one-execution",
		"open-unchanged", "canceled-executes", "canceled-twice", "executions-forgotten"} {
		out := faultyPlayer(t, faulty.Options{Faults: []string{fault}}).
			Play(t.Context(), parse(t, "concurrency", "| legal 4\n"))
		require.Equal(t, Skip, out.Status, "%s: %+v", fault, out)
	}
	for _, fault := range []string{"incoming-price", "signed-shares", "executions-backwards", "open-zero",
		"seller-unpaid"} {
		out := faultyPlayer(t, faulty.Options{Faults: []string{fault}}).
			Play(t.Context(), parse(t, "concurrency", "| legal 4\n"))
		require.Equal(t, Pass, out.Status, "%s: %+v", fault, out)
	}
}

// The shares of this history add up, and no two open orders cross. But the first sell was answered before the
// second was sent, and stays open while the second executes.
func TestAHistoryWithoutALegalOrder(t *testing.T) {
	place := func(at int64, id uint64, amount int64) command {
		return command{LegalOp: audit.LegalOp{Sent: at, Answered: at + 1, ID: id, Amount: amount, Limit: 10},
			id: fmt.Sprint(id)}
	}
	query := func(at int64, id uint64, open, executed int64) command {
		return command{LegalOp: audit.LegalOp{Sent: at, Answered: at + 1, ID: id, Open: open, Executed: executed},
			id: fmt.Sprint(id)}
	}
	p := twin(t, nil).newPlay(parse(t, "concurrency", "| legal 4\n"), "", false)
	m := &market{play: p, traders: make([]*trader, 4),
		all: []command{place(1, 1, -3), place(3, 2, -3), place(5, 3, 3), query(7, 2, 0, 3), query(9, 3, 0, 3)}}
	m.all = append(m.all, query(11, 1, 3, 0))
	require.ErrorContains(t, m.judge(), "4 connections traded at the same moment. There must be a sequential order")
	m.all[1].Sent = 0 // now the second may have arrived first
	require.NoError(t, m.judge())
	m.all[5].Open = 2
	require.ErrorContains(t, m.judge(), "Order 1, of 3 shares, has 2 open, 0 canceled and 0 executed: together they "+
		"must be 3.")
}
