package engine

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/exchange"
)

// paceDelayMax is how long a call of Execute waits when the projection is
// BacklogMax or more records behind.
const paceDelayMax = 100 * time.Millisecond

// lag returns how many records the projection is behind the journal.
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

// Refusing returns why the exchange refuses orders and new accounts and symbols at this moment, or nil
// if it accepts them: the journal's disk is full, the projection is too far
// behind, or Catchup is not complete. Queries and cancels still work.
func (e *Engine) Refusing() error {
	//exhaustive:ignore admit returns no other reasons
	switch e.admit() {
	case exchange.NoRoom:
		return e.log.Room()
	case exchange.DatabaseBehind:
		return fmt.Errorf("engine: Postgres is %d records behind, the limit is %d", e.lag(), e.limits.backlog.Load())
	}
	if e.unresumed.Load() {
		return errUnresumed
	}
	return nil
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

// pace delays a session while Postgres is behind by more than half of BacklogMax: the closer to
// BacklogMax, the longer. Orders then arrive as fast as
// Postgres accepts them, instead of being refused in bursts.
func (e *Engine) pace(ctx context.Context) error {
	half := uint64(e.limits.backlog.Load()) / 2
	lag := e.lag()
	if lag <= half {
		return nil
	}
	over := min(float64(lag-half)/float64(half+1), 1)
	timer := time.NewTimer(time.Duration(over * float64(paceDelayMax)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stop:
		return ErrStopped
	}
}

// giveUp notes that the journal has failed and accepts no more records.
func (e *Engine) giveUp() { e.failed.Store(true) }
