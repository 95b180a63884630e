package engine

import "outcry/internal/exchange"

func (d *shard) amendOrder(c *Request, r *exchange.Result, now int64) error {
	panic("not yet")
}
