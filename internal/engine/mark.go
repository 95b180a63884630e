package engine

import (
	"context"
	"fmt"
)

// Mark is the condition that must hold before anything read up to some moment may be sent to a client: all records up
// to Seq are durable and, unless Round is 0, a log on several machines has confirmed that this machine was the leader
// after that moment. Round is 0 if the last action before the moment was to append one of those records: its
// durability confirms the leadership. An earlier append does not: after it this machine may have been stopped and
// replaced as leader before the read. The zero Mark always holds; it is for replies that reveal nothing of the
// exchange's state.
type Mark struct{ Seq, Round uint64 }

// mark returns the Mark of this moment. appended means that the caller has read nothing since it
// appended its last record.
func (e *Engine) mark(appended bool) Mark {
	m := Mark{Seq: e.log.Appended()}
	if e.durable.shared != nil && !appended {
		m.Round = e.durable.shared.Round()
	}
	return m
}

// Mark returns the mark of everything that the caller has read up to now and that may not be durable yet,
// such as Stats.
func (e *Engine) Mark() Mark { return e.mark(false) }

// Confirm waits until everything that the caller has read up to now may be sent, provided that each part was
// durable when it was read, as in Halts. On one machine it returns at once. The error is that of Durable.
func (e *Engine) Confirm(ctx context.Context) error {
	if e.durable.shared == nil {
		return nil
	}
	return e.Durable(ctx, Mark{Round: e.durable.shared.Round()})
}

// waitVisible waits until everything that the caller wrote or read is durable. The error is that of Durable, or the
// journal's if the engine has failed.
func (e *Engine) waitVisible(ctx context.Context) error {
	if e.failed.Load() {
		return fmt.Errorf("engine: %w", e.log.Err())
	}
	return e.Durable(ctx, e.mark(false))
}

// Durable waits until results returned with m may be sent: m holds in the log and, with
// AckPostgres, all records up to m.Seq are committed in Postgres. It returns the log's error,
// the projection's, or ctx's.
func (e *Engine) Durable(ctx context.Context, m Mark) error { return e.durable.wait(ctx, m) }

// Notify sends a value to wake once Durable(m) would not wait for the log. The send does not block, so the channel
// needs a capacity of 1 to miss nothing.
func (e *Engine) Notify(m Mark, wake chan<- struct{}) { e.durable.notify(m, wake) }

// IsDurable reports whether Durable(m) would return nil at once.
func (e *Engine) IsDurable(m Mark) bool { return e.durable.reached(m) }

// DurableSeq returns the seq up to which records are durable. It is for readers that may lag, such
// as market data, and that show the seq.
func (e *Engine) DurableSeq() uint64 { return e.durable.seq() }

// durability decides which records are visible: those that are synced in the log or, if it is Shared, confirmed, and
// with AckPostgres committed in Postgres. Replies wait until their records are visible; market data and operators see
// only visible records.
type durability struct {
	log        Log
	shared     Shared     // nil if the log is on one machine
	projection Projection // nil unless records must be in Postgres as well to be visible
}

// seq returns the seq up to which all records are durable.
func (d *durability) seq() uint64 {
	synced := d.log.Synced()
	if d.projection != nil {
		synced = min(synced, d.projection.Applied())
	}
	return synced
}

// reached reports whether m holds, so that wait(m) would return nil at once.
func (d *durability) reached(m Mark) bool {
	return d.seq() >= m.Seq && (d.shared == nil || d.shared.Confirmed(m.Seq, m.Round))
}

// wait waits until m holds, see Engine.Durable.
func (d *durability) wait(ctx context.Context, m Mark) (err error) {
	if d.shared != nil {
		err = d.shared.WaitConfirmed(ctx, m.Seq, m.Round)
	} else {
		err = d.log.Wait(ctx, m.Seq)
	}
	if err != nil || d.projection == nil {
		return err
	}
	return d.projection.WaitApplied(ctx, m.Seq)
}

// notify sends a value to wake once wait(m) would not wait for the log.
func (d *durability) notify(m Mark, wake chan<- struct{}) {
	if d.shared != nil {
		d.shared.NotifyConfirmed(m.Seq, m.Round, wake)
	} else {
		d.log.Notify(m.Seq, wake)
	}
}
