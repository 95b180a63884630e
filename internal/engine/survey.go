package engine

import (
	"context"
	"slices"

	"outcry/internal/exchange"
)

// surveyMax is how many orders of a book, resting or closed, a shard visits in one piece of work.
const surveyMax = 4096

// survey lists the open orders of an account in a book, found while no shard was held.
type survey struct {
	found []exchange.OrderID // unsorted; has all orders up to after that still rest, and some that have closed since
	after exchange.OrderID   // the last order id covered; orders with higher ids have to be checked
}

// openIn returns the ledger's count of open orders of the account at a shard. The shard must be between two
// commands.
func (c *cancelAll) openIn(d *shard) int {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return c.owner.OpenOrdersIn(d.instrument)
}

// survey finds the account's open orders in a large book while no shard is held.
func (c *cancelAll) survey(ctx context.Context, d *shard) error {
	s := &survey{}
	for next := -1; next != 0; {
		err := c.engine.call(ctx, &d.inbox, func() error {
			if next < 0 {
				next, s.after = 0, exchange.OrderID(c.engine.lastOrder.Load())
			}
			s.found, next = d.book.AppendOpenOf(s.found, c.owner, next, surveyMax)
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.found = slices.DeleteFunc(s.found, func(id exchange.OrderID) bool { return id > s.after })
	for c.engine.lastOrder.Load()-uint64(s.after) > surveyMax {
		if err := c.engine.call(ctx, &d.inbox, func() error { c.catchUp(d, s); return nil }); err != nil {
			return err
		}
	}
	c.surveys[d] = s
	return nil
}

// catchUp adds to a survey the orders of the next surveyMax ids after it. Without it, all ids given out by any
// symbol during a long survey would have to be checked while other shards are held.
func (c *cancelAll) catchUp(d *shard, s *survey) {
	last := min(exchange.OrderID(c.engine.lastOrder.Load()), s.after+surveyMax)
	for s.after < last {
		s.after++
		if o, found := d.book.Find(s.after); found && o.Account == c.owner && o.Open > 0 {
			s.found = append(s.found, o.ID)
		}
	}
}
