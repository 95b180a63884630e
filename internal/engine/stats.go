package engine

import (
	"math"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
)

// counters are changed by the shards and read by any goroutine.
type counters struct {
	accounts, symbols        atomic.Int64
	openOrders, closedOrders atomic.Int64
	lastAtStart              uint64 // lastOrder, when the engine was made
	refsRepeated, refsAsked  atomic.Int64
}

// activity is what has happened at a shard since the start. The shard changes it, and
// nobody else; anybody may read. So no shard waits for another's.
type activity struct {
	executions, cancels atomic.Int64
	shares, dollars     atomic.Uint64 // bits of float64

	ioc, fok, post, market, onDisconnect atomic.Int64 // orders that were accepted
	amends                               atomic.Int64 // that changed something
}

// instructed counts an order, which has some, by its instructions.
func (a *activity) instructed(t *exchange.Terms, onDisconnect bool) {
	for _, one := range []struct {
		is    bool
		count *atomic.Int64
	}{
		{t.TIF == exchange.IOC, &a.ioc}, {t.TIF == exchange.FOK, &a.fok}, {t.Post, &a.post},
		{t.Type == exchange.Market, &a.market}, {onDisconnect, &a.onDisconnect},
	} {
		if one.is {
			one.count.Add(1)
		}
	}
}

// fill counts fills. They are not for the books: a float64 is near enough.
func (a *activity) fill(fills []exchange.Fill) {
	if len(fills) == 0 {
		return
	}
	const unit = 1e8 // of prices and shares
	var shares, dollars float64
	for i := range fills {
		n := float64(fills[i].Shares)
		shares += n
		dollars += n * float64(fills[i].Price)
	}
	a.executions.Add(int64(len(fills)))
	grow(&a.shares, shares/unit)
	grow(&a.dollars, dollars/unit/unit)
}

// grow adds to a float64 that only the caller changes.
func grow(bits *atomic.Uint64, by float64) {
	bits.Store(math.Float64bits(math.Float64frombits(bits.Load()) + by))
}

// InstructionStats are figures of orders with instructions since the start. An order counts for each that it has.
type InstructionStats struct {
	IOC, FOK, Post, Market int64 // orders that were accepted
	OnDisconnect           int64 // likewise: they are canceled when their connection ends
	Amends                 int64 // that changed something
}

// add adds what has happened at a shard.
func (s *InstructionStats) add(a *activity) {
	s.IOC += a.ioc.Load()
	s.FOK += a.fok.Load()
	s.Post += a.post.Load()
	s.Market += a.market.Load()
	s.OnDisconnect += a.onDisconnect.Load()
	s.Amends += a.amends.Load()
}

// Stats are figures of a running exchange. Each is exact at some moment of the
// call; together they need not be of one moment.
type Stats struct {
	Accounts      int64
	Symbols       int64
	Halted        int64 // symbols that take no orders
	OpenOrders    int64
	ClosedOrders  int64   // in memory
	Orders        uint64  // accepted since the start
	Executions    int64   // fills since the start
	Cancels       int64   // that took something back, since the start
	TradedShares  float64 // in fills since the start; near, not exact, as TradedDollars
	TradedDollars float64
	Inbox         int64  // tasks that wait at all shards together, or that were begun and wait for their next turn
	Refs          int64  // in memory
	RefFilter     int64  // bytes that the filter of refs takes
	RefsRepeated  int64  // commands that were answered as they were before, since the start
	RefsAsked     int64  // refs that Postgres was asked for, since the start
	LastOrder     uint64 // the highest order id given out
	Appended      uint64 // seq of the journal's last record
	Lag           uint64 // records that Postgres is behind
	Instructions  InstructionStats
	Switches      int64 // dead man's switches that are armed
}

// Stats returns the figures. It looks at every symbol.
func (e *Engine) Stats() Stats {
	s := Stats{
		Accounts:     e.counters.accounts.Load(),
		Symbols:      e.counters.symbols.Load(),
		OpenOrders:   e.counters.openOrders.Load(),
		ClosedOrders: e.counters.closedOrders.Load(),
		LastOrder:    e.lastOrder.Load(),
		RefFilter:    int64(e.refs.filter.bytes()),
		RefsRepeated: e.counters.refsRepeated.Load(),
		RefsAsked:    e.counters.refsAsked.Load(),
		Lag:          e.lag(),
		Appended:     e.log.Appended(),
		Switches:     e.keeper.count(),
	}
	s.Orders = s.LastOrder - e.counters.lastAtStart
	for _, in := range e.awakeNow() {
		in.mu.Lock()
		s.Inbox += int64(len(in.tasks)+len(in.requests)) + in.keptCount.Load()
		in.mu.Unlock()
	}
	e.mu.Lock()
	s.Refs = int64(e.refs.table.Len())
	e.mu.Unlock()
	// Always in the same order: in another one a sum of floats may come out smaller by
	// its last bit, and to a reader of rates that is a counter that began anew.
	durable := e.durable.seq()
	for _, d := range *e.numbered.Load() {
		if d.told(durable) != nil {
			s.Halted++
		}
		s.Executions += d.activity.executions.Load()
		s.Instructions.add(&d.activity)
		s.Cancels += d.activity.cancels.Load()
		s.TradedShares += math.Float64frombits(d.activity.shares.Load())
		s.TradedDollars += math.Float64frombits(d.activity.dollars.Load())
	}
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
