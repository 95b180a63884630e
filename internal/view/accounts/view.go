// Package accounts is what accounts see of themselves: for each account its free and held cash
// and shares, its open orders and its newest fills.
//
// It is one more projection of the journal. The View, one goroutine, takes in the records
// that may be told. Nothing of it is on the route of an order: an order book has no index by account, and
// trading goes on if the view fails. A caller says which record the view must have, and waits for it, so
// that clients read what they have written, on whatever connection.
//
//	journal ─ records that may be told ─▶ View (one goroutine) ─▶ accounts: balance, positions, orders, fills
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
	// chunkRecords is how many records are taken in at once, while answers wait and other
	// goroutines may want the processor: some hundreds of microseconds.
	chunkRecords = 256

	// chunkFills ends a chunk earlier: a part of an order may have thousands of fills.
	chunkFills = exchange.FillsMax
)

// Records are the journal's synced records, from the one after the snapshot on. Its
// methods are called by one goroutine.
type Records interface {
	// TryNext returns the next record, which is valid until the next call. ok is
	// false, without an error, where it is not synced yet.
	TryNext() (seq uint64, record []byte, ok bool, err error)
	// Close lets go of what was not read.
	Close()
}

// History is where fills are that the view does not keep. Its methods are called by many goroutines.
type History interface {
	// Fills returns the fills of an account with up to most numbers after the given one, without a gap, as far as
	// it has them. first is the number of the oldest that it has kept of those after that one, and the first of them
	// has it. The error says why they could not be read.
	Fills(ctx context.Context, id exchange.AccountID, after uint64, most int) (
		fills []exchange.AccountFill, first uint64, err error)
}

// Options are what a View needs.
type Options struct {
	Records Records
	// Limit returns the last record that may be told. Nil means every synced one.
	Limit func() uint64
	// Notify sends to wake once record seq is synced, or perhaps before, and does not wait: the journal's. Without it
	// the view polls while somebody waits or listens.
	Notify  func(seq uint64, wake chan<- struct{})
	History History // nil if there is none
	Log     *slog.Logger
}

// View follows the accounts. Run is its goroutine; its other methods may be called from any.
type View struct {
	options Options
	seq     atomic.Uint64         // of the last record taken in
	broken  atomic.Pointer[error] // why there is no view any more
	pace    *trail.Pace

	listening atomic.Int64 // how many listeners there are

	// feeding is held while records are taken in and listeners are told of them, and while one comes or goes. It is
	// locked before mu.
	feeding sync.Mutex
	due     []interface{ deliver() } // those who are to be told of the records at hand
	ended   error                    // what listeners were told by End

	// mu guards what follows. Run alone writes to it, except for what is watched and listened to, and so may read
	// the rest without.
	mu          sync.RWMutex
	decoder     exchange.Decoder
	event       exchange.Event // the record at hand
	at          uint64         // its seq
	incoming    orderMore      // of the order that it accepts
	touched     []*watch       // accounts that are watched, and that it has touched so far
	resting     []*resting     // orders that are listened to, of which it has changed some
	accounts    map[exchange.AccountID]*account
	list        []*account // by account.number
	symbols     map[exchange.Symbol]symbolNumber
	markets     []symbol // by symbolNumber
	fills       fills
	spareOrders spareOrders
	watches     map[exchange.AccountID]*watch
	unopened    int // of them, those of accounts that are not there
	kept        kept
	swept       time.Time // when what nobody wants was forgotten last; Run's own
}

// NewView returns a view that goes on after a snapshot, which it does not keep. If the snapshot does
// not fit together, there is no view: Err says why.
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

// restore takes in a snapshot.
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

// Seq returns the seq of the last record that was taken in.
func (v *View) Seq() uint64 { return v.seq.Load() }

// Err returns why there is no view any more, nil while there is one.
func (v *View) Err() error {
	if broken := v.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// Run follows the accounts until ctx ends. A record that cannot be, or cannot be read, ends it
// too: that is logged, Err says it, Show answers ViewUnavailable, listeners are told that it has ended, and the
// exchange goes on without a view. It is called once.
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

// step takes in all records that may be told now.
func (v *View) step(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := v.takeAndTell()
		v.pace.Reached(v.seq.Load())
		if err != nil || !more {
			return err
		}
		runtime.Gosched() // orders come first
	}
	return nil
}

// takeAndTell takes in some records, and tells listeners of them.
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

// takeChunk takes in some records. more reports whether there may be more.
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
