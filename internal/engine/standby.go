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

// sweepRecords is after how many records a standby looks which refs it can forget.
const sweepRecords = 1024

// StandbyOptions are what a Standby needs. The limits are as in Options.
type StandbyOptions struct {
	State *exchange.State // the state after record Seq; the standby takes it over
	Seq   uint64
	// Projection and History are this node's own database. It may be ahead of the standby,
	// or behind it. Without a Projection nothing leaves memory.
	Projection Projection
	History    History

	ClosedOrdersMax int
	RefsMax         int
	BacklogMax      int // records that the projection may be behind before WaitRoom waits
}

// Standby is an exchange that only follows: it does again what the records of a leader say,
// and compares what comes out. It keeps all that an Engine needs to go on at once, without a
// disk or a database: the state, the filter of refs, and which records closed the orders
// that can be forgotten. Options.Standby hands it over.
//
// One goroutine calls WaitRoom and Apply; the other methods may be called from any.
type Standby struct {
	options  StandbyOptions
	refs     *refIndex
	closedAt atomic.Int64 // ClosedOrdersMax
	backlog  atomic.Int64 // BacklogMax
	event    exchange.Event

	// mu guards what follows, and the state.
	mu     sync.RWMutex
	state  *exchange.State // nil once it is handed over
	seq    uint64
	err    error // why a record could not be applied: the state is unusable
	books  []standbyBook
	closed standbyClosed
	counts struct {
		orders, cancels uint64
		activity        activity
	}
}

// standbyBook is a book with how many of its closed orders Standby.closed has.
type standbyBook struct {
	symbol exchange.Symbol
	book   *exchange.Book
	closed int
}

// NewStandby returns a standby in the given state. It reads the refs that the database
// has in the background. Close ends it, or an Engine that takes it over.
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
		s.noteClosed(sym)
	}
	return s
}

// SetLimits puts other limits in force: ClosedOrdersMax and BacklogMax, each above 0. The
// others are for an Engine.
func (s *Standby) SetLimits(l Limits) {
	s.closedAt.Store(int64(l.ClosedOrdersMax))
	s.backlog.Store(int64(l.BacklogMax))
}

// WaitRoom returns nil once the projection is less than BacklogMax records behind: memory
// holds what it does not have. The error is the projection's, or ctx's.
func (s *Standby) WaitRoom(ctx context.Context) error {
	most, seq := uint64(s.backlog.Load()), s.Seq()
	if s.options.Projection == nil || seq < most || s.options.Projection.Applied() > seq-most {
		return nil
	}
	return s.options.Projection.WaitApplied(ctx, seq-most+1)
}

// Apply does again what a record says, which is the one behind Seq, and is committed. An error
// is ErrStopped, and then nothing has changed; or it says that this node's history is not
// the leader's, or cannot be read: then the standby tells nothing any more.
func (s *Standby) Apply(seq uint64, record []byte) error {
	err := exchange.DecodeEvent(record, &s.event)
	if err = s.apply(seq, err); err != nil {
		return err
	}
	if seq%sweepRecords == 0 && s.options.History != nil && s.options.Projection != nil {
		last := func() uint64 { return s.seq }
		s.refs.sweep(&s.mu, s.options.RefsMax, last, s.options.Projection.Applied)
	}
	return nil
}

// apply applies s.event, which was decoded with err.
func (s *Standby) apply(seq uint64, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err == nil && seq != s.seq+1 {
		err = fmt.Errorf("it follows record %d", s.seq)
	}
	if err == nil {
		err = s.state.Apply(&s.event)
	}
	if err != nil {
		s.err = fmt.Errorf("engine: record %d does not come out as recorded: %w", seq, err)
		return s.err
	}
	s.seq = seq
	s.count()
	s.noteClosed(s.event.Symbol)
	for i := range s.event.Cancels {
		s.noteClosed(s.event.Cancels[i].Symbol)
	}
	s.forget()
	return nil
}

// usable returns why nothing of the standby may be used, nil while it may. Callers hold mu.
func (s *Standby) usable() error {
	if s.state == nil {
		return ErrStopped
	}
	return s.err
}

// count counts what s.event says.
func (s *Standby) count() {
	e := &s.event
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

// noteClosed remembers that the last record closed those orders of a symbol that it does
// not know of.
func (s *Standby) noteClosed(sym exchange.Symbol) {
	book := s.state.Books[sym]
	if book == nil {
		return // the record is of no symbol
	}
	b := &s.books[book.Number()]
	if n := book.Closed() - b.closed; n > 0 {
		b.closed += n
		s.closed.push(closedIn{book.Number(), closing{s.seq, n}})
	}
}

// forget drops closed orders whose rows are committed, longest closed first, while memory
// holds more of them than it should.
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

// standbyClosed knows which records closed the orders that can be forgotten, of all
// books, the oldest record first. Each book forgets its own in the same order.
type standbyClosed struct {
	closings []closedIn
	first    int // those before it are forgotten
	orders   int
}

// closedIn is a record that closed orders of a book.
type closedIn struct {
	book int
	closing
}

func (q *standbyClosed) push(c closedIn) {
	if q.first > len(q.closings)/2 && q.first > forgetMax {
		q.closings = append(q.closings[:0], q.closings[q.first:]...)
		q.first = 0
	}
	q.closings = append(q.closings, c)
	q.orders += c.orders
}

// pop takes out one order if it was closed at or before seq, and returns its book's number.
func (q *standbyClosed) pop(seq uint64) (book int, ok bool) {
	if q.first == len(q.closings) || q.closings[q.first].seq > seq {
		return 0, false
	}
	c := &q.closings[q.first]
	q.orders--
	if c.orders--; c.orders == 0 {
		q.first++
	}
	return c.book, true
}

// left returns what is not forgotten.
func (q *standbyClosed) left() []closedIn { return q.closings[q.first:] }

// handOver gives away the state and the refs, for an engine whose log has so many records.
func (s *Standby) handOver(appended uint64) (*exchange.State, *refIndex) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil || s.seq != appended {
		panic(fmt.Sprintf("engine: a standby at record %d takes over a log of %d: %v", s.seq, appended, err))
	}
	state := s.state
	s.state = nil
	return state, s.refs
}

// Close ends the standby. What asks it gets ErrStopped then, as after an engine has taken it
// over; Close does nothing there.
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
// record. It walks the whole state, and records wait until it is done. The error is that of Show.
func (s *Standby) Digest() (digest [sha256.Size]byte, seq uint64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return digest, 0, err
	}
	return s.state.Digest(), s.seq, nil
}

// Show returns an order of any account as it is at the standby's last record, with up to
// most of its executions, those behind the first after. found is false if there is no such
// order. The error is ErrStopped once the standby is closed or handed over, that of Apply
// once a record did not fit, or the history's; then nothing is known.
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

// find returns an order that memory has. Callers hold mu.
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

// page returns up to most executions, those behind the first after.
func page(executions []exchange.Execution, after, most int) []exchange.Execution {
	executions = executions[min(after, len(executions)):]
	return executions[:min(most, len(executions))]
}

// Halts returns the symbols that are halted at the standby's last record, in order of their
// names; none once it is closed or handed over.
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

// Stats returns the figures of the standby, at its last record: Appended is that one's seq.
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
