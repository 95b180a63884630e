package engine

import (
	"context"

	"outcry/internal/exchange"
)

// Show returns an order of any account, once its status is durable. It returns up to most of the order's
// executions, after skipping the first after. found is false if there is no such order. An error means that the
// exchange has failed or is stopping, or that the history could not be asked, or it is ctx's; then the
// order may not be durable and must not be shown.
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
		o, found = *r.More.Shown, true
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

// showOrder executes the command of Show.
func (d *shard) showOrder(c *exchange.Command, r *exchange.Result) {
	o, found := d.book.Find(c.Order)
	if !found {
		d.engine.answerAbsent(c.Order, r) // the order was forgotten while the command was on its way
		return
	}
	public := o.Public(d.symbol)
	r.More = &exchange.ResultMore{Shown: &public}
}
