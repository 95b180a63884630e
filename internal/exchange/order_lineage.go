package exchange

import (
	"math"
)

// Lineage describes what amends changed in an order, and which orders it replaces. A chain is an order and the orders
// that replaced it, one after another. A Lineage is immutable, so it may be shared.
type Lineage struct {
	Changes
	First    OrderID // first order of the chain; the order itself if it replaces none
	Replaces OrderID // the order that it replaces, or 0
	Executed Shares  // shares executed by all earlier orders of the chain
}

// changes returns the Changes for a Status, or nil if no amend changed the order.
func (l *Lineage) changes() *Changes {
	if l == nil || l.Changes == (Changes{}) {
		return nil
	}
	return &l.Changes
}

// TakenCount is how many executions an order had as the taker, before it rested; these are its oldest executions.
// The value is that number + 1, or 0 if it is unknown.
type TakenCount uint16

// Took returns the TakenCount of n executions, or 0 (unknown) if n does not fit.
func Took(n int) TakenCount {
	if n >= math.MaxUint16 {
		return 0
	}
	return TakenCount(n + 1)
}

// Count returns the number of executions, and whether it is known.
func (t TakenCount) Count() (n int, known bool) { return int(t) - 1, t != 0 }

// AtFirst returns the status of o right after its own records, whatever happened later: the reply to
// report="full". known is false if it is unknown which executions o had as the taker.
func (o *Order) AtFirst() (s Status, known bool) {
	n, known := o.Taken.Count()
	if !known || n > len(o.Executions) {
		return Status{}, false
	}
	s = Status{Open: o.Shares, Executions: o.Executions[:n:n]}
	for i := range s.Executions {
		s.Open -= s.Executions[i].Shares
	}
	if o.AtOnce {
		s.Open, s.Canceled, s.CanceledAt = 0, o.Canceled, o.CanceledAt
	}
	return s, true
}

// First returns the first order of o's chain: o itself if it replaces none.
func (o *Order) First() OrderID {
	if o.Lineage == nil {
		return o.ID
	}
	return o.Lineage.First
}

// Executed returns the executed shares of o.
func (o *Order) Executed() Shares {
	executed := o.Shares - o.Open - o.Canceled
	if o.Lineage != nil {
		executed -= o.Lineage.Reduced
	}
	return executed
}

// ChainExecuted returns the executed shares of o and of all orders that it replaced, directly or not. Together
// with the open shares they are the total that an amend names.
func (o *Order) ChainExecuted() Shares {
	if o.Lineage == nil {
		return o.Executed()
	}
	return o.Lineage.Executed + o.Executed()
}

// Replacement returns the order that replaces the open order o when o is amended to total and limit. total must be
// above ChainExecuted. The caller sets its id; Ledger.ReserveInstead and Book.Replace then accept it.
func (o *Order) Replacement(total Shares, limit Price) Order {
	executed := o.ChainExecuted()
	n := Order{Account: o.Account, Terms: o.Terms, OnDisconnect: o.OnDisconnect, Shares: total - executed,
		Open: total - executed, Lineage: &Lineage{First: o.First(), Replaces: o.ID, Executed: executed}}
	n.Limit = limit
	return n
}

// Amendment returns the Amendment of the record that amends o. o is the order before the amend; amount and limit are
// as the client sent them, 0 if it sent none. reduced is the number of shares by which an OrderReduced reduces the
// order in place; it is ignored for an OrderReplaced.
func (o *Order) Amendment(kind EventKind, amount Shares, limit Price, reduced Shares) *Amendment {
	a := &Amendment{First: o.First(), Amount: amount, Limit: limit, Executed: o.ChainExecuted()}
	if kind == OrderReduced {
		a.Open = o.Open - reduced
	} else {
		a.Old = Cancel{Order: o.ID, Terms: o.Terms, Shares: o.Open}
	}
	return a
}

// moreBytesMax returns the maximum size of o's event beyond EventBytesMax and its fills.
func (o *Order) moreBytesMax() int {
	if o.Terms.plain() && o.Lineage == nil {
		return 0
	}
	return instructionBytesMax
}

// Quote is what an order would execute at once.
type Quote struct {
	Shares Shares // shares that would be executed
	Cost   Cash   // their cost, at the prices of the resting orders
	Orders int    // resting orders that would be filled, or that belong to the same account
	Best   Price  // best price of the other side, of any account; 0 if no order rests there
	Cut    bool   // the calculation stopped early: the order may execute more (QuoteWithin)
}
