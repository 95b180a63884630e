package accounts

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"outcry/internal/exchange"
)

// Listener receives the events of an account. Its methods are called by the view's goroutine, one at a time. They must
// not block, and must not call Subscribe, ListenOrders or the leave functions that these return; they may call any
// other method of the View.
type Listener interface {
	// Event passes the next event. The event does not change and may be kept: all listeners get the same pointer.
	Event(e *exchange.AccountEvent)
	// Flush is called after one or more events, when no more follow immediately.
	Flush()
	// End is called when the view has ended, with the reason. No method is called after it.
	End(err error)
}

// Snapshot is the state of an account. The caller owns its memory.
type Snapshot struct {
	N, LastFill   uint64 // numbers of the newest event and of the newest fill; 0 if there is none
	Seq           uint64 // last record that the snapshot includes
	Balance, Held exchange.Cash
	Positions     []exchange.PositionView // non-empty positions, sorted by symbol
	Orders        []exchange.OrderDetail  // open orders, sorted by id
}

// Subscribe passes the events of an account to l until leave is called. Once leave has returned, no method of l is
// called any more. begin is called once before the first event and before Subscribe returns, under the rules for l's
// methods. It gets the state of the account or, if hasAfter and all events after number after are kept, these events,
// oldest first (perhaps none); the other argument is nil. The events passed to l continue from there without a gap or
// a repeat. Callers of Subscribe and of leave must not hold a lock that begin or l's methods wait for. The error is
// ErrUnknownAccount or wraps ErrUnavailable; begin was not called then.
func (v *View) Subscribe(
	id exchange.AccountID, after uint64, hasAfter bool, l Listener,
	begin func(snap *Snapshot, missed []*exchange.AccountEvent),
) (leave func(), err error) {
	v.feeding.Lock()
	defer v.feeding.Unlock()
	if err := v.lost(); err != nil {
		return nil, err
	}
	a, missed, w := v.subscribe(id, after, hasAfter)
	if w == nil {
		return nil, ErrUnknownAccount
	}
	r := &reader[*exchange.AccountEvent]{tell: l.Event, flush: l.Flush, end: l.End}
	w.readers = append(w.readers, r)
	v.listening.Add(1)
	v.records.Hurry()
	leave = sync.OnceFunc(func() {
		v.feeding.Lock()
		defer v.feeding.Unlock()
		v.unsubscribe(id, w, r)
	})
	begun := false
	defer func() {
		if !begun { // there is an error or a panic
			v.unsubscribe(id, w, r)
		}
	}()
	var snap *Snapshot
	if missed == nil {
		if snap, err = v.copyInParts(a, r); err != nil {
			return nil, err
		}
	}
	begin(snap, missed)
	passWaiting(v, r)
	begun = true
	return leave, nil
}

// unsubscribe removes a reader. Its caller holds feeding.
func (v *View) unsubscribe(id exchange.AccountID, w *watch, r *reader[*exchange.AccountEvent]) {
	w.remove(r)
	v.listening.Add(-1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.letGo(id, w)
}

// subscribe returns an account, and its watch with one more holder. The watch is nil if the account is unknown. missed
// is nil if not all events after number after are kept; the listener then begins with the state of the account.
func (v *View) subscribe(id exchange.AccountID, after uint64, hasAfter bool) (
	a *account, missed []*exchange.AccountEvent, w *watch,
) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a = v.accounts[id]; a == nil {
		return nil, nil, nil
	}
	w = v.hold(id)
	if hasAfter && after <= a.n {
		if missed, ok := w.after(after, a.n); ok {
			return a, missed, w
		}
	}
	return a, nil, w
}

// Watch makes the view keep the events of an account until release is called, and a few minutes longer. The account
// may not be open yet. Callers that want Did to return what a command does call Watch before they execute the command.
// Watch may be called more than once for an account, and release more than once.
func (v *View) Watch(id exchange.AccountID) (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.hold(id)
	if w == nil {
		return func() {}
	}
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.letGo(id, w)
	})
}

// hold returns the watch of an account, with one more holder. It returns nil if too many unopened accounts are
// watched. Its caller holds mu.
func (v *View) hold(id exchange.AccountID) *watch {
	w := v.watches[id]
	if w == nil {
		a := v.accounts[id]
		if a == nil && v.unopened >= unopenedMax {
			return nil
		}
		w = new(watch)
		if v.watches[id] = w; a != nil {
			a.watch = w
		} else {
			v.unopened++
		}
	}
	w.holders++
	return w
}

// letGo removes a holder. Its caller holds mu.
func (v *View) letGo(id exchange.AccountID, w *watch) {
	if w.holders--; w.holders > 0 {
		return
	}
	if w.until = time.Now().Add(watchedFor); v.accounts[id] == nil {
		delete(v.watches, id)
		v.unopened--
	}
}

// lost returns why the view has ended, wrapping ErrUnavailable; nil while it works. Its caller holds feeding.
func (v *View) lost() error {
	if err := cmp.Or(v.ended, v.Err()); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Account returns the state of an account without its orders, and seq, the last record that it includes. The error is
// ErrUnknownAccount or wraps ErrUnavailable.
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

// OpenOrders returns up to most open orders of an account, by id, from the first id above after on. If sym is not
// empty, it returns only the orders for that symbol. more reports whether there are further ones. seq is the last
// record that the orders include. The error is ErrUnknownAccount or ErrUnknownSymbol, or wraps ErrUnavailable.
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
			orders = append(orders, v.detail(o))
		}
		return !more
	})
	return orders, more, v.Seq(), nil
}
