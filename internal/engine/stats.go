package engine

import (
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
)

// counters are changed by the desks and read by whoever asks.
type counters struct {
	accounts, symbols        atomic.Int64
	openOrders, closedOrders atomic.Int64
	executions               atomic.Int64
}

// Stats are figures of a running exchange. Each is exact at some moment of the
// call; together they need not be of one moment.
type Stats struct {
	Accounts     int64
	Symbols      int64
	OpenOrders   int64
	ClosedOrders int64  // in memory
	Executions   int64  // fills since the start
	Inbox        int64  // tasks that wait at all desks together
	LastOrder    uint64 // the highest order id given out
	Appended     uint64 // seq of the journal's last record
	Lag          uint64 // records that Postgres is behind
}

// Stats returns the figures. It looks at every symbol's inbox.
func (e *Engine) Stats() Stats {
	s := Stats{
		Accounts:     e.counters.accounts.Load(),
		Symbols:      e.counters.symbols.Load(),
		OpenOrders:   e.counters.openOrders.Load(),
		ClosedOrders: e.counters.closedOrders.Load(),
		Executions:   e.counters.executions.Load(),
		Inbox:        int64(len(e.registrar.inbox)),
		LastOrder:    e.lastOrder.Load(),
		Lag:          e.lag(),
		Appended:     e.journal.Appended(),
	}
	e.desks.Range(func(_, d any) bool {
		s.Inbox += int64(len(d.(*desk).inbox))
		return true
	})
	return s
}

// CheckLedger proves that cash and shares are conserved at this moment. It walks
// the whole ledger under its lock: nothing trades meanwhile. The error names the
// first thing that does not add up.
func (e *Engine) CheckLedger() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Check()
}

// reconcilePause is how long the ledger is free between two pieces of Reconcile.
const reconcilePause = 20 * time.Microsecond

// Reconcile counts all cash and all shares anew and returns what is too much or
// too little: always nothing, unless there is a bug. It works in pieces between
// which trading goes on; each holds the ledger's lock for microseconds. Only one
// call may be under way at a time.
func (e *Engine) Reconcile() exchange.Imbalance {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Reconcile(func() {
		e.mu.Unlock()
		time.Sleep(reconcilePause)
		e.mu.Lock()
	})
}
