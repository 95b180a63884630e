package exchange

import "fmt"

// Order is an order and its state: a copy, taken when a Book returned it.
//
// Invariant: Shares = Open + Canceled + the sum of the executions + the shares that amends removed
// (Lineage.Reduced); Canceled is 0 unless Open is 0.
type Order struct {
	ID      OrderID
	Account *Account
	Terms
	OnDisconnect bool       // cod: cancel the order when its connection ends
	AtOnce       bool       // the canceled shares were canceled by the order's own record
	Taken        TakenCount // how many of the executions the order had as the taker
	Shares       Shares     // shares as accepted
	Open         Shares     // shares still to be executed
	Canceled     Shares     // shares that were canceled
	CanceledAt   int64      // nanoseconds since the Unix epoch
	Executions   []Execution
	Lineage      *Lineage // nil if the order was never amended and replaces none
}

// NewOrder returns an order that is completely open and not in a book yet.
func NewOrder(id OrderID, a *Account, side Side, shares Shares, limit Price) *Order {
	o := new(Order) // field by field, as in Begin
	o.ID, o.Account, o.Side, o.Limit, o.Shares, o.Open = id, a, side, limit, shares, shares
	return o
}

// Begin sets o to the order that c describes, without an id. The kind of c must be PlaceOrder.
func (c *Command) Begin(o *Order, a *Account) {
	*o = Order{} // field by field: a literal with values of c would be built elsewhere and copied
	o.Account, o.Terms, o.OnDisconnect, o.Shares, o.Open = a, c.Terms, c.OnDisconnect, c.Shares, c.Shares
}

// newOrder returns the order that e accepted, before its fills.
func (e *Event) newOrder(a *Account) *Order {
	o := new(Order)
	o.ID, o.Account, o.Terms, o.OnDisconnect, o.Shares, o.Open = e.Order, a, e.Terms, e.OnDisconnect, e.Shares, e.Shares
	return o
}

// Status returns the state of o for a query. It stays valid when the order changes
// later, because executions are only ever appended: a query costs the same for every
// order. The executions must not be written to.
func (o *Order) Status() Status {
	return Status{
		Open:       o.Open,
		Canceled:   o.Canceled,
		CanceledAt: o.CanceledAt,
		Executions: o.Executions[:len(o.Executions):len(o.Executions)], // a caller that appends gets new memory
		Changes:    o.Lineage.changes(),
	}
}

// Plain reports whether o has no instructions.
func (o *Order) Plain() bool { return o.Terms.plain() && !o.OnDisconnect }

// fresh reports whether a book may accept o: it is well formed and completely open.
func (o *Order) fresh() bool {
	return o.Shares > 0 && o.Open == o.Shares && validOrderUnits(int64(o.Limit)) && o.Executions == nil
}

// crosses reports whether o may execute at the price of a resting order.
func (o *Order) crosses(price Price) bool {
	if o.Side == Buy {
		return o.Limit >= price
	}
	return o.Limit <= price
}

// Fill is one match: an incoming order, the taker, executed Shares against a resting
// order, at the resting order's limit. The taker is the order that was submitted, or
// whose event contains the fill.
type Fill struct {
	Resting OrderID
	Account AccountID // owner of the resting order
	Shares  Shares
	Price   Price
	Closed  bool // the fill closed the resting order; set by Book.Submit only

	owner *Account // owner of the resting order; set by Book.Submit for Ledger.Settle
}

// String returns f for error messages: what was filled, and with which order.
func (f Fill) String() string {
	return fmt.Sprintf("%s at %s with order %d of account %s", f.Shares, f.Price, f.Resting, f.Account)
}

// same reports whether two fills are equal, ignoring the fields that are not encoded.
func (f Fill) same(g Fill) bool {
	return f.Resting == g.Resting && f.Account == g.Account && f.Shares == g.Shares && f.Price == g.Price
}
