// Package accounts is what accounts see of themselves: for each account its free and held cash
// and shares, its open orders and its newest fills.
//
// It is one more projection of the journal. The View, one goroutine, takes in the records
// that are visible. Nothing of it is on the route of an order: an order book has no index by account, and
// trading goes on if the view fails. A caller says which record the view must have, and waits for it, so
// that clients read what they have written, on whatever connection.
//
//	journal ─ visible records ─▶ View (one goroutine) ─▶ accounts: balance, positions, orders, fills
//	                                        │                        ▲ read lock
//	                                        ▼                        │
//	                                      wakes those that wait ─▶ Show: a page at the most
//
// What it keeps is bounded by what is open, except for fills: at most accountFillsMax of an account and
// fillsMax in all. Older ones come from the database, a page at a time.
//
// It is the private feed, too: what each record does to an account is one exchange.AccountEvent. They are counted for
// every account, and made and kept only while somebody listens to the account or watches it (Subscribe, Watch). In
// the same way it knows the orders that rest at a symbol, in their priority, while somebody listens to them
// (ListenOrders).
package accounts

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

const (
	// chunkRecords is how many records are applied while mu is held. A chunk needs some hundreds of microseconds, in
	// which queries wait and other goroutines may need the processor.
	chunkRecords = 256

	// chunkFills ends a chunk earlier: one part of an order may have thousands of fills.
	chunkFills = exchange.FillsMax
)

// Records reads the journal's synced records, beginning after the snapshot. Its methods are called by one goroutine.
type Records interface {
	// TryNext returns the next record, which is valid until the next call. ok is false, without an error, if the
	// record is not synced yet.
	TryNext() (seq uint64, record []byte, ok bool, err error)
	// Close releases what was not read.
	Close()
}

// History reads the fills that the view no longer keeps. Its methods are called by many goroutines.
type History interface {
	// Fills returns up to most fills of an account with numbers above after, without a gap, as far as it has them.
	// first is the number of the oldest stored fill above after, which is the first one returned. The error says why
	// they could not be read.
	Fills(ctx context.Context, id exchange.AccountID, after uint64, most int) (
		fills []exchange.AccountFill, first uint64, err error)
}

// Options are what a View needs.
type Options struct {
	Records Records
	// Limit returns the last record that may be shown. Nil means every synced record.
	Limit func() uint64
	// Notify has the journal send to wake once record seq is synced, or perhaps earlier. It does not wait. If Notify
	// is nil, the view polls while a caller waits or a listener exists.
	Notify  func(seq uint64, wake chan<- struct{})
	History History // nil without a database
	Log     *slog.Logger
}

// View is the state of all accounts after the last applied record. Run is its goroutine; its other methods may be
// called from any goroutine.
type View struct {
	options Options
	seq     atomic.Uint64         // seq of the last applied record
	broken  atomic.Pointer[error] // why the view has failed; nil while it works
	pace    *trail.Pace

	listening atomic.Int64 // number of listeners

	// feeding is held while records are applied and delivered to listeners, and while a listener is added or
	// removed. It is locked before mu.
	feeding sync.Mutex
	due     []interface{ deliver() } // audiences with news from the records just applied
	ended   error                    // the error that listeners got when the view ended

	// mu guards the fields below. Only Run writes to them, except for watches and listeners, so Run may read the
	// others without it.
	mu          sync.RWMutex
	decoder     exchange.Decoder
	event       exchange.Event // record that is being applied
	at          uint64         // seq of that record
	incoming    orderMore      // rarely used fields of the order that the record accepts
	touched     []*watch       // watched accounts that the record has changed so far
	resting     []*resting     // books with listeners that the record has changed so far
	accounts    map[exchange.AccountID]*account
	list        []*account // by account.number
	symbols     map[exchange.Symbol]symbolNumber
	markets     []symbol // by symbolNumber
	fills       fills
	spareOrders spareOrders
	watches     map[exchange.AccountID]*watch
	unopened    int // watches of accounts that are not open yet
	kept        kept
	swept       time.Time // time of the last sweep; used only by Run
}

