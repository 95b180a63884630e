package exchange

// Why returns the reason of orders canceled for this cause; for a block it is the operator. If the cancels of a dead
// man's switch need several records, all but the last one are recorded as canceled by the owner.
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

// RestWhy returns why the Rest of e's order was canceled, or NotCanceled if it has none. It uses the record alone:
// for an IOC or market order with stp newest that stopped at an order of its own account, it returns CanceledRest,
// because the record does not say why the order stopped.
func (e *Event) RestWhy() WhyCanceled {
	switch {
	case e.Rest == 0:
		return NotCanceled
	case e.TIF == GTC, e.STP == CancelBoth && len(e.Own) > 0:
		return CanceledSTP
	}
	return CanceledRest
}

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
