package door

import (
	"context"
	"fmt"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// slot is a place among the frames and requests of callers without a connection that are executed at the same time:
// one of answersMax and, for one that waits for the history, one of lateAnswersMax. The zero value has none.
type slot struct {
	server *Server // nil without a place
	late   bool    // it has one of lateAnswersMax
}

// take takes a place for the execution of commands, and reports whether there was one.
func (x *slot) take(s *Server, commands []engine.Request) bool {
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

// takeLate takes one of lateAnswersMax too, unless it has one. It reports whether it has one.
func (x *slot) takeLate() bool {
	x.late = x.late || x.server.lateAnswers.TryAcquire(1)
	return x.late
}

// giveBack gives back what was taken, if anything was.
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

// load completes a result whose order is in the history, with up to most executions.
func (s *Server) load(ctx context.Context, c *engine.Request, r *exchange.Result, most int) {
	s.exchange.Recall(ctx, c, r, most)
	s.hideForeign(r)
}

// hideForeign replaces the reason ForeignOrder by the one that a client may see.
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
