package accounts

import (
	"sync"
	"time"

	"outcry/internal/exchange"
)

// OrdersListener is told what happens to the orders that rest at a symbol. Its methods are called as those of a
// Listener.
type OrdersListener interface {
	// Orders is told what the next record changed. All listeners get the same pointer, and may keep it: it does not
	// change.
	Orders(c *OrdersChange)
	// Flush and End are those of a Listener.
	Flush()
	End(err error)
}

// OrdersChange is what a record did to the orders that rest at a symbol.
type OrdersChange struct {
	Symbol    exchange.Symbol
	Prev, Seq uint64    // the newest record before this one that changed them, and this one
	Time      int64     // nanoseconds since the Unix epoch
	Ops       []OrderOp // to be applied in order: replace, then fills and deletes, then add
}

// OrderOp is one change of an order that rests, without its owner.
type OrderOp struct {
	Kind   OrderOpKind
	Order  exchange.OrderID
	By     exchange.OrderID // of OpReplace: the order that replaces it, which an OpAdd adds if it rests
	Trade  uint64           // of OpFill: the trade's number of the symbol
	Shares exchange.Shares  // of OpFill, OpReduce and OpAdd
	Open   exchange.Shares  // after an OpFill or an OpReduce; 0: it is gone
	Side   exchange.Side    // of OpAdd
	Price  exchange.Price   // of OpAdd
}

// OrderOpKind says what an OrderOp does.
type OrderOpKind uint8

// The kinds.
const (
	OpReplace OrderOpKind = iota + 1 // it leaves the book
	OpFill                           // Shares of it were executed
	OpDelete                         // it was canceled
	OpReduce                         // Shares were taken off, and it keeps its place
	OpAdd                            // it is the last one at its price now
)

// String returns the name that messages use.
func (k OrderOpKind) String() string {
	return [...]string{"", "replace", "fill", "delete", "reduce", "add"}[k]
}

// OrdersSnapshot are the orders that rest at a symbol. Its memory is the reader's.
type OrdersSnapshot struct {
	Seq        uint64 // the newest record that changed them: the next change has it as Prev
	Bids, Asks []RestingOrder
}

// RestingOrder is an order in an OrdersSnapshot, where orders are in their priority: best price first, at a price by
// id.
type RestingOrder struct {
	ID     exchange.OrderID
	Price  exchange.Price
	Shares exchange.Shares
}

// ListenOrders has l told what happens to the orders that rest at a symbol, until leave is called, as Subscribe
// does. begin is called first, with the orders as they stand. The error is ErrUnknownSymbol or wraps ErrUnavailable.
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
	v.pace.Hurry()
	return sync.OnceFunc(func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		b.remove(r)
		b.until = time.Now().Add(watchedFor)
		v.listening.Add(-1)
	}), nil
}

// gather returns the orders that rest at a symbol, which it looks up among its open ones if nobody has listened lately;
// nil if there is no such symbol. Its caller holds feeding, so that none comes or goes: mu is not held meanwhile.
func (v *View) gather(sym exchange.Symbol) (symbolNumber, *resting) {
	n, made := v.symbols[sym]
	if !made {
		return 0, nil
	}
	market := &v.markets[n]
	if market.resting == nil {
		gathered := newResting(v.openOf(n))
		v.mu.Lock()
		market.resting = gathered
		v.mu.Unlock()
	}
	return n, market.resting
}
