package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"outcry/internal/exchange"
)

// sweepRecords is the number of records after which a standby checks which refs it can drop from memory.
const sweepRecords = 1024

// StandbyOptions configure a Standby. The limits are as in Options.
type StandbyOptions struct {
	State *exchange.State // the state after record Seq; NewStandby takes ownership
	Seq   uint64
	// Projection and History are this node's own database, which may be ahead of the
	// standby or lag it. Without a Projection nothing leaves memory.
	Projection Projection
	History    History

	ClosedOrdersMax int
	RefsMax         int
	BacklogMax      int // records that the projection may lag before WaitRoom waits
}

// Standby is an exchange that follows a leader: it executes the leader's records again
// and compares the results with the records. It keeps in memory all that an Engine needs to take over at once, without
// reading a disk or a database: the state, the filter of refs, and the queue of closed orders
// that can be forgotten. Options.Standby hands it over to an Engine.
//
// One goroutine calls WaitRoom and Apply; the other methods may be called from any.
type Standby struct {
	options  StandbyOptions
	refs     *refIndex
	closedAt atomic.Int64 // limit on closed orders in memory, see Options.ClosedOrdersMax
	backlog  atomic.Int64 // limit on the projection's lag, see StandbyOptions.BacklogMax

	// mu guards the fields below, and the state.
	mu     sync.RWMutex
	state  *exchange.State // nil once the state was handed over or the standby is closed
	seq    uint64
	err    error // the reason why a record could not be applied; once set, the state is unusable
	books  []standbyBook
	closed standbyClosed
	counts struct {
		orders, cancels uint64
		activity        activity
	}
}

// standbyBook is a book, and the number of its closed orders that are queued in Standby.closed.
type standbyBook struct {
	symbol exchange.Symbol
	book   *exchange.Book
	closed int
}

// NewStandby returns a standby in the given state. A goroutine reads the refs of the database;
// Close ends it, or the Close of an Engine that takes the standby over.
func NewStandby(o StandbyOptions) *Standby {
	limits := Options{ClosedOrdersMax: o.ClosedOrdersMax, RefsMax: o.RefsMax, BacklogMax: o.BacklogMax}
	limits.setDefaults()
	o.RefsMax = limits.RefsMax
	s := &Standby{options: o, refs: newRefIndex(o.State.Refs, o.History), state: o.State, seq: o.Seq}
	s.SetLimits(Limits{ClosedOrdersMax: limits.ClosedOrdersMax, BacklogMax: limits.BacklogMax})
	s.options.State = nil
	s.books = make([]standbyBook, s.state.Index.Books())
	for sym, book := range s.state.Books {
		s.books[book.Number()] = standbyBook{symbol: sym, book: book}
		s.queueClosed(sym)
	}
	return s
}

// SetLimits replaces the limits in force: ClosedOrdersMax and BacklogMax, each above 0. It ignores the
// other limits.
func (s *Standby) SetLimits(l Limits) {
	s.closedAt.Store(int64(l.ClosedOrdersMax))
	s.backlog.Store(int64(l.BacklogMax))
}

// WaitRoom returns nil once the projection lags by less than BacklogMax records. That bounds memory, which holds the
// records that the projection lacks. The error is the projection's, or ctx's.
func (s *Standby) WaitRoom(ctx context.Context) error {
	most, seq := uint64(s.backlog.Load()), s.Seq()
	if s.options.Projection == nil || seq < most || s.options.Projection.Applied() > seq-most {
		return nil
	}
	return s.options.Projection.WaitApplied(ctx, seq-most+1)
}

// Apply executes the event of a committed record again; seq must be the one after Seq. The event is not kept. If the
// error is ErrStopped, nothing has changed. Any other error means that this node's history differs from the leader's:
// the standby is then unusable and answers nothing.
func (s *Standby) Apply(seq uint64, event *exchange.Event) error {
	if err := s.apply(seq, event); err != nil {
		return err
	}
	if seq%sweepRecords == 0 && s.options.History != nil && s.options.Projection != nil {
		last := func() uint64 { return s.seq }
		s.refs.sweep(&s.mu, s.options.RefsMax, last, s.options.Projection.Applied)
	}
	return nil
}

// apply is Apply without the sweep of refs.
func (s *Standby) apply(seq uint64, event *exchange.Event) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if seq != s.seq+1 {
		err = fmt.Errorf("want record %d", s.seq+1)
	} else {
		err = s.state.Apply(event)
	}
	if err != nil {
		s.err = fmt.Errorf("engine: record %d does not replay as recorded: %w", seq, err)
		return s.err
	}
	s.seq = seq
	s.count(event)
	s.queueClosed(event.Symbol)
	for i := range event.Cancels {
		s.queueClosed(event.Cancels[i].Symbol)
	}
	s.forget()
	return nil
}

// usable returns nil if the standby may be used, otherwise why not. Callers hold mu.
func (s *Standby) usable() error {
	if s.state == nil {
		return ErrStopped
	}
	return s.err
}

// count updates the counts with an event.
func (s *Standby) count(e *exchange.Event) {
	switch e.Kind {
	case exchange.OrderAccepted, exchange.OrderContinued, exchange.OrderReplaced:
		if e.Kind != exchange.OrderContinued {
			s.counts.orders++
		}
		if e.Kind == exchange.OrderAccepted {
			if e.Instructed() || e.OnDisconnect {
				s.counts.activity.instructed(&e.Terms, e.OnDisconnect)
			}
		} else if e.Kind == exchange.OrderReplaced {
			s.counts.activity.amends.Add(1)
		}
		s.counts.activity.fill(e.Fills)
		s.counts.cancels += uint64(len(e.Own))
	case exchange.OrderReduced:
		if e.Shares > 0 {
			s.counts.activity.amends.Add(1)
		}
	case exchange.OrderCanceled:
		s.counts.cancels++
	case exchange.OrdersCanceled:
		s.counts.cancels += uint64(len(e.Cancels))
	case exchange.SymbolMade:
		s.books = append(s.books, standbyBook{symbol: e.Symbol, book: s.state.Books[e.Symbol]})
	case exchange.AccountOpened, exchange.SharesDeposited, exchange.SymbolHalted, exchange.SymbolResumed,
		exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
	}
}