// NewView returns a view that begins with a snapshot, which it does not keep. If the snapshot is inconsistent, the
// view has failed and Err says why.
func NewView(o Options, snap *exchange.Snapshot) *View {
	v := &View{
		options: o, pace: trail.NewPace(o.Notify), accounts: make(map[exchange.AccountID]*account, len(snap.Accounts)),
		symbols: make(map[exchange.Symbol]symbolNumber), fills: fills{most: fillsMax, accountMost: accountFillsMax},
		watches: make(map[exchange.AccountID]*watch), kept: kept{bytesMost: keptBytesMax, accountMost: accountEventsMax},
	}
	v.seq.Store(snap.Seq)
	if err := v.restore(snap); err != nil {
		v.broken.Store(&err)
	}
	return v
}

// restore loads a snapshot.
func (v *View) restore(snap *exchange.Snapshot) error {
	for i := range snap.Accounts {
		s := &snap.Accounts[i]
		a := v.add(s.ID)
		a.balance, a.held, a.fills.count, a.n = s.Balance, s.Held, s.Fills, s.Events
	}
	for i := range snap.Symbols {
		v.addSymbol(snap.Symbols[i].Symbol, snap.Seq).trades = snap.Symbols[i].Trades
	}
	for i := range snap.Positions {
		p := &snap.Positions[i]
		a, sym, err := v.find(p.Account, p.Symbol)
		if err != nil {
			return err
		}
		a.deliver(sym, p.Shares, p.Held)
	}
	for i := range snap.Orders {
		s := &snap.Orders[i]
		a, sym, err := v.find(s.Account, s.Symbol)
		if err != nil {
			return err
		}
		if s.Open <= 0 || !v.insert(a, restored(s, sym)) {
			return fmt.Errorf("accounts: order %d is there twice, or has %s open", s.ID, s.Open)
		}
	}
	return nil
}

// Seq returns the seq of the last applied record.
func (v *View) Seq() uint64 { return v.seq.Load() }

// Err returns why the view has failed, nil while it works.
func (v *View) Err() error {
	if broken := v.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// Run follows the journal until ctx ends. An impossible or unreadable record ends it too: the error is logged, Err
// returns it, Show returns ViewUnavailable, the listeners are ended, and the exchange runs without a view.
// Run is called once.
func (v *View) Run(ctx context.Context) {
	defer v.end()
	defer v.options.Records.Close()
	for {
		if v.Err() == nil {
			if err := v.step(ctx); err != nil {
				v.broken.Store(&err)
			}
		}
		if err := v.Err(); err != nil {
			v.options.Log.Error("accounts have no view of themselves, until the next start at least; trading goes on",
				"error", err)
			return
		}
		v.sweep(time.Now())
		if !v.pace.Sleep(ctx, v.Seq(), v.listening.Load() > 0) {
			return
		}
	}
}

// step applies all records that may be shown now.
func (v *View) step(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := v.takeAndTell()
		v.pace.Reached(v.seq.Load())
		if err != nil || !more {
			return err
		}
		runtime.Gosched() // let goroutines that process orders run first
	}
	return nil
}

// takeAndTell applies a chunk of records, and delivers the news to the listeners.
func (v *View) takeAndTell() (more bool, err error) {
	v.feeding.Lock()
	defer v.feeding.Unlock()
	more, err = v.takeChunk()
	for _, to := range v.due {
		to.deliver()
	}
	clear(v.due)
	v.due = v.due[:0]
	return more, err
}

// takeChunk applies a chunk of records. more reports whether more may be ready.
func (v *View) takeChunk() (more bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seq, most := v.seq.Load(), uint64(chunkRecords)
	if limit := v.options.Limit; limit != nil {
		most = min(most, max(limit(), seq)-seq)
	}
	defer func() { v.seq.Store(seq) }()
	for did := 0; most > 0 && did < chunkFills; most-- {
		got, record, ok, err := v.options.Records.TryNext()
		switch {
		case err != nil:
			return false, fmt.Errorf("accounts: %w", err)
		case !ok:
			return false, nil
		case got != seq+1:
			return false, fmt.Errorf("accounts: journal record %d follows record %d", got, seq)
		}
		v.at = got
		if err = v.decoder.Decode(record, &v.event); err == nil {
			err = v.apply(&v.event)
		}
		if err != nil {
			return false, fmt.Errorf("accounts: journal record %d: %w", got, err)
		}
		v.finish()
		seq = got
		did += len(v.event.Fills) + len(v.event.Cancels)
		more = true
	}
	return more, nil
}
