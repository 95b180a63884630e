// Package accounts keeps what each account may see of itself: its free and held cash and shares, its open orders
// and its newest fills.
//
// It is a projection of the journal, as Postgres is. One goroutine, View.Run, applies the records that are visible.
// The route of an order does not use it: an order book has no index by account, and trading continues if the view
// fails. A caller says which record the view must have, and waits for it, so that clients read what they have
// written, on every connection.
//
//	journal ─ visible records ─▶ View (one goroutine) ─▶ accounts: balance, positions, orders, fills
//	                                        │                        ▲ read lock
//	                                        ▼                        │
//	                                      wakes waiting callers ─▶ Show: one page at most
//
// Its memory is bounded by the open orders, except for fills: it keeps at most accountFillsMax of an account and
// fillsMax in all. Older ones come from the database, a page at a time.
// An order is 56 bytes without pointers, and about 61 with the lists that it is in; a fill is 48. Most of the time of a
// record is memory that is not in the processor's cache, so fewer bytes are less time.
//
// It is also the private feed: what each record does to an account is one exchange.AccountEvent. Events are counted
// for every account, and made and kept only while the account has a listener or is watched (Subscribe, Watch). In
// the same way the view knows the resting orders of a symbol, in their priority, while they have a listener
// (ListenOrders).
//
// The files, each of which calls those below it: view.go runs the view; listen.go, copy.go, listenorders.go,
// did.go and show.go serve its callers; apply.go applies a record, and events.go makes its events; state.go and
// account.go have the state; resting.go, watch.go, audience.go, fills.go, ages.go, openorders.go, orders.go and slab.go
// have its parts.
package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

// NewView returns a view that begins with a snapshot, which it does not keep. If the snapshot is inconsistent, the
// view has failed and Err says why.
func NewView(o Options, snap *exchange.Snapshot) *View {
	v := &View{
		options: o, records: o.Records, accounts: make(map[exchange.AccountID]*account, len(snap.Accounts)),
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
		o, more := restored(s, a.number, sym)
		if s.Open <= 0 || !v.insert(a, &o, &more) {
			return fmt.Errorf("accounts: order %d is duplicated, or has %s open", s.ID, s.Open)
		}
	}
	return nil
}

// Run follows the journal until ctx ends. An impossible or unreadable record ends it too: the error is logged, Err
// returns it, Show returns ViewUnavailable, the listeners are ended, and the exchange runs without a view.
// Run is called once.
func (v *View) Run(ctx context.Context) {
	defer v.end()
	err := v.Err()
	if err == nil {
		err = v.records.Run(ctx, v.loop())
	} else {
		v.records.Close()
	}
	if err != nil {
		stack := trail.Stack(err)
		err = v.fail(err)
		v.options.Log.Error("accounts cannot query themselves, at least until the next start; trading continues",
			"error", err, "stack", stack)
	}
}

// loop returns what Run does with the records.
func (v *View) loop() trail.Loop {
	one := v.applyRecord // one value for all chunks
	return trail.Loop{
		Chunk:    func() error { return v.applyAndDeliver(one) },
		Idle:     v.sweep,
		Listened: func() bool { return v.listening.Load() > 0 },
	}
}

// applyAndDeliver applies a chunk of records, and delivers the news to the listeners.
func (v *View) applyAndDeliver(one func(uint64, *exchange.KeptEvent) error) error {
	v.feeding.Lock()
	defer v.feeding.Unlock()
	err := v.applyChunk(one)
	if err != nil {
		return err
	}
	for _, to := range v.due {
		to.deliver()
	}
	clear(v.due)
	v.due = v.due[:0]
	return nil
}

// applyChunk applies a chunk of records. If it fails or panics, the view has failed before mu is unlocked, so that no
// reader sees a part of a record.
func (v *View) applyChunk(one func(uint64, *exchange.KeptEvent) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := errPanicked
	defer func() {
		if err != nil {
			_ = v.fail(err)
		}
	}()
	err = v.records.Chunk(one)
	return err
}

// errPanicked is the error of a view until Run has the panic's.
var errPanicked = errors.New("a record could not be applied")

// fail records that the view has failed, and returns the error that Err returns from now on.
func (v *View) fail(err error) error {
	err = fmt.Errorf("accounts: %w", err)
	v.broken.Store(&err)
	return err
}

// applyRecord applies one record.
func (v *View) applyRecord(seq uint64, e *exchange.KeptEvent) error {
	v.at, v.event = seq, e.Event(&v.scratch)
	if err := v.apply(v.event); err != nil {
		return err
	}
	v.finish()
	v.pack()
	v.event = nil // the trail may use its memory again, or drop it
	v.seq.Store(seq)
	return nil
}

// end ends all listeners and waiting callers, because the view has ended.
func (v *View) end() {
	v.records.End()
	v.feeding.Lock()
	defer v.feeding.Unlock()
	v.ended = cmp.Or(v.Err(), errEnded)
	v.mu.RLock()
	watches, markets := slices.Collect(maps.Values(v.watches)), v.markets
	v.mu.RUnlock()
	for _, w := range watches {
		w.end(v.ended, v.options.Log)
	}
	for i := range markets {
		if b := markets[i].resting; b != nil {
			b.end(v.ended, v.options.Log)
		}
	}
}

// sweep drops events and resting orders that have been unused for watchedFor.
func (v *View) sweep(now time.Time) {
	if now.Sub(v.swept) < sweepTime {
		return
	}
	v.swept = now
	v.feeding.Lock()
	defer v.feeding.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, w := range v.watches {
		if w.holders > 0 || now.Before(w.until) {
			continue
		}
		for len(w.events) > 0 {
			v.kept.drop(w.events[0])
		}
		delete(v.watches, id)
		v.accounts[id].watch = nil
	}
	for i := range v.markets {
		if b := v.markets[i].resting; b != nil && len(b.readers) == 0 && !now.Before(b.until) {
			v.markets[i].resting = nil
		}
	}
}
