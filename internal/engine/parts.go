package engine

import (
	"fmt"
	"math"
	"time"

	"outcry/internal/exchange"
)

// An order that meets more than exchange.FillsMax resting orders executes in parts, each
// a record. Room for all of them is claimed before the first. Between two parts nothing
// happens at the shard but reads; the ledger is settled after each, so that a query or a
// sum is right at any moment. What is unfinished follows from the book alone
// (Book.Unfinished): a shard that comes to such a book finishes it first.

const (
	// partsUnsyncedMax is how many parts of an order may be appended and not on stable
	// storage: so one order takes little of the journal's memory, and other symbols'
	// records do not wait behind all of it.
	partsUnsyncedMax = 8

	// readsWait is how long reads wait at the most while an order waits for the journal.
	readsWait = 5 * time.Millisecond
)

// partsClaim is what is left of the room that an order has claimed.
type partsClaim struct{ parts, bytes int }

// placeInParts is placeOrder for an order that does not fit into one part. d.order has
// its hold. While segments are made for it, it holds nothing: other orders of its account
// need not wait.
func (d *shard) placeInParts(c *Request, r *exchange.Result) error {
	e, o := d.engine, &d.order
	var claim partsClaim
	for {
		wait, ok, err := d.claimParts(&claim, math.MaxInt, r)
		if ok {
			break
		}
		d.withdraw(o)
		if err != nil || wait == nil {
			return err
		}
		if err := d.awaitRoom(wait); err != nil {
			return err
		}
		if !d.reserve(&c.Command, r) {
			e.log.Forgo()
			return nil
		}
	}
	d.enter(&c.Command, d.book.Moment(e.options.Now()))
	seq, err := d.appendPart(&claim)
	if err != nil {
		return err
	}
	d.settle()
	d.noteFills(seq, 1)
	d.useRef(&c.Command)
	last, err := d.continueOrder(&claim)
	if err != nil {
		return err
	}
	r.Seq = max(seq, last)
	if d.book.Unfinished() != 0 {
		panic("engine: an order has more parts than it can have")
	}
	d.placed(c, r)
	return nil
}

// useRef notes that the ref of the command that made d.order is used: nobody need wait for its other parts to
// know that.
func (d *shard) useRef(c *exchange.Command) {
	ref := newRef(c)
	if ref == "" {
		return
	}
	use := c.Use()
	use.Order = d.order.ID
	if a := use.Amend; a != nil {
		use.Symbol, a.First, a.Named, a.By = d.symbol, d.old.First(), d.old.ID, d.order.ID
	}
	d.engine.mu.Lock()
	d.engine.refs.table.Add(d.order.Account, ref, use)
	d.engine.mu.Unlock()
}

// claimParts sets room aside for what d.order can come to, or for the first most parts of
// it. Otherwise wait says when to try again, or r why not. An error is the journal's and
// final.
func (d *shard) claimParts(claim *partsClaim, most int, r *exchange.Result) (wait <-chan struct{}, ok bool, err error) {
	e := d.engine
	e.mu.Lock()
	digits := e.ledger.AccountDigits()
	e.mu.Unlock()
	claim.parts, claim.bytes = d.book.PartsMax(&d.order, digits)
	claim.parts = min(claim.parts, most)
	wait, err = e.log.ClaimMany(claim.parts, claim.bytes)
	if wait != nil {
		return wait, false, nil
	}
	ok, err = claimed(err, exchange.NoRoom, exchange.TooManyFills, r)
	return nil, ok, err
}

// awaitRoom waits for room, while reads go on. It returns ErrStopped, or nil.
func (d *shard) awaitRoom(wait <-chan struct{}) error {
	err := d.await(wait)
	if err != nil {
		d.engine.log.Forgo()
	}
	return err
}

