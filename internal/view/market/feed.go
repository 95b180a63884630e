// Package market is the public market data: for each symbol its price levels, its
// newest trades and what they come to, as data over HTTP, as a stream of server-sent
// events, and as a page for people. No account and no balance is in it.
//
// It is one more projection of the journal. The Feed, one goroutine, tails the records that are synced, some times
// a second, and at once while somebody listens or waits. An order's event has its fills with the price of each
// resting order, and a cancel's has what was taken back, so levels need no order: fills take from the opposite
// side, what is left adds to its own.
//
//	journal ─ synced records ─▶ Feed (one goroutine) ─▶ symbols: levels, tape, candles
//	                              │            │             ▲ read lock
//	          five times a second │            │ each record ▼
//	                              ▼            ▼           API, View: answers
//	              hub: what is new,            Listeners, of symbols that
//	              written once for all         somebody listens to
//	                              │
//	                              ▼
//	              one goroutine a reader of the stream
//
// Nothing of it is on the route of an order. Readers that are slow miss updates, and
// see from the numbers that they did; readers that take nothing are cut off.
package market

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

const (
	// publishTime lies between two updates of the stream at the least. What comes after
	// a pause is told with the next step.
	publishTime = 200 * time.Millisecond

	// publishLook is how often the feed looks whether there is something for the stream.
	publishLook = trail.StepTime

	// chunkRecords is how many records are taken in at once, while answers wait and
	// other goroutines may want the processor: some tens of microseconds.
	chunkRecords = 256

	// chunkFills ends a chunk earlier: a part of an order may have thousands of fills.
	chunkFills = exchange.FillsMax
)

// Records are the journal's synced records, from the one after the Snapshot on. Its
// methods are called by one goroutine.
type Records interface {
	// TryNext returns the next record, which is valid until the next call. ok is
	// false, without an error, where it is not synced yet.
	TryNext() (seq uint64, record []byte, ok bool, err error)
	// Close lets go of what was not read.
	Close()
}

// Snapshot is the market after a record, as a database keeps it. Symbols, sums and
// open orders are all there are; of trades the newest, for each symbol without a gap
// up to its last one, oldest first.
type Snapshot struct {
	Seq     uint64
	Symbols []exchange.SymbolState
	Orders  []exchange.OrderState
	Traded  []exchange.TradedState
	Trades  []exchange.TradeState
	// Candles are, of each symbol that was ever traded, the newest of each interval and those of an hour that
	// began within windowHours of it, each symbol's oldest first.
	Candles []exchange.CandleState
}

// Health is how the exchange is doing, over the last second or so.
type Health struct {
	OrdersPerSecond, RequestsPerSecond float64
	P50, P99                           float64 // seconds that requests took
	LagRecords                         uint64  // journal records that Postgres does not have yet
	LagSeconds                         float64 // how long it has not been up to date
	PostgresUp                         bool
	NotReady                           error // why no orders are taken, nil while they are
}

// Options are what a Feed needs.
type Options struct {
	Records Records
	// CatchUp is the last record that was synced at the start: nothing is told
	// before the feed has come so far.
	CatchUp uint64
	// Limit returns the last record that may be told. Nil means every synced one.
	Limit func() uint64
	// Notify sends to wake once record seq is synced, or perhaps before, and does not wait: the journal's. Without it
	// those who wait or listen are served by polling.
	Notify func(seq uint64, wake chan<- struct{})
	// Candles returns candles of the database, oldest first: if from is not 0, the first ones that start then or
	// later, else the newest; all start before to, if that is not 0. Nil if there is no database. Stored returns the
	// last record that the database has all of.
	Candles func(ctx context.Context, sym exchange.Symbol, i exchange.Interval, from, to int64, limit int) (
		[]exchange.Candle, error)
	Stored func() uint64
	Health func() Health // asked once a second
	Log    *slog.Logger
}

