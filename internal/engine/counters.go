package engine

import (
	"math"
	"sync/atomic"

	"outcry/internal/exchange"
)

// counters are changed by the shards and read by any goroutine.
type counters struct {
	accounts, symbols        atomic.Int64
	openOrders, closedOrders atomic.Int64
	lastAtStart              uint64 // lastOrder when the engine was made
	refsRepeated, refsAsked  atomic.Int64
}

// activity counts the events at a shard since the start. Only the shard changes it; any goroutine may read it. Each
// shard has its own counters, so that shards do not contend for them.
type activity struct {
	executions, cancels atomic.Int64
	shares, dollars     atomic.Uint64 // traded volume and notional, as bits of a float64

	ioc, fok, post, market, onDisconnect atomic.Int64 // accepted orders with each instruction
	amends                               atomic.Int64 // amends that changed something
}

// instructed counts an order with instructions once for each instruction that it has.
func (a *activity) instructed(t *exchange.Terms, onDisconnect bool) {
	for _, one := range []struct {
		is    bool
		count *atomic.Int64
	}{
		{t.TIF == exchange.IOC, &a.ioc}, {t.TIF == exchange.FOK, &a.fok}, {t.Post, &a.post},
		{t.Type == exchange.Market, &a.market}, {onDisconnect, &a.onDisconnect},
	} {
		if one.is {
			one.count.Add(1)
		}
	}
}

// fill counts fills. The sums are for statistics only, so float64 is exact enough.
func (a *activity) fill(fills []exchange.Fill) {
	if len(fills) == 0 {
		return
	}
	const unit = 1e8 // units of a Price in one dollar, and of Shares in one share
	var shares, dollars float64
	for i := range fills {
		n := float64(fills[i].Shares)
		shares += n
		dollars += n * float64(fills[i].Price)
	}
	a.executions.Add(int64(len(fills)))
	addFloat(&a.shares, shares/unit)
	addFloat(&a.dollars, dollars/unit/unit)
}

// addFloat adds to a float64 that is stored as bits. Only one goroutine may change it.
func addFloat(bits *atomic.Uint64, by float64) {
	bits.Store(math.Float64bits(math.Float64frombits(bits.Load()) + by))
}