// awaitSync waits until record seq is on stable storage, while reads go on: the disk may be
// full for hours. The error is the journal's and final, or ErrStopped.
func (d *shard) awaitSync(seq uint64) error {
	log := d.engine.log
	if log.Synced() >= seq {
		return nil
	}
	wake := make(chan struct{}, 1)
	log.Notify(seq, wake)
	for log.Synced() < seq {
		if err := log.Err(); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		if err := d.await(wake); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a moment, or less once wait has a value, and gives way.
func (d *shard) await(wait <-chan struct{}) error {
	timer := time.NewTimer(readsWait)
	defer timer.Stop()
	select {
	case <-wait:
	case <-timer.C:
	case <-d.engine.stop:
		return ErrStopped
	}
	return d.giveWay()
}

// appendPart writes d.event into the journal, with a part's share of the claim.
func (d *shard) appendPart(claim *partsClaim) (uint64, error) {
	claim.parts--
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	d.inbox.appended = true
	seq, err := d.engine.log.AppendMany(d.record, claim.bytes)
	if err != nil {
		return 0, fmt.Errorf("engine: %w", err)
	}
	return seq, nil
}

// continueOrder executes the further parts of d.order, as far as the claim reaches, and
// gives back what is left of it. last is the seq of the last part, 0 if there was none. An error is the journal's and
// final, or ErrStopped: then the order is unfinished.
func (d *shard) continueOrder(claim *partsClaim) (last uint64, err error) {
	e, o := d.engine, &d.order
	defer func() { e.log.Unclaim(claim.parts, claim.bytes) }()
	var appended [partsUnsyncedMax]uint64
	for n := 0; claim.parts > 0 && d.book.Unfinished() != 0; n++ {
		if err := d.giveWay(); err != nil {
			return last, err
		}
		oldest := &appended[n%partsUnsyncedMax]
		if err := d.awaitSync(*oldest); err != nil {
			return last, err
		}
		before, open, now := len(o.Executions), o.Open, d.book.Moment(e.options.Now())
		d.fills = d.book.Continue(o, now, d.fills[:0])
		d.noteOrder(exchange.OrderContinued, o, open, now)
		d.event.Before, d.event.Fills = before, d.fills
		seq, err := d.appendPart(claim)
		if err != nil {
			return last, err
		}
		e.mu.Lock()
		e.ledger.SettleMore(d.instrument, o, d.fills)
		e.ledger.ReleaseOwn(d.instrument, o.Account, d.book.Own())
		e.mu.Unlock()
		d.noteFills(seq, 0)
		*oldest, last = seq, seq
	}
	return last, nil
}

// finish finishes the order that a start, or a stop, has left unfinished; it costs
// nothing if there is none. reason says why that is not possible now, and then nothing of
// the symbol may change: NoRoom, or TooManyFills if one of its parts is larger than the
// journal takes. If it takes the parts and not all at once, which a book may come to that
// has grown in larger segments, they are claimed in several goes: the order has begun and
// cannot be refused any more. An error is the journal's and final, or ErrStopped.
func (d *shard) finish() (reason exchange.RejectReason, err error) {
	for most := math.MaxInt; d.book.Unfinished() != 0; {
		d.order, _ = d.book.Find(d.book.Unfinished())
		var claim partsClaim
		var r exchange.Result
		wait, ok, err := d.claimParts(&claim, most, &r)
		switch {
		case ok:
			_, err = d.continueOrder(&claim)
		case wait != nil:
			err = d.awaitRoom(wait)
		case err == nil && r.Reason == exchange.TooManyFills && claim.parts > 1:
			most = claim.parts / 2
		case err == nil:
			return r.Reason, nil
		}
		if err != nil {
			return exchange.OK, err
		}
	}
	return exchange.OK, nil
}

// ofCancel returns the reason for which a cancel, or an operator, is refused if an order is
// refused for this one.
func ofCancel(reason exchange.RejectReason) exchange.RejectReason {
	if reason == exchange.NoRoom {
		return exchange.NoRoomToCancel
	}
	return reason
}

// finishFirst has a shard whose book has an unfinished order finish it before anything
// else. If there is no room for that, the next command tries again.
func (e *Engine) finishFirst(d *shard) {
	if d.book.Unfinished() == 0 {
		return
	}
	t := &task{done: make(chan struct{}, 1), request: &call{work: func() error {
		_, err := d.finish()
		return err
	}}}
	_ = d.inbox.offer(t) // nothing is in the inbox yet
}
