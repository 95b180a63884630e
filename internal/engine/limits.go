package engine

import (
	"cmp"
	"strconv"
	"sync/atomic"

	"outcry/internal/exchange"
)

// Limits are the Options that may be changed while an Engine runs.
// Limits on what clients may make are checked before a command is executed and never
// afterwards: a lower limit rejects new commands and cancels or removes nothing. For these, 0 means the
// default of Options.
type Limits struct {
	ClosedOrdersMax int
	BacklogMax      int

	SymbolsMax           int
	AccountsMax          int
	OpenOrdersMax        int
	AccountOpenOrdersMax int
	OrderValueMin        exchange.Cash // amount × limit of an order
}

// limits holds the Limits in force.
type limits struct {
	closedOrders, backlog                            atomic.Int64
	symbols, accounts, openOrders, accountOpenOrders atomic.Int64
	orderValue                                       atomic.Pointer[exchange.Cash] // nil for 0
}

// SetLimits replaces the limits in force. ClosedOrdersMax and BacklogMax must be above 0. Closed orders
// beyond a lower limit leave memory within seconds.
func (e *Engine) SetLimits(l Limits) {
	e.limits.closedOrders.Store(int64(l.ClosedOrdersMax))
	e.limits.backlog.Store(int64(l.BacklogMax))
	for _, limit := range []struct {
		in              *atomic.Int64
		value, standard int
	}{
		{&e.limits.symbols, l.SymbolsMax, symbolsStandard},
		{&e.limits.accounts, l.AccountsMax, accountsStandard},
		{&e.limits.openOrders, l.OpenOrdersMax, openOrdersStandard},
		{&e.limits.accountOpenOrders, l.AccountOpenOrdersMax, accountOpenOrdersStandard},
	} {
		limit.in.Store(int64(cmp.Or(limit.value, limit.standard)))
	}
	e.limits.orderValue.Store(nil)
	if l.OrderValueMin.Sign() > 0 {
		e.limits.orderValue.Store(&l.OrderValueMin)
	}
}

// Default limits on what clients may make.
const (
	symbolsStandard           = 100_000
	accountsStandard          = 1_000_000
	openOrdersStandard        = 4_000_000
	accountOpenOrdersStandard = 100_000
)

// refuseTooSmall reports whether an order is worth less than the minimum, and then rejects it in r.
func (e *Engine) refuseTooSmall(c *exchange.Command, r *exchange.Result) bool {
	least := e.limits.orderValue.Load()
	if least == nil || exchange.Notional(c.Shares, c.Limit).Cmp(*least) >= 0 {
		return false
	}
	r.Reason, r.More = exchange.OrderTooSmall, &exchange.ResultMore{Least: least}
	return true
}

// refuseTooManyOpen reports whether the account of an order that may rest, or the whole exchange, is at its limit of
// open orders, and then rejects the order in r. Callers hold mu, so that the limits are exact.
func (e *Engine) refuseTooManyOpen(a *exchange.Account, rules *exchange.AccountRules, r *exchange.Result) bool {
	if rules != nil && rules.OpenMax > 0 && int64(a.OpenOrders()) >= rules.OpenMax {
		r.Reason, r.Most = exchange.AccountOrdersExceeded, rules.OpenMax
		r.More = &exchange.ResultMore{Bound: strconv.FormatInt(rules.OpenMax, 10)}
	} else if most := e.limits.accountOpenOrders.Load(); int64(a.OpenOrders()) >= most {
		r.Reason, r.Most = exchange.AccountOrdersExceeded, most
	} else if most := e.limits.openOrders.Load(); int64(e.ledger.OpenOrders()) >= most {
		r.Reason, r.Most = exchange.OpenOrdersExceeded, most
	}
	return r.Reason != exchange.OK
}
