package engine

import (
	"context"

	"outcry/internal/exchange"
)

// Show returns an order of any account, once its status is durable. It returns up to most of the order's executions,
// after skipping the first after. found is false if there is no such order. An error means that the exchange has
// failed or is stopping, or that the history could not be queried, or it is ctx's; then the order may not be durable
// and must not be shown.
func (e *Engine) Show(
	ctx context.Context, id exchange.OrderID, after, most int,
) (o exchange.PublicOrder, found bool, err error) {
	commands := []Request{{Command: exchange.Command{Kind: exchange.ShowOrder, Order: id}}}
	results := make([]exchange.Result, 1)
	mark, err := e.Execute(ctx, commands, results)
	if err != nil {
		return o, false, err
	}
	switch r := &results[0]; { // every other result means that there is no such order
	case r.Reason == exchange.OK:
		o, found = *r.Answer.Shown, true
		o.Status.Executions = page(o.Status.Executions, after, most)
	case r.Pending == exchange.InHistory: // the order was closed long ago and no longer changes
		var closed exchange.ClosedOrder
		if closed, found, err = e.options.History.Order(ctx, id, after, most); err != nil {
			return o, false, err
		}
		if found = found && closed.Seq <= r.AsOf; found {
			o = closed.PublicOrder
		}
	}
	return o, found, e.Durable(ctx, mark)
}

// Recall completes a result that Execute left pending as InHistory, by asking the history. It leaves all other results
// unchanged. The order was closed long ago and no longer changes, so commands executed since then do not matter. If
// the history does not answer, or ctx ends, the result is HistoryUnavailable. The mark that Execute returned covers
// the completed result.
//
// It loads up to most executions of the order. Callers with many such results
// should complete and send them one by one.
func (e *Engine) Recall(ctx context.Context, c *Request, r *exchange.Result, most int) {
	if r.Pending != exchange.InHistory {
		return
	}
	seen := r.AsOf
	r.Pending, r.AsOf = exchange.Nowhere, 0
	switch {
	case c.Kind == exchange.PlaceOrder:
		e.recallReport(ctx, r.Order, seen, r)
		return
	case c.Kind == exchange.AmendOrder && (r.Amended != nil || e.recallAmend(ctx, &c.Command, r)):
		if c.Report && r.Amended.By != 0 {
			e.recallReport(ctx, r.Amended.By, seen, r)
		}
		return
	case r.Reason != exchange.HistoryUnavailable: // the amend's ref was used otherwise, or its use is unknown
		return
	case c.Kind != exchange.QueryOrder:
		most = 0
	}
	o, found, err := e.recallOrder(ctx, &c.Command, r, most)
	switch {
	case err != nil:
		r.Reason = exchange.HistoryUnavailable
	case !found || o.Seq > seen:
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
}

// recallOrder asks the history for the order that a command names. A ref names the newest order of its chain.
func (e *Engine) recallOrder(
	ctx context.Context, c *exchange.Command, r *exchange.Result, most int,
) (o exchange.ClosedOrder, found bool, err error) {
	if c.Ref != "" {
		newest, err := e.options.History.Newest(ctx, r.Order)
		if err != nil {
			return o, false, err
		}
		r.Order = newest
	}
	return e.options.History.Order(ctx, c.Names(r), 0, most)
}

// recallReport sets r to the status of an order right after its own records, once the history has all records
// up to seen.
func (e *Engine) recallReport(ctx context.Context, id exchange.OrderID, seen uint64, r *exchange.Result) {
	r.Reason = exchange.HistoryUnavailable
	if p := e.options.Projection; p != nil && p.WaitApplied(ctx, seen) != nil {
		return
	}
	o, found, err := e.options.History.OrderAtFirst(ctx, id, exchange.ReportExecutionsMax+1)
	if err == nil && found {
		r.Reason, r.Status = exchange.OK, report(o.Status)
	}
}

// recallAmend checks whether an amend of an order that is not in memory is a repetition, by its own ref. If so,
// it repeats the first answer and done is true. If the history does not answer, r.Reason is RefUnavailable; if
// the ref was used for something else, it is RefUsed.
func (e *Engine) recallAmend(ctx context.Context, c *exchange.Command, r *exchange.Result) (done bool) {
	key := exchange.RefKey{Account: c.Account, Ref: newRef(c)}
	if key.Ref == "" {
		return false
	}
	known, use, used := e.recallFromMemory(key)
	if !known {
		found := make(map[exchange.RefKey]recalled)
		if !e.askHistory(ctx, []exchange.RefKey{key}, found) {
			r.Reason = exchange.RefUnavailable
			return false
		}
		use, used = found[key].use, found[key].used
	}
	if !used {
		return false
	}
	if !repeats(c, c.Names(r), &use) {
		r.Reason = exchange.RefUsed
		return false
	}
	r.Reason, r.Order, r.Amended = exchange.OK, use.Amend.Named, &use.Amend.Amended
	if c.Report && r.Amended.By == 0 {
		r.Status.Open = r.Amended.Open
	}
	return true
}

// repeats reports whether c, an amend of order, is a repetition of the command that made use. A client that repeats an
// amend may name the original order, the first of the chain, or the replacement, which it knows from the reply. An
// amend that specifies the open amount never counts, because the amount executed at the time is not known here.
func repeats(c *exchange.Command, order exchange.OrderID, use *exchange.RefUse) bool {
	a := use.Amend
	if a == nil || c.More != nil && c.More.Open || order != a.First && order != a.Named && order != use.Order {
		return false
	}
	as := c.Use()
	as.Symbol, as.Amend.First = use.Symbol, a.First
	return use.Same(as)
}
