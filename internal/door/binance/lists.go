package binance

import (
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// openPage is how many open orders are read at a time.
const openPage = 1000

// openOrders answers GET openOrders.
func (d *Door) openOrders(q *request) (work, *Error) {
	var sym exchange.Symbol
	var problem *Error
	if q.get("symbol") != "" {
		sym, problem = q.symbol()
	}
	return func() ([]byte, *Error) {
		view, _, problem := d.seen(q)
		if problem != nil {
			return nil, problem
		}
		b, large := []byte{'['}, false
		for after, more := exchange.OrderID(0), true; more; {
			var orders []exchange.OrderDetail
			var err error
			if orders, more, _, err = view.OpenOrders(q.account, sym, after, openPage); err != nil {
				return nil, problemOf(err)
			}
			for i := range orders {
				if after = orders[i].ID; !offered(orders[i].Symbol) {
					continue
				}
				b = appendOrder(jsontext.Next(b), &orders[i])
			}
			if more && !large {
				select {
				case d.large <- struct{}{}:
					large = true
					defer func() { <-d.large }()
				case <-q.ctx.Done():
					return nil, errNow
				}
			}
		}
		return append(b, ']'), nil
	}, problem
}

// span bounds a list by start and end times in nanoseconds and by its length.
type span struct{ start, end, limit int64 }

// readSpan reads startTime, endTime and limit.
func (q *request) readSpan(standard int64) (s span, problem *Error) {
	if s.start, problem = q.time("startTime"); problem != nil {
		return s, problem
	}
	if s.end, problem = q.time("endTime"); problem != nil {
		return s, problem
	}
	s.limit, problem = q.number("limit", standard, 1, listMost, true)
	return s, problem
}

// listMost is the maximum length of a list.
const listMost = 1000

// allOrders answers GET allOrders.
func (d *Door) allOrders(q *request) (work, *Error) {
	sym, problem := q.symbol()
	var s span
	if problem == nil {
		s, problem = q.readSpan(500)
	}
	var from int64
	if problem == nil {
		from, problem = q.number("orderId", 0, 0, wholeMax, true)
	}
	return func() ([]byte, *Error) {
		history, problem := d.stored(q)
		if problem != nil {
			return nil, problem
		}
		orders, err := history.AccountOrders(q.ctx, q.account, sym, exchange.OrderID(from), s.start, s.end, int(s.limit))
		if err != nil {
			return nil, errNow
		}
		return jsontext.List(nil, orders, appendOrder), nil
	}, problem
}
