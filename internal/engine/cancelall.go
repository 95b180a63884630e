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

// canceling says what a cancelAll is to cancel, and why.
type canceling struct {
	account exchange.AccountID
	symbol  exchange.Symbol // empty for all
	cause   exchange.CancelCause
	due     int64 // of the switch, BySwitch: nothing is done if it is set to another time meanwhile

	// surveys are of books that are too large to be searched while others are held, or that are known already; nil
	// if there are none.
	surveys map[*shard]*survey
}

// inPieces reports whether what does not fit into one record is canceled in several: nobody asked
// for it, so nobody can ask for less.
func (c *canceling) inPieces() bool {
	return c.cause == exchange.BySwitch || c.cause == exchange.ByBlock
}

// cancelAll is one try of a call of CancelAll. Books belong to their shards, so it takes a
// barrier: the caller's goroutine holds every shard in which the account has open orders,
// each between two of its commands, and while all are held nothing trades there.
//
//	caller      hold ─────▶ all are held: record, append, release ──▶ let go ──▶ wait
//	each shard        find what is open ─▶ held ···················▶ cancel ─▶ on
//
// Which symbols these are the ledger knows. Once they are held the account can open and
// close orders elsewhere alone: if the ledger counts as many as the shards have found, they
// are all. Otherwise there are further symbols, and their shards are held as well.
//
// It cannot deadlock. One cancelAll at a time holds shards (Engine.barrier), so no two ever
// hold some each and wait for the rest. A shard comes to it after the command that it is in
// the middle of (inbox.offer), and that waits for the journal alone, never for another
// owner: what hangs on another command goes back to its session (errAgain). A shard that is
// in the middle of a long order says so between two parts. Then all are let go, and only
// this cancelAll waits for the end of that order. The last of barrierTries waits for it
// with the others held, and comes to its end too: a shard that it waits for has one order
// to finish before it is held, and there are as many shards as symbols at the most.
//
// A shard visits no more than surveyMax orders to find those of the account while others are
// held. If its book has more, all are let go, and that book is surveyed first, a piece at a time
// between the shard's other tasks (cancelAll.survey). Once the shard is held, what the survey
// has found is still all that there is, except orders that came since: their ids are above
// those that it knows of, and some surveyMax of them at the most, of any symbol, are left then.
type cancelAll struct {
	canceling
	engine *Engine
	owner  *exchange.Account

	held   []*heldShard
	event  exchange.Event
	seq    uint64 // of the record, 0 where there is none
	result exchange.CancelAllResult
}

// heldShard is a shard that a cancelAll holds. The shard's goroutine uses it until it has
// arrived, and again once it is let go; the caller in between.
type heldShard struct {
	task
	by      *cancelAll
	shard   *shard
	known   *survey           // of its book, nil if there is none; surveys is the caller's alone
	patient bool              // it waits for the end of a long order
	arrived chan<- *heldShard // takes it once it is held, or says why it is not
	letGo   <-chan struct{}   // closed when it is over

	busy    bool              // the shard is in the middle of a long order
	large   bool              // its book has to be surveyed first
	open    []exchange.Cancel // what the account has open there, in order of ids
	visited int               // orders that were visited while others were held

	refused exchange.RejectReason // of finishing an order first; OK if nothing is unfinished
	err     error                 // of finishing it
}

// cancelAll does it, and returns the try that did. The error is ctx's, ErrStopped or
// errBusy, and then nothing was done; or the journal's, which is final.
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
		// Shards that were held by an earlier try may still refer to that.
		c := &cancelAll{canceling: what, engine: e, owner: owner}
		first, err := c.run(ctx, try == barrierTries)
		switch {
		case first == nil || err != nil:
			return c, err
		case first.large:
			err = c.survey(ctx, first.shard)
		default: // this is done there at the end of the long order
			try++
			err = e.call(ctx, &first.shard.inbox, func() error { return nil })
			clear(what.surveys) // every order that came meanwhile would be visited
		}
		if err != nil {
			return c, err
		}
	}
}

// run holds the shards, and then does it. If one of them needs something first, run returns
// that one and nothing was done: its book has to be surveyed, or, unless the run is
// patient, it is in the middle of a long order.
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
		return first, err // shards that are still to arrive find that it is over
	}
	for _, h := range c.held {
		<-h.done
	}
	return nil, nil
}

// hold holds all shards in which the account has open orders, in order of their symbols.
// They go on once letGo is closed. It returns the shard that needs something first, see run.
func (c *cancelAll) hold(ctx context.Context, letGo <-chan struct{}, patient bool) (first *heldShard, err error) {
	for {
		more := c.missing()
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

// do looks up what the account has open, says that the shard has arrived, and holds it
// until letGo is closed: in this one place a goroutine is stopped, so that the loop of an
// inbox need not know of shards that are held.
func (h *heldShard) do() error {
	select {
	case <-h.letGo:
		return nil // too late: it is over
	default:
	}
	h.find(h.by)
	h.arrived <- h
	if h.large {
		return nil
	}
	<-h.letGo
	h.cancel(h.by)
	return h.err
}

// amid says that the shard is in the middle of a long order, unless the cancelAll waits for
// the end of that.
func (h *heldShard) amid() bool {
	if h.patient {
		return false
	}
	h.busy = true
	h.arrived <- h
	return true
}

// find looks up what the account has open at the shard, once no order is unfinished there.
func (h *heldShard) find(c *cancelAll) {
	d, known := h.shard, h.known
	if h.refused, h.err = d.finish(); h.err != nil || h.refused != exchange.OK {
		return
	}
	last := exchange.OrderID(c.engine.lastOrder.Load()) // of this book; other symbols go on
	if known == nil {
		found, next := d.book.AppendOpenOf(nil, c.owner, 0, surveyMax)
		known, h.visited = &survey{found: found, after: last}, surveyMax
		// Further places need no visit if the ledger knows of no other order.
		if h.large = next != 0 && len(found) < c.openIn(d); h.large {
			return
		}
	}
	for _, id := range known.found {
		h.note(c, id)
	}
	for id := known.after + 1; id <= last; id++ {
		h.note(c, id)
	}
	slices.SortFunc(h.open, func(a, b exchange.Cancel) int { return a.Compare(&b) })
}

// note enters an order if it is one of the account's that rests at the shard.
func (h *heldShard) note(c *cancelAll, id exchange.OrderID) {
	h.visited++
	if o, found := h.shard.book.Find(id); found && o.Account == c.owner && o.Open > 0 {
		h.open = append(h.open,
			exchange.Cancel{Order: id, Symbol: h.shard.symbol, Terms: o.Terms, Shares: o.Open})
	}
}

// sum returns what is canceled at the shard.
func (h *heldShard) sum() exchange.CanceledIn {
	in := exchange.CanceledIn{Symbol: h.shard.symbol, Orders: len(h.open)}
	for i := range h.open {
		in.Shares = in.Shares.Add(h.open[i].Shares.Position())
	}
	return in
}

// cancel takes the orders out of the shard's book, where the record has its place.
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
