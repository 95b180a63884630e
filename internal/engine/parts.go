package engine

import (
	"fmt"
	"math"
	"time"

	"outcry/internal/exchange"
)

// An order that meets more than exchange.FillsMax resting orders executes in parts, each a record of its own. Room for
// all of them is claimed before the first. Between two parts the shard only executes reads. The ledger is settled
// after each part, so that queries and sums are correct at any moment. Whether an order is unfinished follows from the
// book alone (Book.Unfinished). Before a shard changes anything else in such a book it finishes the order.

const (
	// partsUnsyncedMax is how many parts of an order may be appended but not on stable
	// storage. It limits how much of the journal's memory one order uses, and how long
	// records of other symbols wait for it.
	partsUnsyncedMax = 8

	// readsWait is how long reads wait at most while an order waits for the journal.
	readsWait = 5 * time.Millisecond
)

// orderClaim is the unused rest of the room that the journal has set aside for an order.
type orderClaim struct {
	parts int // number of records of an order in parts; 0 if the order is one record
	bytes int // size of each record
}

// claimOrder sets room aside for the records of d.order, whose hold is already reserved. A match in the book cannot be
// undone, so room for the largest possible records is claimed first. If ok is false, either the caller must try again
// once wait is closed, or r holds the reason. While the caller waits it gives the hold back, so that other orders of
// the account need not wait. An error is the journal's and final.
func (d *shard) claimOrder(claim *orderClaim, r *exchange.Result) (wait <-chan struct{}, ok bool, err error) {
	if claim.parts == 0 {
		bytes, whole := d.book.FillBytesMax(&d.order)
		if whole {
			claim.bytes = bytes + exchange.EventBytesMax
			ok, err = d.engine.claim(claim.bytes, r)
			return nil, ok, err
		}
	}
	return d.claimParts(claim, math.MaxInt, r)
}

// forgo ends the attempts to claim room for an order that is rejected before it gets room.
func (d *shard) forgo(claim *orderClaim) {
	if claim.parts > 0 {
		d.engine.log.Forgo()
	}
}

// recordTime returns the time of an order's record. An order in parts may have waited for room since now.
func (d *shard) recordTime(claim *orderClaim, now int64) int64 {
	if claim.parts > 0 {
		return d.book.Moment(d.engine.options.Now())
	}
	return now
}

// appendFirst appends d.event, the first record of d.order, or its only one.
func (d *shard) appendFirst(claim *orderClaim) (uint64, error) {
	if claim.parts > 0 {
		return d.appendPart(claim)
	}
	return d.append(claim.bytes)
}

// executeRest executes the further parts of d.order, if it has parts. It returns the seq of the order's last
// record; first is the seq of its first record. An error is that of continueOrder.
func (d *shard) executeRest(c *exchange.Command, claim *orderClaim, first uint64) (uint64, error) {
	if claim.parts == 0 {
		return first, nil
	}
	d.useRef(c)
	last, err := d.continueOrder(claim)
	if err != nil {
		return 0, err
	}
	if d.book.Unfinished() != 0 {
		panic("engine: an order is unfinished after the largest possible number of parts")
	}
	return max(first, last), nil
}

// useRef records that the ref of the command that made d.order is used, so that other commands with the ref need not
// wait for the order's further parts.
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