// queueClosed queues the orders of a symbol that the last record closed: those that are closed in the book and
// not queued yet.
func (s *Standby) queueClosed(sym exchange.Symbol) {
	book := s.state.Books[sym]
	if book == nil {
		return // the record has no symbol
	}
	b := &s.books[book.Number()]
	if n := book.Closed() - b.closed; n > 0 {
		b.closed += n
		s.closed.add(closedIn{book.Number(), closing{s.seq, n}})
	}
}

// forget drops closed orders from memory, longest closed first, while memory holds more than
// its limit. Only orders whose rows are committed in Postgres are dropped.
func (s *Standby) forget() {
	most := int(s.closedAt.Load())
	if s.closed.orders <= most || s.options.Projection == nil {
		return
	}
	applied := s.options.Projection.Applied()
	for n := 0; n < forgetMax && s.closed.orders > most; n++ {
		number, ok := s.closed.pop(applied)
		if !ok {
			return
		}
		b := &s.books[number]
		b.book.Forget()
		b.closed--
		b.book.Shrink()
	}
}

// handOver returns the state and the refs to a new engine and makes the standby unusable. It panics unless the standby
// has applied all appended records of the engine's log.
func (s *Standby) handOver(appended uint64) (*exchange.State, *refIndex) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil || s.seq != appended {
		panic(fmt.Sprintf("engine: a standby at record %d cannot take over a log with %d records: %v", s.seq, appended, err))
	}
	state := s.state
	s.state = nil
	return state, s.refs
}

// Close ends the standby. Later calls return ErrStopped. After an engine has taken the standby
// over, Close does nothing.
func (s *Standby) Close() {
	s.mu.Lock()
	mine := s.state != nil
	s.state = nil
	s.mu.Unlock()
	if mine {
		s.refs.end()
	}
}

// Seq returns the seq of the last record that was applied.
func (s *Standby) Seq() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seq
}

// Digest returns the digest of the state (exchange.State.Digest) and the seq of its last
// record. It walks the whole state, and Apply waits until it is done. The error is ErrStopped once the standby is
// closed or handed over, or that of a failed Apply.
func (s *Standby) Digest() (digest [sha256.Size]byte, seq uint64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return digest, 0, err
	}
	return s.state.Digest(), s.seq, nil
}

// Show returns an order of any account as of the standby's last record, with up to
// most of its executions after skipping the first after. found is false if there is no such
// order. The error is ErrStopped once the standby is closed or handed over, that of a failed Apply,
// or the history's.
func (s *Standby) Show(
	ctx context.Context, id exchange.OrderID, after, most int,
) (o exchange.PublicOrder, found bool, err error) {
	s.mu.RLock()
	o, found, err = s.find(id)
	seq, forgotten := s.seq, err == nil && !found && id <= s.state.OrderID
	s.mu.RUnlock()
	if found {
		o.Status.Executions = page(o.Status.Executions, after, most)
	}
	if !forgotten || s.options.History == nil {
		return o, found, err
	}
	closed, found, err := s.options.History.Order(ctx, id, after, most)
	if err != nil || !found || closed.Seq > seq {
		return o, false, err
	}
	return closed.PublicOrder, true, nil
}

// find returns an order that is in memory. Callers hold mu.
func (s *Standby) find(id exchange.OrderID) (o exchange.PublicOrder, found bool, err error) {
	if err := s.usable(); err != nil {
		return o, false, err
	}
	number, found := s.state.Index.Book(id)
	if !found {
		return o, false, nil
	}
	order, _ := s.books[number].book.Find(id)
	return order.Public(s.books[number].symbol), true, nil
}

// Halts returns the symbols that are halted as of the standby's last record, sorted by
// name; none once it is closed or handed over.
func (s *Standby) Halts() (all []HaltedSymbol) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.usable() != nil {
		return nil
	}
	for i := range s.books {
		if h := s.books[i].book.Halted(); h != nil {
			all = append(all, HaltedSymbol{s.books[i].symbol, *h})
		}
	}
	slices.SortFunc(all, func(a, b HaltedSymbol) int { return cmp.Compare(a.Symbol, b.Symbol) })
	return all
}

// Stats returns the figures of the standby as of its last record, whose seq is Appended.
// They are zero once it is closed or handed over.
func (s *Standby) Stats() Stats {
	halted := int64(len(s.Halts()))
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.usable() != nil {
		return Stats{}
	}
	a := &s.counts.activity
	stats := Stats{
		Accounts: int64(s.state.Ledger.Accounts()), Symbols: int64(len(s.books)), Halted: halted,
		OpenOrders: int64(s.state.Ledger.OpenOrders()), ClosedOrders: int64(s.closed.orders),
		Orders: s.counts.orders, Executions: a.executions.Load(), Cancels: int64(s.counts.cancels),
		TradedShares:  math.Float64frombits(a.shares.Load()),
		TradedDollars: math.Float64frombits(a.dollars.Load()),
		Refs:          int64(s.state.Refs.Len()), RefFilter: int64(s.refs.filter.bytes()),
		LastOrder: uint64(s.state.OrderID), Appended: s.seq,
	}
	stats.Instructions.add(a)
	if p := s.options.Projection; p != nil {
		stats.Lag = s.seq - min(s.seq, p.Applied())
	}
	return stats
}
