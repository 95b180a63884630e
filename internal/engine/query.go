package engine

import (
	"math"

	"outcry/internal/exchange"
)

func (d *shard) queryOrder(c *Request, r *exchange.Result) {
	if d.find(c.Account) == nil {
		r.Reason = exchange.UnknownAccount
	} else if o, found := d.book.Find(d.orderOf(&c.Command, r)); !found {
		d.engine.answerAbsent(c.Names(r), r) // the order was forgotten before the command reached its shard
	} else if c.OwnOnly && o.Account.ID != c.Account {
		r.Reason = exchange.ForeignOrder
	} else {
		r.Status = o.Status()
	}
}

// showOrder executes the command of Show.
func (d *shard) showOrder(c *exchange.Command, r *exchange.Result) {
	o, found := d.book.Find(c.Order)
	if !found {
		d.engine.answerAbsent(c.Order, r) // the order was forgotten before the command reached its shard
		return
	}
	public := o.Public(d.symbol)
	r.Answer = &exchange.Answer{Shown: &public}
}

// orderOf returns the id of the order that a command names. If it names a ref, r.Order holds the first order of the
// ref's chain, and orderOf sets it to the newest order of the chain in memory.
func (d *shard) orderOf(c *exchange.Command, r *exchange.Result) exchange.OrderID {
	if c.Ref == "" {
		return c.Order
	}
	r.Order = d.book.Newest(r.Order)
	return r.Order
}

// report returns the status of an order for a reply, with at most ReportExecutionsMax+1 executions:
// the last one only shows that there are more than a reply lists.
func report(s exchange.Status) exchange.Status {
	if s.Executions = s.Executions[:min(len(s.Executions), exchange.ReportExecutionsMax+1)]; len(s.Executions) == 0 {
		s.Executions = nil
	}
	return s
}

// page returns up to most executions after skipping the first after.
func page(executions []exchange.Execution, after, most int) []exchange.Execution {
	executions = executions[min(after, len(executions)):]
	return executions[:min(most, len(executions))]
}

// answerAbsent answers a command for an order that is not in memory. The reason is UnknownOrder if its id was not
// given out yet. Otherwise the result is pending as InHistory. AsOf limits the answer to records applied by now, so
// that it does not depend on when the history is queried.
func (e *Engine) answerAbsent(id exchange.OrderID, r *exchange.Result) {
	r.Reason = exchange.UnknownOrder
	if uint64(id) > e.lastOrder.Load() || e.options.History == nil {
		return
	}
	seen := uint64(math.MaxUint64)
	if e.options.Projection != nil {
		seen = e.options.Projection.Applied()
	}
	// An order enters the index before its record is appended. If it is still not in the index,
	// it either was closed and forgotten, or its record is later than seen.
	if _, held := e.index.Book(id); !held {
		r.Reason, r.Pending, r.AsOf = exchange.HistoryUnavailable, exchange.InHistory, seen
	}
}
