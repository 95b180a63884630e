package engine

import (
	"cmp"
	"sync"
	"sync/atomic"

	"outcry/internal/exchange"
)

// Limits are the Options that may be changed while an Engine runs. Limits on accounts, symbols and open orders are
// checked before a command is executed and never afterwards: a lower limit rejects new commands, but cancels or
// removes nothing. For these, 0 means the default of Options.
type Limits struct {
	ClosedOrdersMax int
	BacklogMax      int

	SymbolsMax           int
	AccountsMax          int
	OpenOrdersMax        int
	AccountOpenOrdersMax int
	OrderValueMin        exchange.Cash // amount × limit of an order
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

// Default limits on accounts, symbols and open orders.
const (
	symbolsStandard           = 100_000
	accountsStandard          = 1_000_000
	openOrdersStandard        = 4_000_000
	accountOpenOrdersStandard = 100_000
)

// limits holds the Limits in force.
type limits struct {
	closedOrders, backlog                            atomic.Int64
	symbols, accounts, openOrders, accountOpenOrders atomic.Int64
	orderValue                                       atomic.Pointer[exchange.Cash] // nil for 0
}

// cancelAllsMax is how many times an account may cancel all within a second: each cancel-all holds all shards in
// which the account has open orders.
const cancelAllsMax = 10

// cancelAllRates limits how often an account may cancel all. It remembers the recent times of each account. An
// account is never refused because of other accounts.
//
// It has two generations, so that old entries are dropped without a search: newer replaces older when it is a second
// old. So only accounts that were active in the last two generations take memory.
type cancelAllRates struct {
	mu           sync.Mutex
	newer, older map[*exchange.Account]*cancelAllTimes
	begun        int64 // when newer was created
}

// cancelAllTimes is a ring with the times of an account's last cancelAllsMax cancel-alls.
type cancelAllTimes struct {
	at   [cancelAllsMax]int64
	next int // index of the oldest
}

// allow counts a cancel-all at the time now. It returns false, and does not count it, if the account is above its
// limit.
func (c *cancelAllRates) allow(a *exchange.Account, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.timesOf(a, now)
	if now-t.at[t.next] < exchange.Second {
		return false
	}
	t.at[t.next] = now
	t.next = (t.next + 1) % cancelAllsMax
	return true
}

// timesOf returns the times of an account, after moving them to the newer generation. Callers hold mu.
func (c *cancelAllRates) timesOf(a *exchange.Account, now int64) *cancelAllTimes {
	if c.newer == nil || now-c.begun >= exchange.Second {
		c.newer, c.older, c.begun = make(map[*exchange.Account]*cancelAllTimes), c.newer, now
	}
	t := c.newer[a]
	if t == nil {
		if t = c.older[a]; t == nil {
			t = &cancelAllTimes{}
			for i := range t.at {
				t.at[i] = now - exchange.Second
			}
		}
		c.newer[a] = t
	}
	return t
}
