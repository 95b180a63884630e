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
	lastAtStart              uint64 // lastOrder when the engine was made
	refsRepeated, refsAsked  atomic.Int64
}

// activity counts what has happened at a shard since the start. Only the shard changes it; any goroutine may
// read it. Each shard has its own counters, so that shards do not contend for them.
type activity struct {
	executions, cancels atomic.Int64
	shares, dollars     atomic.Uint64 // traded volume and notional, as bits of a float64

	ioc, fok, post, market, onDisconnect atomic.Int64 // accepted orders with each instruction
	amends                               atomic.Int64 // amends that changed something
}

// instructed counts an order with instructions once for each instruction that it has.
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

// fill counts fills. The sums are for statistics only, so float64 is exact enough.
func (a *activity) fill(fills []exchange.Fill) {
	if len(fills) == 0 {
		return
	}
	const unit = 1e8 // units of a price or of shares in 1
	var shares, dollars float64
	for i := range fills {
		n := float64(fills[i].Shares)
		shares += n
		dollars += n * float64(fills[i].Price)
	}
	a.executions.Add(int64(len(fills)))
	addFloat(&a.shares, shares/unit)
	addFloat(&a.dollars, dollars/unit/unit)
}

// addFloat adds to a float64 that is stored as bits. Only one goroutine may change it.
func addFloat(bits *atomic.Uint64, by float64) {
	bits.Store(math.Float64bits(math.Float64frombits(bits.Load()) + by))
}

// InstructionStats counts orders with instructions since the start. An order counts once for each of its instructions.
type InstructionStats struct {
	IOC, FOK, Post, Market int64 // accepted orders
	OnDisconnect           int64 // accepted orders that are canceled when their connection ends
	Amends                 int64 // amends that changed something
}

// add adds the counts of a shard.
func (s *InstructionStats) add(a *activity) {
	s.IOC += a.ioc.Load()
	s.FOK += a.fok.Load()
	s.Post += a.post.Load()
	s.Market += a.market.Load()
	s.OnDisconnect += a.onDisconnect.Load()
	s.Amends += a.amends.Load()
}

// Stats are figures of a running exchange. Each is exact at some moment during the
// call, but not all at the same moment.
type Stats struct {
	Accounts      int64
	Symbols       int64
	Halted        int64 // symbols that accept no orders
	OpenOrders    int64
	ClosedOrders  int64   // closed orders in memory
	Orders        uint64  // orders accepted since the start
	Executions    int64   // fills since the start
	Cancels       int64   // orders canceled since the start
	TradedShares  float64 // shares in fills since the start; approximate
	TradedDollars float64 // notional of fills since the start; approximate
	Inbox         int64   // tasks that wait at all owners, including those that were begun and wait for their next turn
	Refs          int64   // refs in memory
	RefFilter     int64   // memory of the filter of refs, in bytes
	RefsRepeated  int64   // commands answered by repeating an earlier answer, since the start
	RefsAsked     int64   // refs that Postgres was asked for, since the start
	LastOrder     uint64  // highest order id given out
	Appended      uint64  // seq of the journal's last record
	Lag           uint64  // records that Postgres is behind
	Instructions  InstructionStats
	Switches      int64 // armed dead man's switches
}

// Stats returns the figures. Its cost grows with the number of symbols.
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
	// The sum is always taken in the same order. In another order a sum of floats may be smaller in
	// its last bit, and a reader of rates takes a smaller value for a counter that was reset.
	durable := e.durable.seq()
	for _, d := range *e.numbered.Load() {
		if d.durableHalt(durable) != nil {
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

// CheckLedger verifies that cash and shares are conserved. It walks
// the whole ledger under its lock, so nothing trades during the call. The error names the
// first violation.
func (e *Engine) CheckLedger() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Check()
}

// reconcilePause is how long the ledger's lock is released between two pieces of Reconcile.
const reconcilePause = 20 * time.Microsecond

// Reconcile counts all cash and all shares and returns the surplus or deficit, which is
// always zero unless there is a bug. It works in pieces, between
// which trading continues; each holds the ledger's lock for microseconds. Only one
// call may be in progress at a time.
func (e *Engine) Reconcile() exchange.Imbalance {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Reconcile(func() {
		e.mu.Unlock()
		time.Sleep(reconcilePause)
		e.mu.Lock()
	})
}
