package door

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// slot is a place among the frames and requests of callers without a connection that are executed at the same time.
// It is one of answersMax and, for a frame or request that waits for the history, also one of lateAnswersMax. The
// zero value is no place.
type slot struct {
	server *Server // nil without a place
	late   bool    // the slot also has one of the lateAnswersMax places
}

// acquire takes a place for the execution of commands, and reports whether one was free.
func (x *slot) acquire(s *Server, commands []engine.Request) bool {
	if !s.answering.TryAcquire(1) {
		return false
	}
	x.server = s
	if s.exchange.Ready(commands) < len(commands) && !x.takeLate() {
		x.giveBack()
		return false
	}
	return true
}

// takeLate also takes one of lateAnswersMax, unless x already has one. It reports whether x has one.
func (x *slot) takeLate() bool {
	x.late = x.late || x.server.lateAnswers.TryAcquire(1)
	return x.late
}

// giveBack releases everything that x holds.
func (x *slot) giveBack() {
	if x.server == nil {
		return
	}
	if x.late {
		x.server.lateAnswers.Release(1)
	}
	x.server.answering.Release(1)
	*x = slot{}
}

// executeAll executes the commands of a batch or of a Call in order, at least one, and fills results, which has
// the same length. The mark says what must be durable before a result may be shown. The error is the exchange's
// or ctx's; then no result may be shown, and the exchange may still write to both slices.
func (s *Server) executeAll(ctx context.Context, commands []engine.Request, results []exchange.Result) (
	m engine.Mark, err error,
) {
	if m, err = s.exchange.Execute(ctx, commands, results); err != nil {
		return m, fmt.Errorf("session: execute %d commands: %w", len(commands), err)
	}
	for i := range results {
		s.hideForeign(&results[i])
	}
	return m, nil
}

// sources completes the results of one batch or Call from the history and the view. A source that did not answer is
// not asked again.
type sources struct {
	server      *Server
	unavailable bool      // the history did not answer
	unseen      bool      // the view of accounts did not answer
	failed      time.Time // when the history did not answer; zero if it did
}

// recall completes a result whose order is in the history, with up to most executions. If done is not nil, the
// caller calls it once the fetched executions are dropped.
func (x *sources) recall(ctx context.Context, c *engine.Request, r *exchange.Result, most int) (done func()) {
	s := x.server
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	if x.unavailable || s.recalls.Acquire(ctx, 1) != nil {
		r.Pending = exchange.Nowhere
	} else {
		done = func() { s.recalls.Release(1) }
		s.exchange.Recall(ctx, c, r, most)
		s.hideForeign(r)
	}
	x.record(r)
	return done
}

// show completes a result that waits for the view of accounts.
func (x *sources) show(ctx context.Context, c *engine.Request, r *exchange.Result) {
	if view := x.server.options.View; view != nil && !x.unseen {
		view.Show(ctx, &c.Command, r, !x.unavailable)
	} else {
		r.Pending = exchange.Nowhere
	}
	x.unseen = r.Reason == exchange.ViewUnavailable
	x.record(r)
}

// record records whether the history did not answer for a result.
func (x *sources) record(r *exchange.Result) {
	if r.Reason == exchange.HistoryUnavailable && !x.unavailable {
		x.unavailable, x.failed = true, time.Now() // the time of the failure; the reply may be sent much later
	}
}

// hideForeign replaces the reason ForeignOrder by the reason that the client may see.
func (s *Server) hideForeign(r *exchange.Result) {
	if r.Reason == exchange.ForeignOrder {
		r.Reason = ForeignOrderReason(s.options.Tokens)
	}
}

// ForeignOrderReason returns why a command about an order of another account is refused: UnknownOrder if clients
// must present tokens, so that a client cannot find out which orders other accounts have, else ForeignOrder.
// tokens is nil if none is required.
func ForeignOrderReason(tokens *auth.Tokens) exchange.RejectReason {
	if tokens != nil {
		return exchange.UnknownOrder
	}
	return exchange.ForeignOrder
}
