package exchange

// Unsent is a set of the order Terms that the client did not send. Two requests with the same ref are
// the same if they sent the same.
type Unsent uint8

// Bits of Unsent.
const (
	UnsentLimit Unsent = 1 << iota // market order: the exchange chose the protection price
	UnsentSTP                      // the account's default was used
)

// Sent returns the terms that the client sent; the others are zero.
func (e *Event) Sent() Terms {
	t := e.Terms
	if e.Unsent&UnsentLimit != 0 {
		t.Limit = 0
	}
	if e.Unsent&UnsentSTP != 0 {
		t.STP = TradeWithSelf
	}
	return t
}

// CancelCause is who or what caused an OrdersCanceled event.
type CancelCause uint8

// The causes.
const (
	ByOperator   CancelCause = iota // an operator; also in all records before version 4
	ByClient                        // <cancel-all>
	ByDisconnect                    // the connection of orders with cod ended
	BySwitch                        // the dead man's switch fired and is off now; there may be no cancels
	ByBlock                         // the account was blocked
)

// Amendment is the part of an OrderReduced or an OrderReplaced that describes the amend. A chain is an order
// and the orders that replaced it, one after another.
type Amendment struct {
	First    OrderID // first order of the chain
	Amount   Shares  // new total as the client sent it, 0 if it sent none
	Limit    Price   // new limit as the client sent it, 0 if it sent none
	Executed Shares  // shares executed by the whole chain, before this record
	Open     Shares  // of OrderReduced: open shares of the order after it
	Old      Cancel  // of OrderReplaced: the order that was replaced, and its open shares
}

// AccountRules are the rules that an operator has set for an account. The zero value means that
// nothing is set.
type AccountRules struct {
	Block       *Halt     // since when and why it may not place or amend orders; nil while it may
	STP         SelfTrade // default mode of orders that do not specify one
	SharesMax   Shares    // maximum shares of an order; 0 means no limit, as in the fields below
	NotionalMax Cash      // maximum of an order's amount × limit
	OpenMax     int64     // maximum number of open orders
}

// Fraction is a part of a whole, in units of 10^-8: 10,000,000 is 10 %.
type Fraction uint32

// FractionOne is the whole.
const FractionOne Fraction = 1e8

// ProtectStandard is how far from the best price a market order without a limit may execute, unless an
// operator has set another fraction.
const ProtectStandard Fraction = 1e7

// SymbolRules are the rules for the orders of a symbol. The zero value means that nothing is set: the smallest
// tick and lot, ProtectStandard, no band.
type SymbolRules struct {
	Tick    Price    // limits must be multiples of it; 0 means 10^-8, also for Lot
	Lot     Shares   // amounts must be multiples of it
	Protect Fraction // of the best price, for market orders; 0 means ProtectStandard
	Band    Fraction // orders with a limit further from the last trade's price are rejected; 0 means no band
}

// tick returns the tick in force, and lot the lot: at least the smallest unit.
func (r SymbolRules) tick() Price { return max(r.Tick, 1) }
func (r SymbolRules) lot() Shares { return max(r.Lot, 1) }
