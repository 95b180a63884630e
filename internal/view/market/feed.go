// Package market follows the market of each symbol in memory: its price levels, its newest trades, their totals and
// candles. The doors publish it. The data contains no account ids and no balances.
//
// It is a projection of the journal. The Feed, one goroutine, tails the synced records, several times a second, and
// at once while a listener or a waiting request exists. The event of an order has its fills with the price of each
// resting order, and that of a cancel has the canceled shares. So the levels can be kept without knowing the
// orders: fills take from the opposite side, and what is left of the order adds to its own.
//
//	journal ─ synced records ─▶ Feed (one goroutine) ─▶ symbols: levels, tape, candles
//	                              │            │             ▲ read lock
//	       several times a second │            │ each record │
//	                              ▼            ▼             │
//	                      Options.Publish   Listeners       View, Each, Candles
//	                                        of a symbol
//
// The route of an order does not use it.
package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
	"outcry/internal/process/recent"
)

const (
	// publishLook is how often Run calls Options.Publish.
	publishLook = trail.StepTime
)

// Snapshot is the market after a record, as the database keeps it. It has all symbols, totals and open orders. Of the
// trades it has the newest ones of each symbol, without a gap up to the last one, oldest first.
type Snapshot struct {
	Seq     uint64
	Symbols []exchange.SymbolState
	Orders  []exchange.OrderState
	Traded  []exchange.TradedState
	Trades  []exchange.TradeState
	// Candles are, for each symbol that was ever traded, the newest candle of each interval, and the hourly ones
	// that began within windowHours of the newest. The candles of a symbol are sorted oldest first.
	Candles []exchange.CandleState
}

// Options configure a Feed.
type Options struct {
	// Records are those after the Snapshot that may be published.
	Records *trail.Follower[exchange.KeptEvent]
	// CatchUp is the last record that was synced at the start. The feed serves nothing before it has applied it.
	CatchUp uint64
	// Candles returns candles from the database, oldest first: if from is not 0, the first ones that start at from or
	// later, else the newest. If to is not 0, all start before it. Candles is nil without a database. Stored returns
	// the last record up to which the database is complete.
	Candles func(ctx context.Context, sym exchange.Symbol, i exchange.Interval, from, to int64, limit int) (
		[]exchange.Candle, error)
	Stored func() uint64
	// Publish is called by Run several times a second while there is market data, between two records: everything
	// that it reads is as of the same record. It may call TakeChanged, and must be short. Publish is nil if nothing
	// is published.
	Publish func(now time.Time)
	Log     *slog.Logger
}

// Feed keeps the market data up to date. Run is its goroutine; its other methods may be called from any goroutine.
type Feed struct {
	options Options
	records *trail.Follower[exchange.KeptEvent]
	ended   chan struct{}

	seq    atomic.Uint64         // seq of the last applied record
	broken atomic.Pointer[error] // why the feed has failed; nil while it works

	// Only Run uses the fields below.
	scratch   exchange.Event // memory for the event being applied
	pending   []*symbol      // symbols that changed since TakeChanged took them, oldest first
	recent    recent.Values[exchange.Symbol, *symbol]
	change    Change // passed to listeners, and reused, as is market
	market    Market
	marks     marks        // levels changed by the current record, if its symbol has listeners
	unflushed []*listening // listeners that got changes since their last Flush

	// mu guards the fields below and the symbols. Only Run writes to them, except for list and the listeners, so Run
	// may read the others without it.
	mu      sync.RWMutex
	symbols map[exchange.Symbol]*symbol
	slots   slots
	list    []*symbol            // all symbols
	sorted  bool                 // whether list is sorted by name; viewList sorts it if needed
	heard   map[*symbol]struct{} // symbols with listeners
	over    bool                 // Run has ended
}

// NewFeed returns a feed that begins with a snapshot, which it does not keep. If the snapshot is inconsistent, the feed
// has failed and Err says why.
func NewFeed(o Options, snap *Snapshot) *Feed {
	f := &Feed{options: o, records: o.Records, ended: make(chan struct{}),
		symbols: make(map[exchange.Symbol]*symbol), heard: make(map[*symbol]struct{})}
	f.seq.Store(snap.Seq)
	if err := f.restore(snap); err != nil {
		f.broken.Store(&err)
	}
	return f
}

// Seq returns the seq of the last applied record.
func (f *Feed) Seq() uint64 { return f.seq.Load() }

// Ended returns a channel that is closed when Run returns.
func (f *Feed) Ended() <-chan struct{} { return f.ended }

// Err returns why there is no market data: the feed is not up to date yet, or it has failed. It returns nil while
// there is market data.
func (f *Feed) Err() error {
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	if seq := f.seq.Load(); seq < f.options.CatchUp {
		return fmt.Errorf("market data is at record %d of %d and not up to date yet", seq, f.options.CatchUp)
	}
	return nil
}

// Run follows the journal until ctx ends. An impossible or unreadable record ends it too: the error is logged, Err
// returns it, listeners are ended, and the exchange runs without market data.
// Run is called once.
func (f *Feed) Run(ctx context.Context) {
	defer close(f.ended)
	defer f.records.End()
	defer f.endListeners()
	var err error
	if broken := f.broken.Load(); broken != nil {
		err = *broken
		f.records.Close()
	} else if err = f.records.Run(ctx, f.loop()); err != nil {
		err = f.fail(err)
	}
	if err != nil {
		f.options.Log.Error("market data are unavailable, at least until the next start; trading continues",
			"error", err, "stack", trail.Stack(err))
	}
}

