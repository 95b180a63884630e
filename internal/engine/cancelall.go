package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"outcry/internal/exchange"
)

// barrierTries is how often a cancelAll lets go of the shards that it holds because one is
// in the middle of a long order. The last time it waits for that one.
const barrierTries = 8

// CancelAll cancels all that an account has open, or, where sym is not empty, all that
// it has open of that symbol. It happens in one journal record, so whole or not at
// all, and at one moment. The result may be told: it is durable. Its Reason is OK,
// UnknownAccount, UnknownSymbol, NoRoomToCancel, or TooManyCancels where one record
// cannot take it; only after OK has anything changed. The error is as Halt's.
func (e *Engine) CancelAll(ctx context.Context, account exchange.AccountID, sym exchange.Symbol) (exchange.CancelAllResult, error) {
	c, err := e.cancelAll(ctx, account, sym)
	if err != nil {
		return exchange.CancelAllResult{}, err
	}
	if e.failed.Load() {
		return exchange.CancelAllResult{}, fmt.Errorf("engine: %w", e.journal.Err())
	}
	return c.result, e.Durable(ctx, e.journal.Appended())
}

// cancelAll is one try of a call of CancelAll. Books belong to their shards, so it takes a
// barrier: the caller's goroutine holds every shard in which the account has open orders,
// each between two of its commands, and while all are held nothing trades there.
//
//	caller      hold ─────▶ all are held: record, append, release ──▶ let go ──▶ wait
//	each shard        look up what is open ─▶ held ···················▶ cancel ─▶ on
//
// Which symbols these are the ledger knows. Once they are held the account can open and
// close orders elsewhere alone: if the ledger counts as many as the shards have found, they
// are all. Otherwise there are further symbols, and their shards are held as well.
//
// It cannot deadlock. One cancelAll at a time holds shards (Engine.barrier), so no two ever
// hold some each and wait for the rest. A shard comes to it after the command that it is in
// the middle of (inbox.putUrgent), and that waits for the journal alone, never for another
// owner: what hangs on another command goes back to its session (errAgain). A shard that is
// in the middle of a long order says so between two parts. Then all are let go, and only
// this cancelAll waits for the end of that order. The last of barrierTries waits for it
// with the others held, and comes to its end too: a shard that it waits for has one order
// to finish before it is held, and there are as many shards as symbols at the most.
type cancelAll struct {
	engine *Engine
	owner  *exchange.Account
	symbol exchange.Symbol // empty for all

	held   []*holding
	event  exchange.Event
	seq    uint64 // of the record, 0 where there is none
	result exchange.CancelAllResult
}

// holding is a shard that a cancelAll holds. The shard's goroutine uses it until it has
// arrived, and again once it is let go; the caller in between.
type holding struct {
	task
	shard *shard
	busy  bool              // the shard is in the middle of a long order
	open  []exchange.Cancel // what the account has open there, in order of ids

	unfinished bool  // there is no room to finish an order first
	err        error // of finishing it
}

// cancelAll does it, and returns the try that did. The error is ctx's, ErrStopped or
// errBusy, and then nothing was done; or the journal's, which is final.
func (e *Engine) cancelAll(ctx context.Context, account exchange.AccountID, sym exchange.Symbol) (*cancelAll, error) {
	e.mu.Lock()
	owner := e.ledger.Account(account)
	e.mu.Unlock()
	_, made := e.shards.Load(sym)
	switch {
	case owner == nil:
		return &cancelAll{result: exchange.CancelAllResult{Reason: exchange.UnknownAccount}}, nil
	case sym != "" && !made:
		return &cancelAll{result: exchange.CancelAllResult{Reason: exchange.UnknownSymbol}}, nil
	}
	for try := 1; ; try++ {
		// Shards that were held by an earlier try may still look at that.
		c := &cancelAll{engine: e, owner: owner, symbol: sym}
		busy, err := c.run(ctx, try == barrierTries)
		if busy == nil || err != nil {
			return c, err
		}
		// This is done there at the end of the long order.
		if err := e.urgently(ctx, &busy.inbox, func() error { return nil }); err != nil {
			return c, err
		}
	}
}

// run holds the shards, and then does it. It returns a shard that it would have had to wait
// for, unless it is patient, and then nothing was done.
func (c *cancelAll) run(ctx context.Context, patient bool) (busy *shard, err error) {
	e := c.engine
	select {
	case e.barrier <- struct{}{}:
		defer func() { <-e.barrier }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.stop:
		return nil, ErrStopped
	}
	letGo := make(chan struct{})
	busy, err = c.hold(ctx, letGo, patient)
	if err == nil && busy == nil {
		err = c.record()
		e.mu.Lock()
		e.canceling = nil
		e.mu.Unlock()
	}
	close(letGo)
	if err != nil || busy != nil {
		return busy, err // shards that are still to arrive find that it is over
	}
	for _, h := range c.held {
		<-h.done
	}
	return nil, nil
}