// Feed follows the market. Run is its goroutine; its other methods may be called
// from any.
type Feed struct {
	options Options
	hub     *hub
	pace    *trail.Pace
	ended   chan struct{}

	seq    atomic.Uint64         // of the last record taken in
	broken atomic.Pointer[error] // why there is no market data any more

	// Run's own.
	event     exchange.Event
	last      *symbol // of the record before: the next is often for the same
	change    Change  // for listeners, as is market
	market    Market
	marks     marks        // of the record that is being taken in, if its symbol is listened to
	unflushed []*listening // that were told of changes since their last Flush

	// mu guards what follows, and the symbols. Run alone writes to it, except to list and to what listeners are, so
	// that Run may read the rest without.
	mu      sync.RWMutex
	symbols map[exchange.Symbol]*symbol
	slots   slots
	list    []*symbol            // the same symbols
	sorted  bool                 // whether list is in order; who needs it to be puts it in order
	heard   map[*symbol]struct{} // those that have listeners
	over    bool                 // Run has ended
}

// NewFeed returns a feed that goes on after a snapshot, which it does not keep. Where
// the snapshot does not fit together, there is no market data: Err tells why.
func NewFeed(o Options, snap *Snapshot) *Feed {
	f := &Feed{options: o, pace: trail.NewPace(o.Notify), ended: make(chan struct{}),
		symbols: make(map[exchange.Symbol]*symbol), heard: make(map[*symbol]struct{})}
	f.hub = newHub(f)
	f.seq.Store(snap.Seq)
	if err := f.restore(snap); err != nil {
		f.broken.Store(&err)
	}
	return f
}

// Seq returns the seq of the last record that was taken in.
func (f *Feed) Seq() uint64 { return f.seq.Load() }

// Err returns why there is no market data: it is not up to date yet, or it has
// failed. Nil means that there is.
func (f *Feed) Err() error {
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	if seq := f.seq.Load(); seq < f.options.CatchUp {
		return fmt.Errorf("market data is at record %d of %d and not up to date yet", seq, f.options.CatchUp)
	}
	return nil
}

// Run follows the market until ctx ends. A record that cannot be, or cannot be
// read, ends it too: that is logged, Err tells it, readers of the stream are cut off, listeners hear of the end,
// and the exchange goes on without market data. It is called once.
func (f *Feed) Run(ctx context.Context) {
	defer close(f.ended)
	defer f.pace.End()
	defer f.endListeners()
	defer f.hub.close()
	defer f.options.Records.Close()
	for looked, published := (time.Time{}), (time.Time{}); ; {
		if f.broken.Load() == nil {
			if err := f.step(ctx); err != nil {
				f.broken.Store(&err)
			}
		}
		if broken := f.broken.Load(); broken != nil {
			f.options.Log.Error("there is no market data, until the next start at least; trading goes on", "error", *broken)
			return
		}
		// As often as without listeners, however often records are taken in for those.
		if now := time.Now(); now.Sub(looked) >= publishLook && f.Err() == nil {
			if looked = now; now.Sub(published) >= publishTime && f.hub.publish(now) {
				published = now
			}
		}
		if !f.pace.Sleep(ctx, f.seq.Load(), f.listened()) {
			return
		}
	}
}

// step takes in all records that may be told now.
func (f *Feed) step(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := f.takeChunk()
		f.pace.Reached(f.seq.Load())
		if err != nil || !more {
			return err
		}
		runtime.Gosched() // orders come first
	}
	return nil
}

// takeChunk takes in some records. more reports whether there may be more.
func (f *Feed) takeChunk() (more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.flush()
	seq, most := f.seq.Load(), uint64(chunkRecords)
	if limit := f.options.Limit; limit != nil {
		most = min(most, max(limit(), seq)-seq)
	}
	defer func() { f.seq.Store(seq) }()
	did := 0
	for range most {
		got, record, ok, err := f.options.Records.TryNext()
		switch {
		case err != nil:
			return false, fmt.Errorf("market: %w", err)
		case !ok:
			return false, nil
		case got != seq+1:
			return false, fmt.Errorf("market: journal record %d follows record %d", got, seq)
		}
		if err := f.apply(got, record); err != nil {
			return false, err
		}
		seq = got
		if did += len(f.event.Fills) + len(f.event.Own); did >= chunkFills {
			break
		}
	}
	return most > 0, nil
}

