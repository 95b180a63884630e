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
)

const (
	// stepTime is how often records are taken in while nobody waits for any, and pollTime while somebody does.
	stepTime = 50 * time.Millisecond
	pollTime = time.Millisecond

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
	Limit   func() uint64
	History History // nil if there is none
	Log     *slog.Logger
}

// View follows the accounts. Run is its goroutine; its other methods may be called from any.
type View struct {
	options Options
	seq     atomic.Uint64         // of the last record taken in
	broken  atomic.Pointer[error] // why there is no view any more
	waiters waiters

	event exchange.Event // Run's own

	// mu guards what follows. Run alone writes to it, so that Run may read without.
	mu       sync.RWMutex
	accounts map[exchange.AccountID]*account
	list     []*account // by account.number
	symbols  map[exchange.Symbol]symbolNumber
	names    []exchange.Symbol // by symbolNumber
	fills    fills
}

// NewView returns a view that goes on after a snapshot, which it does not keep. If the snapshot does
// not fit together, there is no view: Err says why.
func NewView(o Options, snap *exchange.Snapshot) *View {
	v := &View{
		options: o, accounts: make(map[exchange.AccountID]*account, len(snap.Accounts)),
		symbols: make(map[exchange.Symbol]symbolNumber), fills: fills{most: fillsMax, accountMost: accountFillsMax},
	}
	v.waiters.init()
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
		a.balance, a.held, a.fills.count = s.Balance, s.Held, s.Fills
	}
	for i := range snap.Symbols {
		v.addSymbol(snap.Symbols[i].Symbol)
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
		o := order{id: s.ID, Terms: s.Terms, open: s.Open, executed: s.Shares - s.Open, time: s.Time, symbol: sym,
			onDisconnect: s.OnDisconnect}
		if l := s.Lineage; l != nil {
			o.executed += l.Executed - l.Reduced
		}
		if s.Open <= 0 || !a.orders.insert(o) {
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
// too: that is logged, Err says it, Show answers ViewUnavailable, and the exchange goes on without a view. It is
// called once.
func (v *View) Run(ctx context.Context) {
	defer v.waiters.end()
	defer v.options.Records.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
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
		pause := stepTime
		if v.waiters.any() {
			pause = pollTime
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-v.waiters.wake:
		case <-ctx.Done():
			return
		}
	}
}

// step takes in all records that may be told now.
func (v *View) step(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := v.takeChunk()
		v.waiters.reached(v.seq.Load())
		if err != nil || !more {
			return err
		}
		runtime.Gosched() // orders come first
	}
	return nil
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
		if err = exchange.DecodeEvent(record, &v.event); err == nil {
			err = v.apply(&v.event)
		}
		if err != nil {
			return false, fmt.Errorf("accounts: journal record %d: %w", got, err)
		}
		seq = got
		did += len(v.event.Fills) + len(v.event.Cancels)
		more = true
	}
	return more, nil
}