// finish finishes the order that a stop has left unfinished, if there is one; otherwise it costs
// almost nothing. If reason is not OK, the order cannot be finished now and nothing of the symbol
// may change: NoRoom, or TooManyFills if one part is larger than the
// journal accepts. If only all parts together are too many, as may happen to a book
// that has grown in larger segments, they are claimed in several steps, since the order has begun and
// cannot be rejected any more. An error is the journal's and final, or ErrStopped.
func (d *shard) finish() (reason exchange.RejectReason, err error) {
	defer func(work int) { d.inbox.work = work }(d.inbox.work) // it does not count as work of the current command
	for most := math.MaxInt; d.book.Unfinished() != 0; {
		d.order, _ = d.book.Find(d.book.Unfinished())
		var claim orderClaim
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

// claimParts sets room aside for all parts that d.order may need, or for the first most of them. If ok is false,
// either the caller must try again once wait is closed, or r holds the reason. An error is the journal's and final.
func (d *shard) claimParts(claim *orderClaim, most int, r *exchange.Result) (wait <-chan struct{}, ok bool, err error) {
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

// continueOrder executes the further parts of d.order, as far as the claim allows, and releases the rest of the claim.
// last is the seq of the last part, 0 if there was none. An error is the journal's and final, or ErrStopped; the order
// is then unfinished.
func (d *shard) continueOrder(claim *orderClaim) (last uint64, err error) {
	e, o := d.engine, &d.order
	defer func() { e.log.Unclaim(claim.parts, claim.bytes) }()
	var appended [partsUnsyncedMax]uint64
	for n := 0; claim.parts > 0 && d.book.Unfinished() != 0; n++ {
		if err := d.serveReads(); err != nil {
			return last, err
		}
		oldest := &appended[n%partsUnsyncedMax]
		if err := d.awaitSync(*oldest); err != nil {
			return last, err
		}
		before, open, now := len(o.Executions), o.Open, d.book.Moment(e.options.Now())
		d.fills = d.book.Continue(o, now, d.fills[:0])
		d.fillEvent(exchange.OrderContinued, o, open, now)
		d.event.Before, d.event.Fills = before, d.fills
		seq, err := d.appendPart(claim)
		if err != nil {
			return last, err
		}
		e.mu.Lock()
		e.ledger.SettleMore(d.instrument, o, d.fills)
		d.releaseOwn()
		e.mu.Unlock()
		d.countFills(seq, 0, 0)
		*oldest, last = seq, seq
	}
	return last, nil
}

// appendPart appends d.event to the journal as one part of the claim.
func (d *shard) appendPart(claim *orderClaim) (uint64, error) {
	claim.parts--
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	d.inbox.appended = true
	d.inbox.work += d.event.Work()
	return d.engine.appendMany(&d.event, d.record, claim.bytes)
}

// awaitRoom waits until wait is closed or readsWait is over, and then serves reads. The error is ErrStopped.
func (d *shard) awaitRoom(wait <-chan struct{}) error {
	err := d.await(wait)
	if err != nil {
		d.engine.log.Forgo()
	}
	return err
}

// awaitSync waits until record seq is on stable storage, which may take hours while the disk is
// full. During the wait it serves reads. The error is the journal's and final, or ErrStopped.
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

// await waits until wait has a value, but at most readsWait, and then calls serveReads.
func (d *shard) await(wait <-chan struct{}) error {
	timer := time.NewTimer(readsWait)
	defer timer.Stop()
	select {
	case <-wait:
	case <-timer.C:
	case <-d.engine.stop:
		return ErrStopped
	}
	return d.serveReads()
}

// betweenPartsMax is how many tasks a shard examines between two parts of an order.
const betweenPartsMax = 256

// serveReads serves other tasks between two parts of an order. Tasks that only read this symbol are
// executed: queries and liveness checks. All others are set aside, in order, until the order has
// ended. serveReads does not wait. The error is ErrStopped if the engine is being closed;
// the order then stays unfinished until the next start.
func (d *shard) serveReads() error {
	in := &d.inbox
	if in.engine.interrupted.Load() {
		return ErrStopped
	}
	in.answerMidOrder()
	for range betweenPartsMax {
		if len(in.kept) >= keptMax {
			return nil // no room to set tasks aside: they stay in the inbox
		}
		select {
		case t := <-in.tasks:
			if t != nil && !in.executeReads(t) {
				in.setAside(t)
			}
		default:
			return nil
		}
	}
	return nil
}

// answerMidOrder answers the requests that can be answered between two parts of an order, and leaves the
// others in the queue.
func (in *inbox) answerMidOrder() {
	if !in.hasRequests.Load() {
		return
	}
	in.mu.Lock()
	requests := in.requests
	in.requests = nil
	in.mu.Unlock()
	var later []*task
	for _, t := range requests {
		if t.request.answerMidOrder() {
			t.done <- struct{}{}
		} else {
			later = append(later, t)
		}
	}
	in.mu.Lock()
	in.requests = append(later, in.requests...)
	in.hasRequests.Store(len(in.requests) > 0)
	in.mu.Unlock()
}

// executeReads executes the commands of a task up to the first that may write to this owner's book.
// It returns false if there is such a command; otherwise it passes the task on.
func (in *inbox) executeReads(t *task) (passed bool) {
	t.clock.startWork()
	e, next := in.engine, in
	for next == in && t.next < len(t.commands) {
		c, r := &t.commands[t.next], &t.results[t.next]
		if c.Kind != exchange.QueryOrder && c.Kind != exchange.ShowOrder {
			t.clock.stopWork()
			return false
		}
		_ = in.owner.do(c, r, 0) // reads return no error and do not use the time
		t.appended = false
		if t.next++; t.next < len(t.commands) {
			next = e.owner(&t.commands[t.next].Command, &t.results[t.next], &t.refs)
		}
	}
	t.clock.stopWork()
	if !e.pass(t, next) {
		t.done <- struct{}{}
	}
	return true
}

// reasonForCancel converts the reason why an order is rejected into the one for a cancel or an operator's
// change: NoRoom becomes NoRoomToCancel.
func reasonForCancel(reason exchange.RejectReason) exchange.RejectReason {
	if reason == exchange.NoRoom {
		return exchange.NoRoomToCancel
	}
	return reason
}
