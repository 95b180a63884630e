package door

import (
	"context"
	"fmt"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

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
