package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"outcry/internal/exchange"
)

// CancelAll cancels all open orders of an account, or, if sym is not empty, its open orders
// of that symbol. It does so in one journal record, so all or nothing, and at one moment.
// The result is durable. Its Reason is OK, UnknownAccount, UnknownSymbol, NoRoomToCancel, or
// TooManyCancels if one record cannot hold all cancels; nothing has changed unless it is OK. The error is
// that of Halt.
func (e *Engine) CancelAll(
	ctx context.Context, account exchange.AccountID, sym exchange.Symbol,
) (exchange.CancelAllResult, error) {
	c, err := e.cancelAll(ctx, canceling{account: account, symbol: sym})
	if err != nil {
		return exchange.CancelAllResult{}, err
	}
	if e.failed.Load() {
		return exchange.CancelAllResult{}, fmt.Errorf("engine: %w", e.log.Err())
	}
	return c.result, e.Durable(ctx, e.mark(c.seq != 0))
}

// canceling describes what a cancelAll cancels, and why.
type canceling struct {
	account exchange.AccountID
	symbol  exchange.Symbol // empty for all symbols
	cause   exchange.CancelCause
	due     int64 // for BySwitch: when the switch fires; if its time was changed since, nothing is canceled

	// surveys holds the books that were searched before their shards are held, because they are too large to be
	// searched while other shards are held, or because Catchup has searched them already.
	surveys map[*shard]*survey
}

// inPieces reports whether cancels that do not fit into one record are spread over several. Only causes without a
// client do that: a client can cancel by symbol instead.
func (c *canceling) inPieces() bool {
	return c.cause == exchange.BySwitch || c.cause == exchange.ByBlock
}

// barrierTries is how many times a cancelAll tries to hold its shards. Before the last try, it lets all shards
// go if one is in the middle of a long order. In the last try it waits for that order.
const barrierTries = 8

// cancelAll is one try of a call of Engine.cancelAll. Books belong to their shards, so it uses a
// barrier: the caller's goroutine holds every shard in which the account has open orders,
// each between two of its commands. While all are held nothing trades there.
//
//	caller      hold ─────▶ all are held: record, append, release ──▶ let go ──▶ wait
//	each shard        find what is open ─▶ held ···················▶ cancel ─▶ continue
//
// The ledger knows which symbols these are. Once their shards are held, the account can open and
// close orders only in other symbols. If the ledger counts as many open orders as the shards have found,
// these are all. Otherwise there are further symbols, and their shards are held as well.
//
// It cannot deadlock. Only one cancelAll at a time holds shards (Engine.barrier), so no two ever
// hold some each and wait for the rest. A shard joins after its command in progress
// (inbox.offer), and that command waits only for the journal, never for another
// owner: a command that depends on another one goes back to its session (errAgain). A shard that is
// in the middle of a long order reports that between two parts. Then all shards are let go, and only
// this cancelAll waits for the end of that order. The last of barrierTries waits for it
// with the other shards held, and ends too: each shard that it waits for has one order
// to finish before it is held, and there are at most as many shards as symbols.
//
// A shard visits at most surveyMax orders to find those of the account while other shards are
// held. If its book has more, all shards are let go, and that book is surveyed first, a piece at a time
// between the shard's other tasks (cancelAll.survey). Once the shard is held, the survey still has
// all open orders of the account except those that arrived later. Their ids are above survey.after, and
// the survey leaves only about surveyMax such ids, of any symbol, to check.
type cancelAll struct {
	canceling
	engine *Engine
	owner  *exchange.Account

	held   []*heldShard
	event  exchange.Event
	seq    uint64 // seq of the last record, 0 if no record was appended
	work   int    // Event.Work of all records
	result exchange.CancelAllResult
}

// heldShard is a shard that a cancelAll holds. The shard's goroutine uses it until it is sent to
// arrived, and again once letGo is closed; the caller uses it in between.
type heldShard struct {
	task
	by      *cancelAll
	shard   *shard
	known   *survey           // earlier survey of its book, or nil; only the caller may use by.surveys
	patient bool              // wait for the end of a long order instead of reporting busy
	arrived chan<- *heldShard // receives this heldShard once the shard is held, or once busy or large is set
	letGo   <-chan struct{}   // closed when the cancelAll no longer holds shards

	busy    bool              // the shard is in the middle of a long order
	large   bool              // the shard's book must be surveyed first
	open    []exchange.Cancel // open orders of the account at the shard, in order of ids
	visited int               // orders visited while other shards are held

	refused exchange.RejectReason // why an unfinished order could not be finished first; OK if none is unfinished
	err     error                 // error of finishing it
}

