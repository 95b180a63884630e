package exchange

// AccountEvent is everything that one journal record changed of one account, so that money, orders and fills
// are always seen together. A record that changes nothing visible to the account has no AccountEvent. It is
// immutable, so it may be shared.
type AccountEvent struct {
	N       uint64 // counts the account's events 1, 2, 3, … without gaps, across restarts; its opening is 1
	Seq     uint64 // sequence number of the journal record
	Time    int64  // time of the record, nanoseconds since the Unix epoch
	Account AccountID

	Balance   Cash           // free cash after the record
	Held      Cash           // cash held by open buys after the record
	Positions []PositionView // positions after it in the symbols that it touched; sorted, including empty ones
	Orders    []OrderChange  // orders that the record changed, sorted by id
	Fills     []AccountFill  // fills of this record, sorted by number
	LastFill  uint64         // the number of the account's newest fill after the record
}

// Change returns the event's change of an order, nil if the event does not change it.
func (e *AccountEvent) Change(id OrderID) *OrderChange {
	for i := range e.Orders {
		if e.Orders[i].ID == id {
			return &e.Orders[i]
		}
	}
	return nil
}

// OrderChange is an order after a record that changed it, and what the record changed.
type OrderChange struct {
	OrderDetail
	New      bool   // the record accepted it
	Own      bool   // the record is the order's own: it accepted the order, or executed a further part of it
	Withdrew Shares // shares that the record canceled; of a replaced order, the shares that moved to the new one
	Less     Shares // shares that an amend removed in place
}

// OrderDetail is an order as its owner sees it, as of a record.
type OrderDetail struct {
	ID           OrderID
	Symbol       Symbol
	Ref          Ref // the order's ref as placed; "" if an amend made the order
	NewRef       Ref // ref of the newest amend that resulted in this order; "" if there was no amend, or it had no ref
	Terms            // the Limit of a market order is its protection price
	Unsent       Unsent
	OnDisconnect bool // cod: the order is canceled when its connection ends
	State        OrderStatus
	Why          WhyCanceled // set if State is StatusCanceled

	Open, Executed, Reduced, Canceled Shares
	Notional                          Cash    // exact sum of shares × price of its executions
	Before                            Shares  // shares executed by the orders that it replaced
	Replaces                          OrderID // the order that it replaced, or 0
	By                                OrderID // the order that replaced it, or 0
	Time                              int64   // when the order was accepted, nanoseconds since the Unix epoch
	Changed                           int64   // when it was last accepted, filled, reduced, canceled or replaced
}

// Total returns the total amount of an order, with the shares executed by the orders that it replaced. Of an open order
// it is the total that an amend names.
func (d *OrderDetail) Total() Shares { return d.Before + d.Open + d.Executed + d.Canceled }

// OrderWithFills is an order after a record, with its owner and its newest fills, oldest first: at least ViewPageMax
// of them, or all if it has fewer.
type OrderWithFills struct {
	OrderDetail
	Account AccountID
	Fills   []AccountFill
}

// Moment selects the record as of which the history shows an order. The zero value selects the history's newest
// record.
type Moment struct {
	// Own selects the last of the order's own records, which are those of its acceptance and of its further parts.
	Own bool
	// Seq, if it is not 0 and Own is not set, is the number of the record, which must not be before the order's own
	// records. A fill of the resting order counts if the other order was accepted by then.
	Seq uint64
}

// OrderStatus is the state of an order.
type OrderStatus uint8

// The states.
const (
	StatusOpen OrderStatus = iota
	StatusExecuted
	StatusCanceled // with or without fills
	StatusReplaced
)

// WhyCanceled is the reason why the remainder of an order was canceled.
type WhyCanceled uint8

// The reasons. Their numbers are stored in the database.
const (
	NotCanceled        WhyCanceled = iota
	CanceledRest                   // by the order's own record: IOC, market
	CanceledSTP                    // self-trade prevention
	CanceledDisconnect             // its connection ended
	CanceledTimer                  // the dead man's switch
	CanceledByOperator             // by an operator, or because the account was blocked
	CanceledByOwner                // by its owner: this order, or all orders
)

// Settle sets d.State, and d.Why if some of d was canceled. The order must not be replaced.
func (d *OrderDetail) Settle(why WhyCanceled) {
	switch d.Why = NotCanceled; {
	case d.Open > 0:
		d.State = StatusOpen
	case d.Canceled > 0:
		d.State, d.Why = StatusCanceled, why
	default:
		d.State = StatusExecuted
	}
}
