package engine

import (
	"cmp"
	"context"
	"slices"

	"outcry/internal/exchange"
)

// CancelAll cancels all that an account has open, or, where sym is not empty, all that
// it has open of that symbol. It happens in one journal record, so whole or not at
// all, and at one moment. The result may be told: it is durable. Its Reason is OK,
// UnknownAccount, UnknownSymbol, NoRoomToCancel, or TooManyCancels where one record
// cannot take it; only after OK has anything changed. The error is as Halt's.
func (e *Engine) CancelAll(ctx context.Context, account exchange.AccountID, sym exchange.Symbol) (exchange.CancelAllResult, error) {
	c := &cancelAll{engine: e, account: account, symbol: sym}
	if err := e.inside(ctx, e.registrar.inbox, c.run); err != nil {
		return exchange.CancelAllResult{}, err // the registrar may still write to c
	}
	return c.result, nil
}

// cancelAll is one call of CancelAll. Books belong to their desks, so it takes a
// barrier: the registrar, who runs it, holds every desk concerned between two of its
// tasks, and while all are held nothing trades there.
//
//	registrar   hold ─────▶ all are held: record, append, release ──▶ let go ──▶ wait
//	each desk        look up what is open ─▶ held ···················▶ cancel ─▶ on
//
// It cannot deadlock. Only the registrar holds desks, one cancelAll after another, so
// no two ever hold some desks each and wait for the rest. While it waits for a desk to
// take the task, that desk works off what is in its inbox, and what it can wait for
// there goes on without any desk that is held, and without the registrar:
//
//   - in claimRef, a ref that another owner has claimed and not used yet. A claim lives
//     within one command, so a desk that has one is not held, and has reserved nothing
//     that it does not settle; it waits for no other claim, only as below. The registrar
//     claims refs for commands, never while it holds desks.
//   - in reserve, an order that another desk has reserved and not settled yet. A desk
//     is held between two tasks, when all that it reserved is settled; the other one is
//     in the middle of a command, so it is not held, and what follows a reservation
//     waits for the journal alone.
//   - room in the journal, which its allocator and its flusher make.
//
// Desks never wait for the registrar: they pass tasks on only where there is room
// (Engine.pass). Sessions that wait for a full inbox hold nothing, and go on once the
// desks do. Close ends the registrar before any desk, and lets it do all that is in
// its inbox first (endOwners); so desks that are held are always let go.
type cancelAll struct {
	engine  *Engine
	account exchange.AccountID
	symbol  exchange.Symbol // empty for all

	owner  *exchange.Account
	event  exchange.Event
	seq    uint64 // of the record, 0 where there is none
	result exchange.CancelAllResult
}

// holding is a desk that a cancelAll holds. The desk's goroutine uses it until it is
// held, and again once it is let go; the registrar in between.
type holding struct {
	desk *desk
	task task
	open []exchange.Cancel // what the account has open there, in order of ids

	unfinished bool  // there is no room to finish an order first
	err        error // of finishing it
}

// run does it. The registrar calls it, so no symbol is made meanwhile. An error is the
// journal's and final.
func (c *cancelAll) run() error {
	e := c.engine
	e.mu.Lock()
	c.owner = e.ledger.Account(c.account)
	e.mu.Unlock()
	if c.owner == nil {
		c.result.Reason = exchange.UnknownAccount
		return nil
	}
	desks := *e.numbered.Load()
	if c.symbol != "" {
		d, ok := e.desks.Load(c.symbol)
		if !ok {
			c.result.Reason = exchange.UnknownSymbol
			return nil
		}
		desks = []*desk{d.(*desk)}
	}
	letGo := make(chan struct{})
	held := c.hold(desks, letGo)
	err := c.record(held)
	close(letGo)
	for _, h := range held {
		<-h.task.done
	}
	return err
}