// cancelAll repeats tries until one is complete, and returns it. If the error is ctx's, ErrStopped or errBusy,
// nothing was canceled; any other error is the journal's and final.
func (e *Engine) cancelAll(ctx context.Context, what canceling) (*cancelAll, error) {
	owner := e.account(what.account)
	_, made := e.shards.Load(what.symbol)
	switch {
	case owner == nil:
		return &cancelAll{result: exchange.CancelAllResult{Reason: exchange.UnknownAccount}}, nil
	case what.symbol != "" && !made:
		return &cancelAll{result: exchange.CancelAllResult{Reason: exchange.UnknownSymbol}}, nil
	}
	if what.surveys == nil {
		what.surveys = make(map[*shard]*survey)
	}
	for try := 1; ; {
		// Each try needs a new cancelAll: shards held by an earlier try may still use the old one.
		c := &cancelAll{canceling: what, engine: e, owner: owner}
		first, err := c.run(ctx, try == barrierTries)
		switch {
		case first == nil || err != nil:
			return c, err
		case first.large:
			err = c.survey(ctx, first.shard)
		default: // the call returns once the long order has ended
			try++
			err = e.call(ctx, &first.shard.inbox, func() error { return nil })
			clear(what.surveys) // with an old survey, every order that arrived since would be visited
		}
		if err != nil {
			return c, err
		}
	}
}

// run holds the shards and then cancels. If a shard must first be surveyed, or is in the middle of a long order and
// the run is not patient, run returns that shard and cancels nothing.
func (c *cancelAll) run(ctx context.Context, patient bool) (first *heldShard, err error) {
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
	first, err = c.hold(ctx, letGo, patient)
	if err == nil && first == nil {
		err = c.record()
		e.mu.Lock()
		e.canceling = nil
		e.mu.Unlock()
	}
	close(letGo)
	if err != nil || first != nil {
		return first, err // shards that arrive later see that letGo is closed
	}
	for _, h := range c.held {
		<-h.done
	}
	return nil, nil
}

