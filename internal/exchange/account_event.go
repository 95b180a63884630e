package exchange

// AccountEvent is what one journal record did to one account: everything that the record changed of it, so that
// money, orders and fills are never seen apart. A record that changes nothing that the account sees makes
// none. It does not change once it is made, and may be shared.
type AccountEvent struct {
	N       uint64 // counts the account's events 1, 2, 3 without a gap, over restarts too; its opening is 1
	Seq     uint64 // the journal record
	Time    int64  // of the record, nanoseconds since the Unix epoch
	Account AccountID

	Balance   Cash           // free, after the record
	Held      Cash           // by open buys, after the record
	Positions []PositionView // of the symbols that the record touched, after it, sorted; zeros included
	Orders    []OrderChange  // those that the record changed, by id
	Fills     []AccountFill  // of this record, by number
	LastFill  uint64         // the number of the account's newest fill after the record
}

// OrderChange is an order after a record that changed it, and what of that the record did.
type OrderChange struct {
	OrderDetail
	New      bool   // the record accepted it
	Withdrew Shares // the record canceled so much of it; of an order that was replaced, what moved on
	Less     Shares // the record took so much off in place, by an amend
}

// OrderDetail is an order as its owner sees it, after a record.
// Before + Open + Executed + Canceled is the amount that an amend names.
type OrderDetail struct {
	ID           OrderID
	Symbol       Symbol
	Ref          Ref // as placed; "" of an order that was made by an amend
	NewRef       Ref // of the newest amend that left this order; "" if there was none, or it had none
	Terms            // Limit of a market order is its protection price
	Unsent       Unsent
	OnDisconnect bool // cod
	State        OrderStatus
	Why          WhyCanceled // where State is StatusCanceled

	Open, Executed, Reduced, Canceled Shares
	Notional                          Cash    // exact sum of shares × price of its executions
	Before                            Shares  // executed by the orders that it replaced
	Replaces                          OrderID // the order that it replaced; 0 if none
	By                                OrderID // the order that replaced it; 0 if none
	Time                              int64   // when it was accepted, nanoseconds since the Unix epoch
	Changed                           int64   // its newest change: accepted, fill, reduce, cancel, replace
}

// OrderStatus is what an order has come to.
type OrderStatus uint8

// The states.
const (
	StatusOpen OrderStatus = iota
	StatusExecuted
	StatusCanceled // with fills or without
	StatusReplaced
)

// WhyCanceled says why what was left of an order was canceled.
type WhyCanceled uint8

// The reasons. Numbers are those of the database's column.
const (
	NotCanceled        WhyCanceled = iota
	CanceledRest                   // in its own record: IOC, market
	CanceledSTP                    // self-trade prevention
	CanceledDisconnect             // its connection ended
	CanceledTimer                  // the dead man's switch
	CanceledByOperator             // an operator, or since the account was blocked
	CanceledByOwner                // by its owner: one order, or all
)
