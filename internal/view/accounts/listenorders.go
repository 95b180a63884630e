package accounts

import (
	"runtime"
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
	for more := true; more; {
		if more, err = v.gather(sym); err != nil {
			return nil, err
		}
	}
	defer v.feeding.Unlock()
	n := v.symbols[sym]
	b := v.markets[n].resting
	r := &reader[*OrdersChange]{tell: l.Orders, flush: l.Flush, end: l.End}
	b.readers = append(b.readers, r)
	v.listening.Add(1)
	v.records.Hurry()
	begun := false
	defer func() {
		if !begun { // there is an error or a panic
			v.leaveOrders(b, r)
		}
	}()
	snap, err := v.copyOrders(n, r)
	if err != nil {
		return nil, err
	}
	begin(snap)
	passWaiting(v, r)
	begun = true
	return sync.OnceFunc(func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		v.leaveOrders(b, r)
	}), nil
}

// leaveOrders removes a reader. Its caller holds feeding.
func (v *View) leaveOrders(b *resting, r *reader[*OrdersChange]) {
	b.remove(r)
	b.until = time.Now().Add(watchedFor)
	v.listening.Add(-1)
}

// gather makes sure that the resting orders of a symbol are known. Without a recent listener it gathers a part of them
// from the symbol's open orders, and more reports whether there are further ones. Otherwise it returns with feeding
// locked. Records are applied between two calls, and no order changes while gather works without mu.
func (v *View) gather(sym exchange.Symbol) (more bool, err error) {
	v.feeding.Lock()
	defer func() {
		if more || err != nil {
			v.feeding.Unlock()
			runtime.Gosched()
		}
	}()
	if err := v.lost(); err != nil {
		return false, err
	}
	n, made := v.symbols[sym]
	if !made {
		return false, ErrUnknownSymbol
	}
	market := &v.markets[n]
	if market.resting == nil {
		v.mu.Lock()
		market.resting = newResting(&market.open)
		v.mu.Unlock()
	}
	market.resting.gather(&v.open, partMax)
	return market.resting.next != 0, nil
}