// hold holds all shards in which the account has open orders, and sorts them by symbol. They continue once letGo is
// closed. If a shard must first be surveyed or finish a long order, hold returns it, see run.
func (c *cancelAll) hold(ctx context.Context, letGo <-chan struct{}, patient bool) (first *heldShard, err error) {
	for {
		more := c.toHold()
		if len(more) == 0 {
			slices.SortFunc(c.held, func(a, b *heldShard) int { return cmp.Compare(a.shard.symbol, b.shard.symbol) })
			return nil, nil
		}
		arrived := make(chan *heldShard, len(more))
		for _, d := range more {
			h := &heldShard{by: c, shard: d, known: c.surveys[d], patient: patient, arrived: arrived, letGo: letGo}
			h.task = task{request: h, done: make(chan struct{}, 1)}
			if err := d.inbox.offer(&h.task); err != nil {
				return nil, err
			}
		}
		for range more {
			select {
			case h := <-arrived:
				if h.busy || h.large {
					return h, nil
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

// toHold returns the shards that are still to be held. If there are none, it sets Engine.canceling: until the holds
// are released, each new order of the account waits with its session (shard.hold). So the record misses no order,
// and no order is rejected for lack of cash or shares that the record has already released.
func (c *cancelAll) toHold() (shards []*shard) {
	e, held, found := c.engine, make(map[*shard]bool, len(c.held)), 0
	for _, h := range c.held {
		held[h.shard] = true
		found += len(h.open)
	}
	var in []*exchange.Instrument
	e.mu.Lock()
	switch {
	case c.symbol == "" && c.owner.OpenOrders() != found:
		in = e.ledger.AppendOpenIn(in, c.owner)
	case c.symbol != "" && len(c.held) == 0:
		in = append(in, e.ledger.Instrument(c.symbol))
	default:
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

// do finds the open orders of the account, sends h to arrived, and blocks the shard's goroutine until letGo is closed.
// Because it blocks in this one place, the loop of an inbox needs no special case for held shards.
func (h *heldShard) do() error {
	select {
	case <-h.letGo:
		return nil // the try is over already
	default:
	}
	h.findOpen(h.by)
	h.arrived <- h
	if h.large {
		return nil
	}
	<-h.letGo
	h.cancel(h.by)
	return h.err
}

// answerMidOrder reports to the cancelAll that the shard is in the middle of a long order, unless the
// try is patient.
func (h *heldShard) answerMidOrder() bool {
	if h.patient {
		return false
	}
	h.busy = true
	h.arrived <- h
	return true
}

// findOpen finds the open orders of the account at the shard, after finishing an unfinished order there.
func (h *heldShard) findOpen(c *cancelAll) {
	d, known := h.shard, h.known
	if h.refused, h.err = d.finish(); h.err != nil || h.refused != exchange.OK {
		return
	}
	last := exchange.OrderID(c.engine.lastOrder.Load()) // no order of this book is newer; other symbols continue
	if known == nil {
		found, next := d.book.AppendOpenOf(nil, c.owner, 0, surveyMax)
		known, h.visited = &survey{found: found, after: last}, surveyMax
		// If the ledger counts no more open orders here than were found, the rest of the book needs no visit.
		if h.large = next != 0 && len(found) < c.openIn(d); h.large {
			return
		}
	}
	for _, id := range known.found {
		h.addIfOpen(c, id)
	}
	for id := known.after + 1; id <= last; id++ {
		h.addIfOpen(c, id)
	}
	slices.SortFunc(h.open, func(a, b exchange.Cancel) int { return a.Compare(&b) })
}

// openIn returns the ledger's count of open orders of the account at a shard. The shard must be between two
// commands.
func (c *cancelAll) openIn(d *shard) int {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return c.owner.OpenOrdersIn(d.instrument)
}

// addIfOpen adds an order to h.open if it belongs to the account and rests at the shard.
func (h *heldShard) addIfOpen(c *cancelAll, id exchange.OrderID) {
	h.visited++
	if o, found := h.shard.book.Find(id); found && o.Account == c.owner && o.Open > 0 {
		h.open = append(h.open,
			exchange.Cancel{Order: id, Symbol: h.shard.symbol, Terms: o.Terms, Shares: o.Open})
	}
}

// record appends one record of all cancels and releases the holds, all at once. If it cannot, the result holds the
// reason, and nothing changes. A cancel that is split may need several records, and the last of these may be refused.
func (c *cancelAll) record() error {
	e := c.engine
	var all []exchange.Cancel
	c.event = exchange.Event{Kind: exchange.OrdersCanceled, Time: e.options.Now(), Account: c.owner.ID}
	for _, h := range c.held {
		if h.err != nil || h.refused != exchange.OK {
			c.result.Reason = reasonForCancel(h.refused)
			return h.err
		}
		c.event.Time = h.shard.book.Moment(c.event.Time)
		all = append(all, h.open...)
	}
	done, err := c.append(all)
	if err != nil {
		e.setFailed()
		return err
	}
	c.result.Time = c.event.Time
	for _, h := range c.held {
		n := min(len(h.open), done)
		h.open = h.open[:n]
		if done -= n; n > 0 {
			c.result.Symbols = append(c.result.Symbols, h.sum())
		}
	}
	if c.result.Reason != exchange.OK && len(c.result.Symbols) == 0 {
		c.result.Time = 0
	}
	return nil
}

// append appends records for the cancels in all, and returns how many orders these records cover.
func (c *cancelAll) append(all []exchange.Cancel) (done int, err error) {
	e := c.engine
	if c.cause == exchange.BySwitch {
		e.switchMu.Lock()
		defer e.switchMu.Unlock()
		if e.dueOf(c.owner) != c.due {
			return 0, nil // the switch was armed again, or disarmed, while the shards were being held
		}
	} else if len(all) == 0 {
		return 0, nil
	}
	for most := len(all); ; {
		n := min(most, len(all)-done)
		ok, err := c.appendPiece(all[done:done+n], done+n == len(all))
		switch {
		case err != nil:
			return done, err
		case ok:
			if done += n; done == len(all) {
				return done, nil
			}
		case c.result.Reason == exchange.TooManyCancels && c.inPieces() && n > 1:
			c.result.Reason, most = exchange.OK, n/2
		default:
			return done, nil
		}
	}
}

// appendPiece appends one record and then releases all holds of its orders under one lock. If the journal
// refuses the record, ok is false and the result holds the reason.
func (c *cancelAll) appendPiece(piece []exchange.Cancel, last bool) (ok bool, err error) {
	e := c.engine
	c.event.Cancels, c.event.Cause = piece, c.cause
	if c.cause == exchange.BySwitch && !last {
		c.event.Cause = exchange.ByClient // a record BySwitch disarms the switch, which only the last one may do
	}
	record := exchange.AppendEvent(nil, &c.event)
	var refused exchange.Result
	if ok, err = e.claimToCancel(len(record), &refused); !ok {
		c.result.Reason = refused.Reason
		return false, err
	}
	if c.seq, err = e.append(&c.event, record, len(record)); err != nil {
		return false, err
	}
	c.work += c.event.Work()
	e.mu.Lock()
	defer e.mu.Unlock()
	var in *exchange.Instrument
	for i := range piece {
		o := &piece[i]
		if in == nil || in.Symbol != o.Symbol {
			in = e.ledger.Instrument(o.Symbol)
		}
		e.ledger.Release(in, &exchange.Order{Account: c.owner, Terms: o.Terms, Canceled: o.Shares})
	}
	if c.event.Cause == exchange.BySwitch {
		e.ledger.SetSwitch(c.owner, 0)
		e.keeper.arm(c.owner, 0)
	}
	return true, nil
}

// sum returns the number of orders and shares canceled at the shard.
func (h *heldShard) sum() exchange.CanceledIn {
	in := exchange.CanceledIn{Symbol: h.shard.symbol, Orders: len(h.open)}
	for i := range h.open {
		in.Shares = in.Shares.Add(h.open[i].Shares.Position())
	}
	return in
}

// cancel removes the orders from the shard's book, if a record was appended for them.
func (h *heldShard) cancel(c *cancelAll) {
	if c.seq == 0 || len(h.open) == 0 {
		return
	}
	d := h.shard
	d.book.Moment(c.event.Time)
	for i := range h.open {
		d.cancelOpen(h.open[i].Order, c.owner, c.event.Time)
	}
	d.closeCanceled(c.seq, len(h.open))
}

// surveyMax is how many orders of a book, resting or closed, a shard visits in one piece of work.
const surveyMax = 4096

// survey lists the open orders of an account in a book, found while no shard was held.
type survey struct {
	found []exchange.OrderID // unsorted; has all orders up to after that still rest, and some that have closed since
	after exchange.OrderID   // the last order id covered; orders with higher ids must be checked
}

// survey finds the account's open orders in a large book while no shard is held.
func (c *cancelAll) survey(ctx context.Context, d *shard) error {
	s := &survey{}
	for next := -1; next != 0; {
		err := c.engine.call(ctx, &d.inbox, func() error {
			if next < 0 {
				next, s.after = 0, exchange.OrderID(c.engine.lastOrder.Load())
			}
			s.found, next = d.book.AppendOpenOf(s.found, c.owner, next, surveyMax)
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.found = slices.DeleteFunc(s.found, func(id exchange.OrderID) bool { return id > s.after })
	for c.engine.lastOrder.Load()-uint64(s.after) > surveyMax {
		if err := c.engine.call(ctx, &d.inbox, func() error { c.catchUp(d, s); return nil }); err != nil {
			return err
		}
	}
	c.surveys[d] = s
	return nil
}

// catchUp adds to a survey the orders of the next surveyMax ids after it. Without it, all ids given out by any
// symbol during a long survey would have to be checked while other shards are held.
func (c *cancelAll) catchUp(d *shard, s *survey) {
	last := min(exchange.OrderID(c.engine.lastOrder.Load()), s.after+surveyMax)
	for s.after < last {
		s.after++
		if o, found := d.book.Find(s.after); found && o.Account == c.owner && o.Open > 0 {
			s.found = append(s.found, o.ID)
		}
	}
}