// hold makes desks look up what the account has open, and holds them from then on
// until letGo is closed. It returns once it holds all, in order of their symbols.
func (c *cancelAll) hold(desks []*desk, letGo <-chan struct{}) []*holding {
	arrived := make(chan struct{}, len(desks))
	held := make([]*holding, len(desks))
	for i, d := range desks {
		h := &holding{desk: d}
		h.task.done = make(chan struct{}, 1)
		h.task.work = func() error {
			h.find(c.owner)
			arrived <- struct{}{}
			<-letGo
			h.cancel(c)
			return h.err
		}
		held[i] = h
		d.inbox <- &h.task
	}
	for range desks {
		<-arrived
	}
	slices.SortFunc(held, func(a, b *holding) int { return cmp.Compare(a.desk.symbol, b.desk.symbol) })
	return held
}

// find looks up what an account has open at the desk, once no order is unfinished there.
func (h *holding) find(owner *exchange.Account) {
	ok, err := h.desk.finish()
	if h.unfinished, h.err = !ok, err; !ok {
		return
	}
	for o := range h.desk.book.OpenOf(owner) {
		h.open = append(h.open, exchange.Cancel{Order: o.ID, Symbol: h.desk.symbol, Side: o.Side, Shares: o.Open, Limit: o.Limit})
	}
	slices.SortFunc(h.open, func(a, b exchange.Cancel) int { return a.Compare(&b) })
}

// record puts what is open into one record, appends it, and gives back the holds, all
// at once; or it says in the result why not, and nothing changes.
func (c *cancelAll) record(held []*holding) error {
	e := c.engine
	c.event = exchange.Event{Kind: exchange.OrdersCanceled, Time: e.options.Now(), Account: c.account}
	for _, h := range held {
		if h.unfinished {
			c.result.Reason = exchange.NoRoomToCancel
			return h.err
		}
		c.event.Time = h.desk.book.Moment(c.event.Time)
		c.event.Cancels = append(c.event.Cancels, h.open...)
	}
	if len(c.event.Cancels) > 0 {
		record := exchange.AppendEvent(nil, &c.event)
		var refused exchange.Result
		if ok, err := e.claimToCancel(len(record), &refused); !ok {
			c.result.Reason = refused.Reason
			return err
		}
		var err error
		if c.seq, err = e.append(record, len(record)); err != nil {
			return err
		}
		c.release(held)
	}
	c.result.Time = c.event.Time
	for _, h := range held {
		if len(h.open) > 0 {
			c.result.Symbols = append(c.result.Symbols, h.sum())
		}
	}
	return nil
}

// release gives back what the orders held, under one lock: nobody is refused an order
// for what the journal says is free.
func (c *cancelAll) release(held []*holding) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	for _, h := range held {
		for i := range h.open {
			o := &h.open[i]
			c.engine.ledger.Release(h.desk.listing, &exchange.Order{Account: c.owner, Side: o.Side, Limit: o.Limit, Canceled: o.Shares})
		}
	}
}

// sum returns what is canceled at the desk.
func (h *holding) sum() exchange.CanceledIn {
	in := exchange.CanceledIn{Symbol: h.desk.symbol, Orders: len(h.open)}
	for i := range h.open {
		in.Shares = in.Shares.Add(h.open[i].Shares.Position())
	}
	return in
}

// cancel takes the orders out of the desk's book, where the record has its place.
func (h *holding) cancel(c *cancelAll) {
	if c.seq == 0 || len(h.open) == 0 {
		return
	}
	d, n := h.desk, len(h.open)
	d.book.Moment(c.event.Time)
	for i := range h.open {
		if _, r := d.book.Cancel(h.open[i].Order, c.account, c.event.Time); r != exchange.OK {
			panic("engine: an order that was open is " + r.String()) // nobody else touches the book
		}
	}
	d.engine.counters.openOrders.Add(int64(-n))
	d.activity.cancels.Add(int64(n))
	d.close(c.seq, n)
}
