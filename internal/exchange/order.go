package exchange

import "fmt"

// Order is a limit order and what has become of it: a copy, true at the moment
// at which a Book returned it.
//
// Invariant: Shares = Open + Canceled + the sum of the executions + what amends took off
// (Lineage.Reduced), and Canceled is not 0 only where Open is 0.
type Order struct {
	ID      OrderID
	Account *Account
	Terms
	OnDisconnect bool       // cod: it is canceled when its connection ends
	AtOnce       bool       // what was taken back was taken back by the order's own record
	Taken        TakenCount // of the executions
	Shares       Shares     // as accepted
	Open         Shares     // still to be executed
	Canceled     Shares     // taken back by a cancel
	CanceledAt   int64      // nanoseconds since the Unix epoch
	Executions   []Execution
	Lineage      *Lineage // nil if no amend has to do with it
}

// NewOrder returns an order that is wholly open and rests nowhere yet.
func NewOrder(id OrderID, a *Account, side Side, shares Shares, limit Price) *Order {
	o := new(Order) // field by field, as in Begin
	o.ID, o.Account, o.Side, o.Limit, o.Shares, o.Open = id, a, side, limit, shares, shares
	return o
}

// Begin makes o the order that c asks for, which has no id yet. The kind of c is PlaceOrder.
func (c *Command) Begin(o *Order, a *Account) {
	*o = Order{} // in place: a literal with values of c would be made elsewhere and copied
	o.Account, o.Terms, o.OnDisconnect, o.Shares, o.Open = a, c.Terms, c.OnDisconnect, c.Shares, c.Shares
}

// newOrder returns the order that e has accepted, as it came.
func (e *Event) newOrder(a *Account) *Order {
	o := new(Order)
	o.ID, o.Account, o.Terms, o.OnDisconnect, o.Shares, o.Open = e.Order, a, e.Terms, e.OnDisconnect, e.Shares, e.Shares
	return o
}

// Status returns what a query of o is told. It stays true when the order changes
// later: executions are only ever added. So a query costs the same for every
// order. Nobody may write to them.
func (o *Order) Status() Status {
	return Status{
		Open:       o.Open,
		Canceled:   o.Canceled,
		CanceledAt: o.CanceledAt,
		Executions: o.Executions[:len(o.Executions):len(o.Executions)], // a caller that appends gets memory of its own
		Changes:    o.Lineage.changes(),
	}
}

// Plain reports whether o has no instructions.
func (o *Order) Plain() bool { return o.Terms.plain() && !o.OnDisconnect }

// fresh reports whether o is one that a book may take: well formed, and wholly open.
func (o *Order) fresh() bool {
	return o.Shares > 0 && o.Open == o.Shares && mayOrder(int64(o.Limit)) && o.Executions == nil
}

// crosses reports whether o may execute at the price of a resting order.
func (o *Order) crosses(price Price) bool {
	if o.Side == Buy {
		return o.Limit >= price
	}
	return o.Limit <= price
}

// Fill is one match: a taker, which is an incoming order, took Shares from a resting
// order at the resting order's limit. The taker is the one whose event or submission
// the fill belongs to.
type Fill struct {
	Resting OrderID
	Account AccountID // owner of the resting order
	Shares  Shares
	Price   Price
	Closed  bool // nothing of the resting order is open any more; only as Book.Submit returns it

	owner *Account // of the resting order; set by Book.Submit for Ledger.Settle
}

// String returns f as errors print it: what was filled, and with which order.
func (f Fill) String() string {
	return fmt.Sprintf("%s at %s with order %d of account %s", f.Shares, f.Price, f.Resting, f.Account)
}

// same reports whether two fills say the same, whether or not they were decoded.
func (f Fill) same(g Fill) bool {
	return f.Resting == g.Resting && f.Account == g.Account && f.Shares == g.Shares && f.Price == g.Price
}
