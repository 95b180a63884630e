package engine

import "sync/atomic"

// Limits are those Options that may be changed while an Engine runs.
type Limits struct {
	ClosedOrdersMax int
	BacklogMax      int
}

// limits are Limits in force.
type limits struct{ closedOrders, backlog atomic.Int64 }

// SetLimits puts other limits in force, each of which must be above 0. Closed orders
// beyond a lower limit leave memory within seconds.
func (e *Engine) SetLimits(l Limits) {
	e.limits.closedOrders.Store(int64(l.ClosedOrdersMax))
	e.limits.backlog.Store(int64(l.BacklogMax))
}
