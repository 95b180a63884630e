package exchange

// Unsent says what of an order's Terms did not come from the client. Two requests with a ref are the
// same if what was sent is.
type Unsent uint8

// Bits of Unsent.
const (
	UnsentLimit Unsent = 1 << iota // of a market order: the exchange chose the protection price
	UnsentSTP                      // it is the account's default
)

// Sent returns the terms as the client sent them: what it did not send is zero.
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

// CancelCause says who canceled what an OrdersCanceled event has.
type CancelCause uint8

// The causes.
const (
	ByOperator   CancelCause = iota // also of all records before version 4
	ByClient                        // <cancel-all>
	ByDisconnect                    // the connection of orders with cod ended
	BySwitch                        // the dead man's switch passed: it is off now. There may be no cancels
	ByBlock                         // the account was blocked
)

// Amendment is what an OrderReduced or an OrderReplaced says of the amend. A chain is an order
// with those that replaced it one after another.
type Amendment struct {
	First    OrderID // of the chain
	Amount   Shares  // the new total as the client sent it, 0 where it sent none
	Limit    Price   // the new limit as the client sent it, 0 where it sent none
	Executed Shares  // by the whole chain, before this record
	Open     Shares  // of OrderReduced: what is open of the order after it
	Old      Cancel  // of OrderReplaced: the order that was replaced, and what was open of it
}

// AccountRules are what an operator has set for an account. The zero value is that of an account
// for which nothing is set.
type AccountRules struct {
	Block       *Halt     // since when and why it may place and amend no orders; nil while it may
	STP         SelfTrade // the mode of orders that do not say one
	SharesMax   Shares    // of an order; 0 is no bound, also below
	NotionalMax Cash      // of an order: amount × limit
	OpenMax     int64     // open orders
}

// Fraction is a part of a whole, in units of 10^-8: 10,000,000 is 10 %.
type Fraction uint32

// FractionOne is the whole.
const FractionOne Fraction = 1e8

// ProtectStandard is how far behind the best price a market order without a limit may execute, where
// an operator has set nothing else.
const ProtectStandard Fraction = 1e7

// SymbolRules are what holds for the orders of a symbol. The zero value stands for a symbol of which nothing
// is set: the least tick and lot, ProtectStandard, no band.
type SymbolRules struct {
	Tick    Price    // limits are multiples of it; 0 is 10^-8, also for Lot
	Lot     Shares   // amounts are multiples of it
	Protect Fraction // of the best price; 0 is ProtectStandard
	Band    Fraction // of the last trade's price, above and below which no order is taken; 0 is none
}

// tick and lot return what is in force: at least the smallest unit.
func (r SymbolRules) tick() Price { return max(r.Tick, 1) }
func (r SymbolRules) lot() Shares { return max(r.Lot, 1) }