// hold holds all shards in which the account has open orders, in order of their symbols.
// They go on once letGo is closed.
func (c *cancelAll) hold(ctx context.Context, letGo <-chan struct{}, patient bool) (busy *shard, err error) {
	for {
		more := c.missing()
		if len(more) == 0 {
			slices.SortFunc(c.held, func(a, b *holding) int { return cmp.Compare(a.shard.symbol, b.shard.symbol) })
			return nil, nil
		}
		arrived := make(chan *holding, len(more))
		for _, d := range more {
			h := c.holding(d, arrived, letGo, patient)
			if _, err := d.inbox.putUrgent(&h.task, true); err != nil {
				return nil, err
			}
		}
		for range more {
			select {
			case h := <-arrived:
				if h.busy {
					return h.shard, nil
				}
				c.held = append(c.held, h)
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-c.engine.stop:
				return nil, ErrStopped
			}
		}
	}
}

// missing returns the shards that are still to be held: none once the account has no
// orders open beside those that were found. From then on, until the record has its place,
// it gets no others: each waits with its session (shard.reserve).
func (c *cancelAll) missing() (shards []*shard) {
	e, held, found := c.engine, make(map[*shard]bool, len(c.held)), 0
	for _, h := range c.held {
		held[h.shard] = true
		found += len(h.open)
	}
	var in []*exchange.Instrument
	e.mu.Lock()
	if c.symbol != "" {
		in = append(in, e.ledger.Instrument(c.symbol))
	} else if c.owner.OpenOrders() != found {
		in = e.ledger.AppendOpenIn(in, c.owner)
	} else {
		e.canceling = c.owner
	}
	e.mu.Unlock()
	for _, li := range in {
		if d, ok := e.shards.Load(li.Symbol); ok && !held[d.(*shard)] {
			shards = append(shards, d.(*shard))
		}
	}
	return shards
}

// holding returns what makes a shard look up what the account has open, say that it has
// arrived, and stay held until letGo is closed.
func (c *cancelAll) holding(d *shard, arrived chan<- *holding, letGo <-chan struct{}, patient bool) *holding {
	h := &holding{shard: d, task: task{done: make(chan struct{}, 1)}}
	h.work = func() error {
		select {
		case <-letGo:
			return nil // too late: it is over
		default:
		}
		h.find(c.owner)
		arrived <- h
		<-letGo
		h.cancel(c)
		return h.err
	}
	h.between = func() bool {
		if h.busy = !patient; h.busy {
			arrived <- h
		}
		return h.busy
	}
	return h
}

// find looks up what an account has open at the shard, once no order is unfinished there.
func (h *holding) find(owner *exchange.Account) {
	ok, err := h.shard.finish()
	if h.unfinished, h.err = !ok, err; !ok {
		return
	}
	for o := range h.shard.book.OpenOf(owner) {
		h.open = append(h.open, exchange.Cancel{Order: o.ID, Symbol: h.shard.symbol, Side: o.Side, Shares: o.Open, Limit: o.Limit})
	}
	slices.SortFunc(h.open, func(a, b exchange.Cancel) int { return a.Compare(&b) })
}

// record puts what is open into one record, appends it, and gives back the holds, all
// at once; or it says in the result why not, and nothing changes.
func (c *cancelAll) record() error {
	e := c.engine
	c.event = exchange.Event{Kind: exchange.OrdersCanceled, Time: e.options.Now(), Account: c.owner.ID}
	for _, h := range c.held {
		if h.unfinished {
			c.result.Reason = exchange.NoRoomToCancel
			return h.err
		}
		c.event.Time = h.shard.book.Moment(c.event.Time)
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
			e.giveUp()
			return err
		}
		c.release()
	}
	c.result.Time = c.event.Time
	for _, h := range c.held {
		if len(h.open) > 0 {
			c.result.Symbols = append(c.result.Symbols, h.sum())
		}
	}
	return nil
}

// release gives back what the orders held, under one lock: nobody is refused an order
// for what the journal says is free.
func (c *cancelAll) release() {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	for _, h := range c.held {
		for i := range h.open {
			o := &h.open[i]
			c.engine.ledger.Release(h.shard.instrument, &exchange.Order{Account: c.owner, Side: o.Side, Limit: o.Limit, Canceled: o.Shares})
		}
	}
}

// sum returns what is canceled at the shard.
func (h *holding) sum() exchange.CanceledIn {
	in := exchange.CanceledIn{Symbol: h.shard.symbol, Orders: len(h.open)}
	for i := range h.open {
		in.Shares = in.Shares.Add(h.open[i].Shares.Position())
	}
	return in
}

// cancel takes the orders out of the shard's book, where the record has its place.
func (h *holding) cancel(c *cancelAll) {
	if c.seq == 0 || len(h.open) == 0 {
		return
	}
	d, n := h.shard, len(h.open)
	d.book.Moment(c.event.Time)
	for i := range h.open {
		if _, r := d.book.Cancel(h.open[i].Order, c.owner.ID, c.event.Time); r != exchange.OK {
			panic("engine: an order that was open is " + r.String()) // nobody else touches the book
		}
	}
	d.engine.counters.openOrders.Add(int64(-n))
	d.activity.cancels.Add(int64(n))
	d.close(c.seq, n)
}
