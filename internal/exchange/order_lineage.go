package exchange

import "math"

// Lineage is what amends did to an order, and what it comes from. A chain is an order with those that
// replaced it one after another. It does not change once it is made, so that it may be shared.
type Lineage struct {
	Changes
	First    OrderID // of the chain; the order itself if it replaces none
	Replaces OrderID // the order that it replaces, 0 if it replaces none
	Executed Shares  // by all orders of the chain before this one
}

// changes returns what a Status has of l, nil if amends did nothing to the order.
func (l *Lineage) changes() *Changes {
	if l == nil || l.Changes == (Changes{}) {
		return nil
	}
	return &l.Changes
}

// TakenCount is how many of an order's executions, counted from the oldest, it took when it came, before it rested:
// that number + 1, or 0 if it is not known.
type TakenCount uint16

// Took returns the TakenCount of n executions. It is 0 if there are more than it has room for.
func Took(n int) TakenCount {
	if n >= math.MaxUint16 {
		return 0
	}
	return TakenCount(n + 1)
}

// Count returns the number, and whether it is known.
func (t TakenCount) Count() (n int, known bool) { return int(t) - 1, t != 0 }

// AtFirst returns the status of o right after its own records, whatever became of it later: this is what
// report="full" is answered with. known is false if memory does not know which executions o took.
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

// First returns the order that o's chain begins with: o itself if it replaces none.
func (o *Order) First() OrderID {
	if o.Lineage == nil {
		return o.ID
	}
	return o.Lineage.First
}

// Executed returns how much of o is executed.
func (o *Order) Executed() Shares {
	executed := o.Shares - o.Open - o.Canceled
	if o.Lineage != nil {
		executed -= o.Lineage.Reduced
	}
	return executed
}

// ChainExecuted returns how much is executed of o and of those that it comes from. With what is open it is the
// total that an amend names.
func (o *Order) ChainExecuted() Shares {
	if o.Lineage == nil {
		return o.Executed()
	}
	return o.Lineage.Executed + o.Executed()
}

// Replacement returns the order, which has no id yet, that an open order o is replaced by when it is amended to a
// total of shares, which is above ChainExecuted, and to a limit. Ledger.ReserveInstead and Book.Replace take it.
func (o *Order) Replacement(total Shares, limit Price) Order {
	executed := o.ChainExecuted()
	n := Order{Account: o.Account, Terms: o.Terms, OnDisconnect: o.OnDisconnect, Shares: total - executed,
		Open: total - executed, Lineage: &Lineage{First: o.First(), Replaces: o.ID, Executed: executed}}
	n.Limit = limit
	return n
}

// Amendment returns what the record of an amend of o says of it: o is as it was before, amount and limit are as
// the client sent them, 0 where it sent none. reduced is what the amend takes off in place; an OrderReplaced has
// no use for it.
func (o *Order) Amendment(kind EventKind, amount Shares, limit Price, reduced Shares) *Amendment {
	a := &Amendment{First: o.First(), Amount: amount, Limit: limit, Executed: o.ChainExecuted()}
	if kind == OrderReduced {
		a.Open = o.Open - reduced
	} else {
		a.Old = Cancel{Order: o.ID, Terms: o.Terms, Shares: o.Open}
	}
	return a
}

// moreBytesMax returns the most that o's event takes beyond EventBytesMax and its fills.
func (o *Order) moreBytesMax() int {
	if o.Terms.plain() && o.Lineage == nil {
		return 0
	}
	return instructionBytesMax
}

// Quote is what an order would come to at once.
type Quote struct {
	Shares Shares // that would be executed
	Cost   Cash   // of them, at the prices of the resting orders
	Orders int    // resting orders that would be filled, or looked at as they are its own
	Best   Price  // of the other side, of any account; 0 if nothing rests there
	Cut    bool   // there may be more (QuoteWithin)
}

// NoteMore gives e, which Note has made, what o has beyond: whether it is canceled when its connection ends, what of it
// was taken back at once, and the orders that Book.Own has, which e keeps.
func (e *Event) NoteMore(o *Order, own []Cancel) {
	e.OnDisconnect = o.OnDisconnect && e.Kind != OrderContinued && e.Kind != OrderCanceled && e.Kind != OrderReduced
	if e.Own = own; o.AtOnce && e.Kind != OrderCanceled && e.Kind != OrderReduced {
		e.Rest = o.Canceled
	}
}
