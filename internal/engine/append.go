package engine

import (
	"errors"
	"fmt"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
)

// admit returns OK, NoRoom or DatabaseBehind: whether commands that need further room in memory or
// journal are accepted now. Cancels and queries need no admission. It is an early check that avoids
// useless work; only claim is binding.
func (e *Engine) admit() exchange.RejectReason {
	switch {
	case e.log.Room() != nil:
		return exchange.NoRoom
	case e.lag() >= uint64(e.limits.backlog.Load()):
		return exchange.DatabaseBehind
	}
	return exchange.OK
}

// lag returns how many records the projection lags the journal.
func (e *Engine) lag() uint64 {
	if e.options.Projection == nil {
		return 0
	}
	applied, appended := e.options.Projection.Applied(), e.log.Appended()
	if applied >= appended {
		return 0
	}
	return appended - applied
}

// refuseUnreadable reports whether some node of the cluster could not read a record of version 4, and then rejects the
// command in r.
func (e *Engine) refuseUnreadable(r *exchange.Result) bool {
	if e.options.Readers == nil {
		return false
	}
	err := e.options.Readers()
	if err == nil {
		return false
	}
	r.Reason, r.Details = exchange.NotReadYet, &exchange.RejectDetails{Reason: err.Error()}
	return true
}

// claim sets room in the journal aside for the record of a command. After a successful claim the
// command must be executed: its record is appended with the claim. If the journal refuses, claim returns
// false and sets r.Reason to NoRoom or TooManyFills. An error is the journal's and final.
func (e *Engine) claim(bytes int, r *exchange.Result) (ok bool, err error) {
	return claimed(e.log.Claim(bytes), exchange.NoRoom, exchange.TooManyFills, r)
}

// claimToCancel is claim for cancels. It may also use the journal's reserve, and is refused with
// NoRoomToCancel once that is used up. A cancel of many orders may also be refused
// with TooManyCancels.
func (e *Engine) claimToCancel(bytes int, r *exchange.Result) (ok bool, err error) {
	return claimed(e.log.ClaimReserve(bytes), exchange.NoRoomToCancel, exchange.TooManyCancels, r)
}

// claimed evaluates the error of a claim. For a Refusal it sets r.Reason to noRoom or tooLarge and returns no
// error; it returns any other error.
func claimed(err error, noRoom, tooLarge exchange.RejectReason, r *exchange.Result) (ok bool, _ error) {
	if err == nil {
		return true, nil
	}
	refusal, ok := errors.AsType[Refusal](err)
	switch {
	case !ok:
		return false, fmt.Errorf("engine: %w", err)
	case refusal.NoRoom():
		r.Reason = noRoom
	default:
		r.Reason = tooLarge
	}
	return false, nil
}

// fillEvent fills d.event with an event of an order, without ref and fills.
func (d *shard) fillEvent(kind exchange.EventKind, o *exchange.Order, shares exchange.Shares, now int64) {
	d.event.Note(kind, o, d.symbol, shares, now)
	if kind == exchange.OrderCanceled || o.Plain() {
		return
	}
	d.event.NoteMore(o, d.book.Own())
	if kind != exchange.OrderContinued {
		d.event.Unsent, d.event.Hold = d.judged.unsent, d.book.HoldOf(o)
	}
}

// append appends d.event to the journal; bytes is the claimed size.
func (d *shard) append(bytes int) (uint64, error) {
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	d.inbox.appended = true
	d.inbox.work += d.event.Work()
	return d.engine.append(&d.event, d.record, bytes)
}

// append appends the record of an event to the journal, uses the room that was claimed for it, and puts the event on
// the trail. An error is final: the exchange has failed, and the contents of the record must not become visible.
func (e *Engine) append(event *exchange.Event, record []byte, claimed int) (uint64, error) {
	seq, err := e.log.AppendClaimed(record, claimed)
	return e.appended(event, seq, err)
}

// appendMany is append for one of the records of a ClaimMany.
func (e *Engine) appendMany(event *exchange.Event, record []byte, claimed int) (uint64, error) {
	seq, err := e.log.AppendMany(record, claimed)
	return e.appended(event, seq, err)
}

// appended puts the event of record seq on the trail, and returns the result of the append.
func (e *Engine) appended(event *exchange.Event, seq uint64, err error) (uint64, error) {
	if err != nil {
		return 0, fmt.Errorf("engine: %w", err)
	}
	if e.options.Trail != nil {
		if at := e.options.Trail.Place(seq); at.Value != nil {
			at.Value.Keep(event)
			at.Put()
		}
	}
	return seq, nil
}

// NewTrail returns a trail for the records that are appended to j from now on.
func NewTrail(j *journal.Journal) *trail.Trail[exchange.KeptEvent] {
	return trail.New(j, trail.Options[exchange.KeptEvent]{Decode: exchange.KeptDecoder, Extra: (*exchange.KeptEvent).Extra,
		Work: (*exchange.KeptEvent).Work, Recycle: (*exchange.KeptEvent).Recycle})
}