// apply takes in a record. Its caller holds mu.
func (f *Feed) apply(seq uint64, record []byte) error {
	e := &f.event
	name, err := exchange.DecodePublic(record, e)
	if err != nil {
		return fmt.Errorf("market: journal record %d: %w", seq, err)
	}
	switch e.Kind {
	case exchange.AccountOpened, exchange.SharesDeposited, exchange.AccountRuled, exchange.SwitchSet:
		return nil
	case exchange.SymbolMade:
		if f.symbols[exchange.Symbol(name)] != nil {
			return fmt.Errorf("market: journal record %d makes symbol %s again", seq, name)
		}
		s := f.add(exchange.Symbol(name), seq)
		if e.SymbolRules != nil {
			s.rules = *e.SymbolRules
		}
		f.hub.note(s)
		return nil
	case exchange.OrdersCanceled:
		return f.noteCancels(seq, e)
	case exchange.OrderAccepted, exchange.OrderContinued, exchange.OrderCanceled, exchange.OrderReduced,
		exchange.OrderReplaced, exchange.SymbolRuled, exchange.SymbolHalted, exchange.SymbolResumed:
		s, err := f.note(seq, name, e)
		if err == nil {
			f.noted(s, seq, e)
		}
		return err
	}
	return fmt.Errorf("market: journal record %d is of unknown kind %s", seq, e.Kind)
}

// noteCancels takes in the cancels of one record, which are in the order of their symbols. Its caller holds mu.
func (f *Feed) noteCancels(seq uint64, e *exchange.Event) error {
	for i := range e.Cancels {
		one := e.Cancel(i)
		s, err := f.note(seq, []byte(one.Symbol), &one)
		if err != nil {
			return err
		}
		if i+1 == len(e.Cancels) || e.Cancels[i+1].Symbol != one.Symbol {
			f.noted(s, seq, &one)
		}
	}
	return nil
}

// note takes in an event of a symbol that was made before, and returns the symbol. Its caller holds mu, and calls
// noted once all of the record that is for the symbol is taken in.
func (f *Feed) note(seq uint64, name []byte, e *exchange.Event) (*symbol, error) {
	s := f.last
	if s == nil || string(s.name) != string(name) {
		if s = f.symbols[exchange.Symbol(name)]; s == nil {
			return nil, fmt.Errorf("market: journal record %d is for symbol %s, which was never made", seq, name)
		}
		f.last = s
	}
	if err := s.note(e, &f.slots); err != nil {
		return nil, fmt.Errorf("journal record %d: %w", seq, err)
	}
	return s, nil
}

// noted says that a record has changed a symbol. e is the last event of the record for it. Its caller holds mu.
func (f *Feed) noted(s *symbol, seq uint64, e *exchange.Event) {
	s.seq = seq
	f.hub.note(s)
	if s.heard != nil {
		f.tell(s, seq, e)
	}
	if s.touched {
		s.bookSeq, s.touched = seq, false
	}
}

// add makes a symbol. Its caller holds mu, or nobody else knows of f yet.
func (f *Feed) add(name exchange.Symbol, seq uint64) *symbol {
	s := newSymbol(name, seq)
	f.symbols[name] = s
	f.list, f.sorted = append(f.list, s), false
	return s
}

// view calls read with the market as it stands, which does not change meanwhile.
func (f *Feed) view(read func()) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	read()
}

// viewList is view for callers that need all symbols in order.
func (f *Feed) viewList(read func(list []*symbol)) {
	for {
		f.mu.RLock()
		if f.sorted {
			break
		}
		f.mu.RUnlock()
		f.mu.Lock()
		slices.SortFunc(f.list, func(a, b *symbol) int { return cmp.Compare(a.name, b.name) })
		f.sorted = true
		f.mu.Unlock()
	}
	defer f.mu.RUnlock()
	read(f.list)
}
