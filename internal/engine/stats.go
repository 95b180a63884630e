package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"outcry/internal/exchange"
)

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
	Inbox         int64   // tasks waiting at all owners, including started tasks that wait for their next turn
	Refs          int64   // refs in memory
	RefFilter     int64   // memory of the filter of refs, in bytes
	RefsRepeated  int64   // commands answered by repeating an earlier answer, since the start
	RefsAsked     int64   // refs that were looked up in Postgres, since the start
	LastOrder     uint64  // highest order id given out
	Appended      uint64  // seq of the journal's last record
	Lag           uint64  // number of records by which Postgres lags behind the journal
	Instructions  InstructionStats
	Switches      int64 // armed dead man's switches
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
	// Always add in the same order: in another order, a sum of floats may be smaller in its last bit, and a function of
	// rates treats a smaller value as a counter that was reset.
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

// Refusing returns why the exchange refuses orders and new accounts and symbols at this moment, or nil
// if it accepts them: the journal's disk is full, the projection is too far
// behind, or Catchup is not complete. Queries and cancels still work.
func (e *Engine) Refusing() error {
	//exhaustive:ignore admit returns no other reasons
	switch e.admit() {
	case exchange.NoRoom:
		return e.log.Room()
	case exchange.DatabaseBehind:
		return fmt.Errorf("engine: Postgres is %d records behind, the limit is %d", e.lag(), e.limits.backlog.Load())
	}
	if e.unresumed.Load() {
		return errUnresumed
	}
	return nil
}

// errUnresumed is returned by Refusing until Catchup has canceled everything that was due while the exchange was down.
var errUnresumed = errors.New("engine: orders due for cancellation since the exchange was down are still open: " +
	"the journal has no room for their cancels")

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

// Alive returns nil once every owner that has a goroutine, the registrar or a shard, has responded
// between two commands or between two parts of an order: so none of them hangs. Idle owners
// have no goroutine that could hang and are skipped. An error names the
// first owner that did not respond before ctx ended, or is ErrStopped.
func (e *Engine) Alive(ctx context.Context) error {
	asked := make(map[*inbox]*task)
	for _, in := range e.awakeNow() {
		t := &task{request: ping{}, done: make(chan struct{}, 1)}
		if err := in.offer(t); err != nil {
			return fmt.Errorf("engine: no response from %s: %w", in.owner, err)
		}
		asked[in] = t
	}
	for in, t := range asked {
		select {
		case <-t.done:
		case <-ctx.Done():
			return fmt.Errorf("engine: no response from %s: %w", in.owner, ctx.Err())
		case <-e.stop:
			return fmt.Errorf("engine: no response from %s: %w", in.owner, ErrStopped)
		}
	}
	return nil
}

// ping is a request that only asks for a response.
type ping struct{}

func (ping) do() error { return nil }

func (ping) answerMidOrder() bool { return true }
