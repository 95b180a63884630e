package accounts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"outcry/internal/exchange"
)

// ErrUnknownAccount and ErrUnknownSymbol say that the view, as it stands, has no such account or symbol.
// ErrUnavailable is wrapped by the errors that say that there is no view, or not in time.
var (
	ErrUnknownAccount = errors.New("accounts: there is no such account")
	ErrUnknownSymbol  = errors.New("accounts: there is no such symbol")
	ErrUnavailable    = errors.New("accounts: the view of accounts is not available")
)

// Listener is told the events of an account. Its methods are called by the view's goroutine, one at a time, and must
// not wait, nor call Subscribe, ListenOrders or what these return as leave; every other method of the View they may.
type Listener interface {
	// Event is told the next event, which does not change and may be kept: all listeners get the same pointer.
	Event(e *exchange.AccountEvent)
	// Flush is called after a step with events: nothing more comes at once.
	Flush()
	// End says that there is no view any more, and why. Nothing is called after it.
	End(err error)
}

// Snapshot is an account as it stands. Its memory is the reader's.
type Snapshot struct {
	N, LastFill   uint64 // of its newest event, and the number of its newest fill; 0 if there is none
	Seq           uint64 // the last record that it includes
	Balance, Held exchange.Cash
	Positions     []exchange.PositionView // sorted by symbol, without empty ones
	Orders        []exchange.OrderDetail  // open ones, by id
}

// Subscribe has l told the events of an account from now on, until leave is called: after that has returned, no method
// of l is called. First of all begin is called, once: with the account as it stands, or, if hasAfter, with the events
// after the number after, oldest first, which may be none, if all of them are kept. The other one is nil. The events
// that l is told follow without a gap, and nothing comes twice. begin is called as l's methods are, before Subscribe
// returns. Callers of Subscribe and of leave hold no lock that begin or l's methods wait for. The error is
// ErrUnknownAccount or wraps ErrUnavailable; then begin was not called.
func (v *View) Subscribe(
	id exchange.AccountID, after uint64, hasAfter bool, l Listener,
	begin func(snap *Snapshot, missed []*exchange.AccountEvent),
) (leave func(), err error) {
	v.feeding.Lock()
	defer v.feeding.Unlock()
	if err := v.lost(); err != nil {
		return nil, err
	}
	snap, missed, w := v.subscribe(id, after, hasAfter)
	if w == nil {
		return nil, ErrUnknownAccount
	}
	begin(snap, missed)
	r := &reader[*exchange.AccountEvent]{l.Event, l.Flush, l.End}
	w.readers = append(w.readers, r)
	v.listening.Add(1)
	v.pace.Hurry()
	return sync.OnceFunc(func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		w.remove(r)
		v.listening.Add(-1)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.letGo(id, w)
	}), nil
}

// subscribe returns what a listener begins with, and the account's watch, which it holds; nil if there is no such
// account.
func (v *View) subscribe(id exchange.AccountID, after uint64, hasAfter bool) (
	snap *Snapshot, missed []*exchange.AccountEvent, w *watch,
) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.accounts[id]
	if a == nil {
		return nil, nil, nil
	}
	w = v.hold(id)
	if hasAfter && after <= a.n {
		if missed, ok := w.after(after, a.n); ok {
			return nil, missed, w
		}
	}
	return v.snapshot(a), nil, w
}

// lost returns why there is no view any more, wrapping ErrUnavailable; nil while there is one. Its caller holds
// feeding.
func (v *View) lost() error {
	if err := cmp.Or(v.ended, v.Err()); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// end tells everybody that there is no view any more.
func (v *View) end() {
	v.pace.End()
	v.feeding.Lock()
	defer v.feeding.Unlock()
	v.ended = cmp.Or(v.Err(), errEnded)
	v.mu.RLock()
	watches, markets := slices.Collect(maps.Values(v.watches)), v.markets
	v.mu.RUnlock()
	for _, w := range watches {
		w.end(v.ended)
	}
	for i := range markets {
		if b := markets[i].resting; b != nil {
			b.end(v.ended)
		}
	}
}

// snapshot returns an account as it stands. Its caller holds mu.
func (v *View) snapshot(a *account) *Snapshot {
	snap := &Snapshot{N: a.n, LastFill: a.fills.count, Seq: v.Seq(), Balance: a.balance, Held: a.held,
		Positions: v.showPositions(a), Orders: make([]exchange.OrderDetail, 0, a.orders.len())}
	sortPositions(snap.Positions)
	a.orders.after(0, func(o *order) bool {
		snap.Orders = append(snap.Orders, o.detail(v.markets[o.symbol].name))
		return true
	})
	return snap
}

// Account returns an account as it stands, without its orders, and seq, the last record that it includes. The error is
// that of OpenOrders.
func (v *View) Account(id exchange.AccountID) (view *exchange.AccountView, seq uint64, err error) {
	if err := v.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	v.mu.RLock()
	if a := v.accounts[id]; a != nil {
		view, seq = v.showAccount(a), v.Seq()
	}
	v.mu.RUnlock()
	if view == nil {
		return nil, 0, ErrUnknownAccount
	}
	sortPositions(view.Positions)
	return view, seq, nil
}

// OpenOrders returns the open orders of an account above an id, of a symbol or, if that is empty, of all: at most so
// many, by id. more reports whether there are further ones. seq is the last record that they include.
// The error is ErrUnknownAccount or ErrUnknownSymbol, or wraps ErrUnavailable.
func (v *View) OpenOrders(id exchange.AccountID, sym exchange.Symbol, after exchange.OrderID, most int) (
	orders []exchange.OrderDetail, more bool, seq uint64, err error,
) {
	if err := v.Err(); err != nil {
		return nil, false, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	a := v.accounts[id]
	if a == nil {
		return nil, false, 0, ErrUnknownAccount
	}
	wanted, made := v.symbols[sym]
	if sym != "" && !made {
		return nil, false, 0, ErrUnknownSymbol
	}
	a.orders.after(after, func(o *order) bool {
		if sym != "" && o.symbol != wanted {
			return true
		}
		if more = len(orders) == most; !more {
			orders = append(orders, o.detail(v.markets[o.symbol].name))
		}
		return !more
	})
	return orders, more, v.Seq(), nil
}
