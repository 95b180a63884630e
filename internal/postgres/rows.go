package postgres

import "outcry/internal/exchange"

// columns says in which columns the functions below write the rows of a table.
var columns = map[string]string{
	"accounts":       "(id, opened, balance, held, seq)",
	"placement_log":  "(seq, sym, account, shares)",
	"order_log":      "(id, account, sym, amount, limit_price, time, seq)",
	"execution_log":  "(order_id, resting_id, n, sym, buys, shares, price, time)",
	"part_log":       "(seq, order_id, first_n, last_n, open, time)",
	"cancel_log":     "(order_id, shares, time, seq, n)",
	"halt_log":       "(seq, sym, halted, reason, time)",
	"refs":           "(account, ref, seq, order_id)",
	"resting_orders": "(id, account, sym, amount, limit_price, open)",
}

func (c *copyRows) account(id exchange.AccountID, opened openedRow, now *cashChange) {
	b := appendText(c.row(5), id)
	b = appendCash(b, opened.balance)
	b = appendCash(b, now.balance)
	b = appendCash(b, now.held)
	c.b = appendBigint(b, opened.seq)
}

func (c *copyRows) placement(e *exchange.Event, seq uint64) {
	b := appendBigint(c.row(4), seq)
	b = appendText(b, e.Symbol)
	b = appendText(b, e.Account)
	c.b = appendPosition(b, e.Deposited)
}

func (c *copyRows) order(o *orderState, time int64, seq uint64) {
	b := appendBigint(c.row(7), o.id)
	b = appendText(b, o.account)
	b = appendText(b, o.symbol)
	b = appendBigint(b, o.amount)
	b = appendBigint(b, o.limit)
	b = appendBigint(b, exchange.Seconds(time))
	c.b = appendBigint(b, seq)
}

// part appends a further part of an order.
func (c *copyRows) part(e *exchange.Event, seq uint64) {
	b := appendBigint(c.row(6), seq)
	b = appendBigint(b, e.Order)
	b = appendInt(b, int32(e.Before+1))
	b = appendInt(b, int32(e.Before+len(e.Fills)))
	b = appendBigint(b, e.Shares)
	c.b = appendBigint(b, exchange.Seconds(e.Time))
}

// execution appends the event's i-th fill.
func (c *copyRows) execution(e *exchange.Event, i int) {
	f := &e.Fills[i]
	b := appendBigint(c.row(8), e.Order)
	b = appendBigint(b, f.Resting)
	b = appendInt(b, int32(e.Before+i+1))
	b = appendText(b, e.Symbol)
	b = appendBool(b, e.Side == exchange.Buy)
	b = appendBigint(b, f.Shares)
	b = appendBigint(b, f.Price)
	c.b = appendBigint(b, exchange.Seconds(e.Time))
}

// cancel appends a cancel, the n-th of its record, or with n 0 the only one.
func (c *copyRows) cancel(e *exchange.Event, seq uint64, n int32) {
	b := appendBigint(c.row(5), e.Order)
	b = appendBigint(b, e.Shares)
	b = appendBigint(b, exchange.Seconds(e.Time))
	b = appendBigint(b, seq)
	if n == 0 {
		c.b = appendNull(b)
	} else {
		c.b = appendInt(b, n)
	}
}

func (c *copyRows) halt(e *exchange.Event, seq uint64) {
	b := appendBigint(c.row(5), seq)
	b = appendText(b, e.Symbol)
	b = appendBool(b, e.Kind == exchange.SymbolHalted)
	b = appendText(b, e.Reason)
	c.b = appendBigint(b, exchange.Seconds(e.Time))
}

// ref appends the ref of an event that has one.
func (c *copyRows) ref(e *exchange.Event, seq uint64) {
	b := appendText(c.row(4), e.Account)
	b = appendText(b, e.Ref)
	b = appendBigint(b, seq)
	if e.Kind == exchange.OrderAccepted {
		c.b = appendBigint(b, e.Order)
	} else {
		c.b = appendNull(b)
	}
}

func (c *copyRows) resting(o *orderState) {
	b := appendBigint(c.row(6), o.id)
	b = appendText(b, o.account)
	b = appendText(b, o.symbol)
	b = appendBigint(b, o.amount)
	b = appendBigint(b, o.limit)
	c.b = appendBigint(b, o.open)
}
