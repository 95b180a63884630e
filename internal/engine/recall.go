package engine

import (
	"context"
	"math"

	"outcry/internal/exchange"
)

// absent answers for an order that is not in memory: it is unknown if its id was not
// given out by now, otherwise the history has to say. What comes to be known later does
// not count, so that it does not matter when the history is asked.
func (e *Engine) absent(id exchange.OrderID, r *exchange.Result) {
	r.Reason = exchange.UnknownOrder
	if uint64(id) > e.lastOrder.Load() || e.options.History == nil {
		return
	}
	seen := uint64(math.MaxUint64)
	if e.options.Projection != nil {
		seen = e.options.Projection.Applied()
	}
	// An order enters the index before its record is appended: one that is not there
	// now either was closed and forgotten, or its record is later than seen.
	if _, held := e.index.Book(id); !held {
		r.Reason, r.Seen = exchange.InHistory, seen
	}
}

// Recall completes the result of a query or a cancel that Execute left as InHistory, by
// asking the history; every other result stays as it is. The order was closed long ago
// and changes no more, so it does not matter what has been done since. If the history
// does not answer, or ctx ends, the result is HistoryUnavailable. The mark that Execute
// returned covers what it tells.
//
// It loads up to most executions of the order, so callers who have many results to
// complete complete and send them one by one.
func (e *Engine) Recall(ctx context.Context, c *Request, r *exchange.Result, most int) {
	if r.Reason != exchange.InHistory {
		return
	}
	if c.Kind != exchange.QueryOrder {
		most = 0
	}
	o, found, err := e.options.History.Order(ctx, c.Names(r), 0, most)
	switch {
	case err != nil:
		r.Reason = exchange.HistoryUnavailable
	case !found || o.Seq > r.Seen:
		r.Reason = exchange.UnknownOrder
	case c.Kind == exchange.QueryOrder && !(c.OwnOnly && o.Account != c.Account):
		r.Reason, r.Status = exchange.OK, o.Status
	case o.Account != c.Account:
		r.Reason = exchange.ForeignOrder
	case o.Status.Canceled > 0:
		r.Reason = exchange.AlreadyCanceled
	default:
		r.Reason = exchange.AlreadyExecuted
	}
	r.Seen = 0
}