// loop returns what Run does with the records.
func (f *Feed) loop() trail.Loop {
	one, published := f.applyRecord, time.Time{} // one value for all chunks
	return trail.Loop{
		Chunk:    func() error { return f.applyChunk(one) },
		Listened: f.listened,
		Idle: func(now time.Time) {
			// With listeners, Idle is called more often; Publish is called at the same rate as without.
			if f.options.Publish != nil && now.Sub(published) >= publishLook && f.Err() == nil {
				published = now
				f.options.Publish(now)
			}
		},
	}
}

// applyChunk applies a chunk of records. If it fails or panics, the feed has failed before mu is unlocked, and
// listeners are sent nothing more.
func (f *Feed) applyChunk(one func(uint64, *exchange.KeptEvent) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := errPanicked
	defer func() {
		if err != nil {
			_ = f.fail(err)
		}
	}()
	if err = f.records.Chunk(one); err == nil {
		f.flush()
	}
	return err
}

// errPanicked is the error of a feed until Run has the panic's.
var errPanicked = errors.New("a record could not be applied")

// fail records that the feed has failed, and returns the error that Err returns from now on.
func (f *Feed) fail(err error) error {
	err = fmt.Errorf("market: %w", err)
	f.broken.Store(&err)
	return err
}

// applyRecord applies one record.
func (f *Feed) applyRecord(seq uint64, e *exchange.KeptEvent) error {
	err := f.apply(seq, e.Event(&f.scratch))
	if err == nil {
		f.seq.Store(seq)
	}
	return err
}

// apply applies an event. Its caller holds mu.
func (f *Feed) apply(seq uint64, e *exchange.Event) error {
	switch e.Kind {
	case exchange.AccountOpened, exchange.SharesDeposited, exchange.AccountRuled, exchange.SwitchSet:
		return nil
	case exchange.SymbolMade:
		if f.symbols[e.Symbol] != nil {
			return fmt.Errorf("symbol %s is created twice", e.Symbol)
		}
		s := f.add(e.Symbol, seq)
		if e.SymbolRules != nil {
			s.rules = *e.SymbolRules
		}
		f.queue(s)
		return nil
	case exchange.OrdersCanceled:
		return f.noteCancels(seq, e)
	case exchange.OrderAccepted, exchange.OrderContinued, exchange.OrderCanceled, exchange.OrderReduced,
		exchange.OrderReplaced, exchange.SymbolRuled, exchange.SymbolHalted, exchange.SymbolResumed:
		s, err := f.note(e)
		if err == nil {
			f.noted(s, seq, e)
		}
		return err
	}
	return fmt.Errorf("unknown kind %s", e.Kind)
}

// noteCancels applies the cancels of one record, which are sorted by symbol. Its caller holds mu.
func (f *Feed) noteCancels(seq uint64, e *exchange.Event) error {
	for i := range e.Cancels {
		one := e.Cancel(i)
		s, err := f.note(&one)
		if err != nil {
			return err
		}
		if i+1 == len(e.Cancels) || e.Cancels[i+1].Symbol != one.Symbol {
			f.noted(s, seq, &one)
		}
	}
	return nil
}

// note applies an event of an existing symbol, and returns the symbol. Its caller holds mu, and calls noted once
// everything in the record for that symbol is applied.
func (f *Feed) note(e *exchange.Event) (*symbol, error) {
	s, ok := f.recent.Find(e.Symbol)
	if !ok {
		if s = f.symbols[e.Symbol]; s == nil {
			return nil, fmt.Errorf("it is for symbol %s, which was never created", e.Symbol)
		}
		f.recent.Keep(e.Symbol, s)
	}
	if err := s.note(e, &f.slots); err != nil {
		return nil, err
	}
	return s, nil
}

// noted publishes that a record has changed a symbol. e is the record's last event for it. Its caller holds mu.
func (f *Feed) noted(s *symbol, seq uint64, e *exchange.Event) {
	s.seq = seq
	f.queue(s)
	if s.heard != nil {
		f.notify(s, seq, e)
	}
	if s.touched {
		s.bookSeq, s.touched = seq, false
	}
}

// queue adds a changed symbol to those that TakeChanged returns.
func (f *Feed) queue(s *symbol) {
	if !s.waits {
		s.waits = true
		f.pending = append(f.pending, s)
	}
}

// TakeChanged calls read for up to n of the symbols that were created or changed since it last returned them, in the
// order of their first change. read may be nil. left is the number of symbols that it has still to return. Only
// Options.Publish may call it.
func (f *Feed) TakeChanged(n int, read func(*Market)) (left int) {
	var first []*symbol
	if n < len(f.pending) {
		first, f.pending = f.pending[:n], f.pending[n:]
	} else {
		first, f.pending = f.pending, f.pending[:0] // reuses the memory
	}
	m := Market{seq: f.seq.Load()}
	for _, m.s = range first {
		m.s.waits = false
		if read != nil {
			read(&m)
		}
	}
	return len(f.pending)
}

// add adds a symbol. Its caller holds mu, unless no other goroutine uses f yet.
func (f *Feed) add(name exchange.Symbol, seq uint64) *symbol {
	s := newSymbol(name, seq)
	f.symbols[name] = s
	f.list, f.sorted = append(f.list, s), false
	return s
}

// viewList calls read with all symbols, sorted by name, while the market data does not change.
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
