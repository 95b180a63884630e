package engine

import (
	"context"

	"outcry/internal/exchange"
)

// Show returns an order of any account, with up to most of its executions, those behind the
// first after, once everything that it says is durable. found is false if there is no such
// order. The error says that the exchange has failed or is stopping, that the history could
// not be asked, or is ctx's; then nothing of it is durable.
func (e *Engine) Show(
	ctx context.Context, id exchange.OrderID, after, most int,
) (o exchange.PublicOrder, found bool, err error) {
	commands := []Request{{Command: exchange.Command{Kind: exchange.ShowOrder, Order: id}}}
	results := make([]exchange.Result, 1)
	mark, err := e.Execute(ctx, commands, results)
	if err != nil {
		return o, false, err
	}
	//exhaustive:ignore what else it can be is that there is no such order
	switch results[0].Reason {
	case exchange.OK:
		o, found = *results[0].More.Shown, true
		o.Status.Executions = page(o.Status.Executions, after, most)
	case exchange.InHistory: // it was closed long ago, and changes no more
		var closed exchange.ClosedOrder
		if closed, found, err = e.options.History.Order(ctx, id, after, most); err != nil {
			return o, false, err
		}
		if found = found && closed.Seq <= results[0].Seen; found {
			o = closed.PublicOrder
		}
	}
	return o, found, e.Durable(ctx, mark)
}

// showOrder does the command of Show.
func (d *shard) showOrder(c *exchange.Command, r *exchange.Result) {
	o, found := d.book.Find(c.Order)
	if !found {
		d.engine.absent(c.Order, r) // it was forgotten on the way here
		return
	}
	public := o.Public(d.symbol)
	r.More = &exchange.ResultMore{Shown: &public}
}
