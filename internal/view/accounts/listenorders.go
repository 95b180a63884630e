package accounts

import (
	"sync"
	"time"

	"outcry/internal/exchange"
)

// OrdersListener receives the changes of the orders that rest at a symbol. Its methods are called under the rules for
// a Listener's.
type OrdersListener interface {
	// Orders passes what the next record changed. All listeners get the same pointer and may keep it: the change is
	// not modified.
	Orders(c *OrdersChange)
	// Flush and End are called as a Listener's Flush and End are.
	Flush()
	End(err error)
}

// OrdersSnapshot is the orders that rest at a symbol. The caller owns its memory.
type OrdersSnapshot struct {
	Seq        uint64 // newest record that changed the orders, which is Prev of the next change
	Bids, Asks []RestingOrder
}

// ListenOrders passes the changes of the orders that rest at a symbol to l until leave is called, under the rules of
// Subscribe. begin is called first, with the current orders. The error is ErrUnknownSymbol or wraps ErrUnavailable.
func (v *View) ListenOrders(sym exchange.Symbol, l OrdersListener, begin func(*OrdersSnapshot)) (
	leave func(), err error,
) {
	v.feeding.Lock()
	defer v.feeding.Unlock()
	if err := v.lost(); err != nil {
		return nil, err
	}
	n, b := v.gather(sym)
	if b == nil {
		return nil, ErrUnknownSymbol
	}
	begin(&OrdersSnapshot{Seq: v.markets[n].changed, Bids: b.bids.snapshot(), Asks: b.asks.snapshot()})
	r := &reader[*OrdersChange]{l.Orders, l.Flush, l.End}
	b.readers = append(b.readers, r)
	v.listening.Add(1)
	v.records.Hurry()
	return sync.OnceFunc(func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		b.remove(r)
		b.until = time.Now().Add(watchedFor)
		v.listening.Add(-1)
	}), nil
}

// gather returns the resting orders of a symbol, nil if the symbol is unknown. Without a recent listener it collects
// them from the symbol's open orders. Its caller holds feeding, so no order changes while gather works without mu.
func (v *View) gather(sym exchange.Symbol) (symbolNumber, *resting) {
	n, made := v.symbols[sym]
	if !made {
		return 0, nil
	}
	market := &v.markets[n]
	if market.resting == nil {
		gathered := newResting(&v.open, &market.open)
		v.mu.Lock()
		market.resting = gathered
		v.mu.Unlock()
	}
	return n, market.resting
}
