package engine

import (
	"sync/atomic"

	"outcry/internal/exchange"
)

// desk owns one symbol: its book, and which of its closed orders are still in
// memory. Everything but inbox is touched by the desk's goroutine alone.
type desk struct {
	engine  *Engine
	inbox   chan *task
	symbol  exchange.Symbol
	listing *exchange.Listing // its contents are guarded by Engine.mu
	book    *exchange.Book
	closed  closedQueue

	closedCount atomic.Int64 // length of closed, for the sweeper to read

	// Memory that each command uses anew.
	order  *exchange.Order // for the next accepted order
	fills  []exchange.Fill
	event  exchange.Event
	record []byte
}

// execute does one command. An error is the journal's and final.
func (d *desk) execute(c *exchange.Command, r *exchange.Result, now int64) error {
	switch c.Kind {
	case exchange.PlaceOrder:
		return d.placeOrder(c, r, now)
	case exchange.CancelOrder:
		return d.cancelOrder(c, r, now)
	case exchange.PlaceShares:
		return d.placeShares(c, r, now)
	case exchange.QueryOrder:
		d.queryOrder(c, r)
	}
	return nil // MakeSymbol of a symbol that is there
}

// placeOrder is the route of an order: reserve, match, append, settle, reply.
func (d *desk) placeOrder(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if r.Reason = e.admit(); r.Reason != exchange.OK {
		return nil
	}
	o := d.reserve(c, r)
	if o == nil {
		return nil
	}
	// What the book has matched cannot be undone: room for all of it comes first.
	bytes := d.orderBytesMax(o)
	if ok, err := e.claim(bytes, r); !ok {
		d.withdraw(o)
		return err
	}
	o.ID = exchange.OrderID(e.lastOrder.Add(1))
	d.fills = d.book.Submit(o, now, d.fills[:0])

	d.event = exchange.Event{Kind: exchange.OrderAccepted, Time: now, Account: c.Account, Symbol: d.symbol,
		Order: o.ID, Side: o.Side, Shares: o.Shares, Limit: o.Limit, Fills: d.fills}
	seq, err := d.append(bytes)
	if err != nil {
		return err
	}
	e.settle(d.listing, o, d.fills)
	e.orders.add(o.ID, d)
	d.noteFills(o, seq)
	r.Order = o.ID
	return nil
}

// reserve takes the hold of a new order, or says in r why not and returns nil.
func (d *desk) reserve(c *exchange.Command, r *exchange.Result) *exchange.Order {
	if d.order == nil {
		d.order = new(exchange.Order)
	}
	e := d.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	account := e.ledger.Account(c.Account)
	if account == nil {
		r.Reason = exchange.UnknownAccount
		return nil
	}
	*d.order = *exchange.NewOrder(0, account, c.Side, c.Shares, c.Limit)
	for {
		r.Reason = e.ledger.Reserve(d.listing, d.order)
		if r.Reason != exchange.InsufficientFunds || !account.Unsettled() || e.stopping() {
			break
		}
		// What is missing is held by an order that has no place in the journal
		// yet. If the process died now it would never have been, and this
		// refusal could not be explained: wait the moment until it is settled.
		e.settled.Wait()
	}
	switch r.Reason {
	case exchange.OK:
		o := d.order
		d.order = nil
		return o
	case exchange.InsufficientFunds:
		r.CashHave, _ = account.Balance()
	case exchange.InsufficientShares:
		r.SharesHave, _ = d.listing.Position(account)
	}
	return nil
}

// orderBytesMax bounds the record of an order that is about to be submitted.
func (d *desk) orderBytesMax(o *exchange.Order) int {
	n := exchange.EventBytesMax
	for resting := range d.book.Matches(o) {
		n += exchange.FillBytesMax(resting.Account.ID)
	}
	return n
}

// withdraw takes back the hold of an order that finds no room.
func (d *desk) withdraw(o *exchange.Order) {
	e := d.engine
	e.mu.Lock()
	e.ledger.Withdraw(d.listing, o)
	e.settled.Broadcast()
	e.mu.Unlock()
	d.order = o
}

// settle moves what the fills say. The record has its place in the journal.
func (e *Engine) settle(li *exchange.Listing, o *exchange.Order, fills []exchange.Fill) {
	e.mu.Lock()
	e.ledger.Settle(li, o, fills)
	e.settled.Broadcast()
	e.mu.Unlock()
}

// append writes d.event into the journal, where bytes were claimed for it.
func (d *desk) append(bytes int) (uint64, error) {
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	return d.engine.append(d.record, bytes)
}

// noteFills counts what an accepted order did and remembers which orders it closed.
func (d *desk) noteFills(o *exchange.Order, seq uint64) {
	opened := int64(0)
	if o.Open > 0 {
		opened++
	} else {
		d.close(o.ID, seq)
	}
	for i := range d.fills {
		if id := d.fills[i].Resting; d.book.Find(id).Open == 0 {
			opened--
			d.close(id, seq)
		}
	}
	n := &d.engine.counters
	n.executions.Add(int64(len(d.fills)))
	if opened != 0 {
		n.openOrders.Add(opened)
	}
}

// cancelOrder takes an order out of the book, appends, and gives back its hold.
// It needs no admission, as it frees more than it takes; only where even the
// journal's reserve is used up it is refused.
func (d *desk) cancelOrder(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if !e.known(c.Account) {
		r.Reason = exchange.UnknownAccount
		return nil
	}
	if r.Reason = d.book.MayCancel(c.Order, c.Account); r.Reason != exchange.OK {
		if r.Reason == exchange.UnknownOrder {
			r.Reason = e.absent(c.Order) // it was forgotten on the way here
		}
		return nil
	}
	if ok, err := e.claimToCancel(exchange.EventBytesMax, r); !ok {
		return err
	}
	o, _ := d.book.Cancel(c.Order, c.Account, now)
	d.event = exchange.Event{Kind: exchange.OrderCanceled, Time: now, Account: c.Account, Symbol: d.symbol,
		Order: o.ID, Side: o.Side, Shares: o.Canceled, Limit: o.Limit}
	seq, err := d.append(exchange.EventBytesMax)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.ledger.Release(d.listing, o)
	e.mu.Unlock()
	e.counters.openOrders.Add(-1)
	d.close(o.ID, seq)
	r.Status = o.Status()
	return nil
}

func (d *desk) queryOrder(c *exchange.Command, r *exchange.Result) {
	if !d.engine.known(c.Account) {
		r.Reason = exchange.UnknownAccount
	} else if o := d.book.Find(c.Order); o == nil {
		r.Reason = d.engine.absent(c.Order) // it was forgotten on the way here
	} else {
		r.Status = o.Status()
	}
}

// placeShares checks, claims room, appends, and only then lets the shares be seen. Nobody
// else places this symbol's shares, so what was checked still holds after.
func (d *desk) placeShares(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if r.Reason = e.admit(); r.Reason != exchange.OK {
		return nil
	}
	e.mu.Lock()
	r.Reason = e.ledger.MayPlace(d.listing, c.Account, c.Placed)
	e.mu.Unlock()
	if r.Reason != exchange.OK {
		return nil
	}
	if ok, err := e.claim(exchange.EventBytesMax, r); !ok {
		return err
	}
	d.event = exchange.Event{Kind: exchange.SharesPlaced, Time: now, Symbol: d.symbol, Account: c.Account, Placed: c.Placed}
	if _, err := d.append(exchange.EventBytesMax); err != nil {
		return err
	}
	e.mu.Lock()
	e.ledger.Place(d.listing, c.Account, c.Placed)
	e.mu.Unlock()
	return nil
}
