package accounts

import (
	"cmp"
	"maps"
	"slices"

	"outcry/internal/exchange"
)

// was is the state of accounts before a record.
type was struct {
	accounts map[exchange.AccountID]*exchange.AccountView
	fills    map[exchange.AccountID]int
	orders   map[exchange.OrderID]exchange.OrderDetail // open orders
}

// now returns the current state of the accounts that a record may change.
func (w *twin) now(e *exchange.Event) was {
	b := was{make(map[exchange.AccountID]*exchange.AccountView), make(map[exchange.AccountID]int),
		make(map[exchange.OrderID]exchange.OrderDetail)}
	for _, id := range w.ids {
		b.accounts[id], b.fills[id] = w.account(id), len(w.fills[id])
	}
	note := func(id exchange.OrderID) {
		if d := w.details[id]; d != nil && d.Open > 0 {
			b.orders[id] = *d
		}
	}
	if !w.named {
		for id := range w.details {
			note(id)
		}
		return b
	}
	for i := range e.Fills {
		note(e.Fills[i].Resting)
	}
	for i := range e.Own {
		note(e.Own[i].Order)
	}
	note(e.Order)
	return b
}

// follow updates the details of the orders that a record changes.
func (w *twin) follow(e *exchange.Event) {
	withdraw := func(id exchange.OrderID, why exchange.WhyCanceled) *exchange.OrderDetail {
		d := w.details[id]
		d.Canceled, d.Open, d.Changed, d.State, d.Why = d.Open, 0, e.Time, exchange.StatusCanceled, why
		return d
	}
	switch e.Kind {
	case exchange.OrderAccepted, exchange.OrderReplaced:
		d := &exchange.OrderDetail{ID: e.Order, Symbol: e.Symbol, Ref: e.Ref, Terms: e.Terms, Unsent: e.Unsent,
			OnDisconnect: e.OnDisconnect, Open: e.Shares, Time: e.Time, Changed: e.Time}
		if e.Kind == exchange.OrderReplaced {
			old := withdraw(e.Amend.Old.Order, exchange.NotCanceled)
			old.State, old.By = exchange.StatusReplaced, e.Order
			d.Ref, d.NewRef, d.Replaces, d.Before = "", e.Ref, old.ID, old.Before+old.Executed
		}
		w.details[e.Order] = d
	case exchange.OrderReduced:
		d := w.details[e.Order]
		if d.NewRef = e.Ref; e.Shares > 0 {
			d.Open, d.Reduced, d.Changed = d.Open-e.Shares, d.Reduced+e.Shares, e.Time
		}
	case exchange.OrderCanceled:
		withdraw(e.Order, exchange.CanceledByOwner)
	case exchange.OrdersCanceled:
		why := map[exchange.CancelCause]exchange.WhyCanceled{exchange.ByOperator: exchange.CanceledByOperator,
			exchange.ByClient: exchange.CanceledByOwner, exchange.ByDisconnect: exchange.CanceledDisconnect,
			exchange.BySwitch: exchange.CanceledTimer, exchange.ByBlock: exchange.CanceledByOperator}[e.Cause]
		for i := range e.Cancels {
			withdraw(e.Cancels[i].Order, why)
		}
	}
	for i := range e.Fills {
		f := &e.Fills[i]
		for _, id := range []exchange.OrderID{f.Resting, e.Order} {
			d := w.details[id]
			d.Open, d.Executed, d.Changed = d.Open-f.Shares, d.Executed+f.Shares, e.Time
			d.Notional = d.Notional.Add(exchange.Notional(f.Shares, f.Price))
			if d.Open == 0 {
				d.State = exchange.StatusExecuted
			}
		}
	}
	for i := range e.Own {
		withdraw(e.Own[i].Order, exchange.CanceledSTP)
	}
	if e.Rest > 0 {
		why := exchange.CanceledRest
		if e.TIF == exchange.GTC || e.STP == exchange.CancelBoth && len(e.Own) > 0 {
			why = exchange.CanceledSTP
		}
		withdraw(e.Order, why)
	}
}

// differs returns the event of each account that a record has changed, from the difference to the state before.
func (w *twin) differs(e *exchange.Event, before was) map[exchange.AccountID]*exchange.AccountEvent {
	all := make(map[exchange.AccountID]*exchange.AccountEvent)
	of := func(id exchange.AccountID) *exchange.AccountEvent {
		if all[id] == nil {
			all[id] = &exchange.AccountEvent{Account: id, Time: e.Time}
		}
		return all[id]
	}
	symbols := make(map[exchange.AccountID]map[exchange.Symbol]bool)
	touch := func(id exchange.AccountID, sym exchange.Symbol) {
		if symbols[id] == nil {
			symbols[id] = make(map[exchange.Symbol]bool)
		}
		symbols[id][sym] = true
	}
	changed := slices.Collect(maps.Keys(before.orders))
	if _, there := before.orders[e.Order]; !there && w.details[e.Order] != nil && e.Kind != exchange.OrderCanceled {
		changed = append(changed, e.Order)
	}
	slices.Sort(changed)
	for _, id := range changed {
		now, old := *w.details[id], before.orders[id]
		if old.NewRef = now.NewRef; now == old {
			continue // a used ref is not visible to the account
		}
		owner := w.owners[id]
		touch(owner, now.Symbol)
		of(owner).Orders = append(of(owner).Orders, exchange.OrderChange{OrderDetail: now, New: old.ID == 0,
			Own:      id == e.Order && e.Kind != exchange.OrderCanceled && e.Kind != exchange.OrderReduced,
			Withdrew: now.Canceled - old.Canceled, Less: now.Reduced - old.Reduced})
	}
	switch e.Kind {
	case exchange.AccountOpened:
		of(e.Account)
	case exchange.SharesDeposited:
		of(e.Account)
		touch(e.Account, e.Symbol)
	}
	for _, id := range w.ids {
		if fills := w.fills[id][before.fills[id]:]; len(fills) > 0 {
			of(id).Fills = slices.Clone(fills)
		}
		if event := all[id]; event != nil {
			w.n[id]++
			w.complete(event, symbols[id])
		}
	}
	return all
}

// complete adds the account's current balance and positions to an event.
func (w *twin) complete(e *exchange.AccountEvent, symbols map[exchange.Symbol]bool) {
	a := w.state.Ledger.Account(e.Account)
	e.N, e.LastFill = w.n[e.Account], uint64(len(w.fills[e.Account]))
	e.Balance, e.Held = a.Balance()
	for _, sym := range slices.Sorted(maps.Keys(symbols)) {
		p := exchange.PositionView{Symbol: sym}
		p.Shares, p.Held = w.state.Ledger.Instrument(sym).Position(a)
		e.Positions = append(e.Positions, p)
	}
}

// resting returns the resting orders of a symbol by priority, from the book of the State.
func (w *twin) resting(sym exchange.Symbol) (bids, asks []RestingOrder) {
	book := w.state.Books[sym]
	for o := range book.Orders() {
		switch one := (RestingOrder{o.ID, o.Limit, o.Open}); {
		case o.Open == 0 || o.ID == book.Unfinished():
		case o.Side == exchange.Buy:
			bids = append(bids, one)
		default:
			asks = append(asks, one)
		}
	}
	slices.SortFunc(bids, func(a, b RestingOrder) int {
		return cmp.Or(cmp.Compare(b.Price, a.Price), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(asks, func(a, b RestingOrder) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.ID, b.ID))
	})
	return bids, asks
}
