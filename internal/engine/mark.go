package engine

import "context"

// Mark says what has to be so before anything may be told that was read up to some moment:
// each record up to Seq is durable and, unless Round is 0, a log on several machines has
// confirmed that this one led after that moment. Round is 0 if the last thing that was done
// before the moment was to append one of those records: as it becomes durable, that is
// confirmed. An earlier append does not do: the machine may have been stopped, and another one
// have gone on, before what was read after it. The zero Mark is that of what reveals nothing.
type Mark struct{ Seq, Round uint64 }

// mark returns the Mark of this moment. appended reports whether nothing was read since the
// caller's last record was appended.
func (e *Engine) mark(appended bool) Mark {
	m := Mark{Seq: e.log.Appended()}
	if e.durable.shared != nil && !appended {
		m.Round = e.durable.shared.Round()
	}
	return m
}

// Mark returns the mark of all that its callers have read up to now of what may be told only
// when it is durable, such as Stats.
func (e *Engine) Mark() Mark { return e.mark(false) }

// Confirm waits until what its callers have read up to now may be told, if each part of it
// was durable when it was read, such as Halts: on one machine that is at once. The error is that
// of Durable.
func (e *Engine) Confirm(ctx context.Context) error {
	if e.durable.shared == nil {
		return nil
	}
	return e.Durable(ctx, Mark{Round: e.durable.shared.Round()})
}

// Durable waits until what m was returned with may be told: the log says so and, with
// AckPostgres, everything up to m.Seq is committed in Postgres. It returns the log's error,
// the projection's, or ctx's.
func (e *Engine) Durable(ctx context.Context, m Mark) error { return e.durable.wait(ctx, m) }

// Notify sends to wake once Durable(m) does not wait for the log any more. It does not wait
// for wake to take the value: a channel with room for one misses nothing.
func (e *Engine) Notify(m Mark, wake chan<- struct{}) { e.durable.notify(m, wake) }

// MayTell reports whether Durable(m) would return nil at once.
func (e *Engine) MayTell(m Mark) bool { return e.durable.reached(m) }

// DurableSeq returns the seq up to which records are durable: it is for what may lag, such
// as market data, and says so.
func (e *Engine) DurableSeq() uint64 { return e.durable.seq() }

// durability is the one place that knows what may be told: what is synced in the log or, if
// that is Shared, confirmed, and with AckPostgres committed in Postgres. Replies wait for it,
// market data and operators see nothing beyond it.
type durability struct {
	log        Log
	shared     Shared     // nil if the log is on one machine
	projection Projection // nil unless what is told is to be in Postgres as well
}

// seq returns the seq up to which everything is durable.
func (d *durability) seq() uint64 {
	synced := d.log.Synced()
	if d.projection != nil {
		synced = min(synced, d.projection.Applied())
	}
	return synced
}

// reached reports whether wait(m) would return nil at once.
func (d *durability) reached(m Mark) bool {
	return d.seq() >= m.Seq && (d.shared == nil || d.shared.Confirmed(m.Seq, m.Round))
}

// wait is described with Durable.
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

// notify sends to wake once wait(m) does not wait for the log any more.
func (d *durability) notify(m Mark, wake chan<- struct{}) {
	if d.shared != nil {
		d.shared.NotifyConfirmed(m.Seq, m.Round, wake)
	} else {
		d.log.Notify(m.Seq, wake)
	}
}
