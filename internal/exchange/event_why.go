package exchange

// Why returns the reason that an order canceled for this cause has: of a block it is the operator. A dead man's
// switch whose cancels need several records gives all but the last one as the account's own.
func (c CancelCause) Why() WhyCanceled {
	switch c {
	case ByClient:
		return CanceledByOwner
	case ByDisconnect:
		return CanceledDisconnect
	case BySwitch:
		return CanceledTimer
	case ByOperator, ByBlock:
	}
	return CanceledByOperator
}

// RestWhy returns why the Rest of the order that e is about was canceled, NotCanceled if it has none. It follows
// from the record alone: an IOC or a market order with stp newest that stopped at an order of its own account says
// CanceledRest, as its record does not tell why it stopped.
func (e *Event) RestWhy() WhyCanceled {
	switch {
	case e.Rest == 0:
		return NotCanceled
	case e.TIF == GTC, e.STP == CancelBoth && len(e.Own) > 0:
		return CanceledSTP
	}
	return CanceledRest
}

// Settle sets d's State, of an order that was not replaced, and its Why if something of it was canceled.
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
