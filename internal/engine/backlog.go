package engine

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/exchange"
)

// paceDelayMax is how long a call of Execute waits when the projection is
// almost BacklogMax records behind.
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

// admit reports whether a command that makes the exchange grow may be done: OK,
// NoRoom or DatabaseBehind. Cancels and queries need no admission. It is a first
// look, before work that would be in vain; claim makes sure.
func (e *Engine) admit() exchange.RejectReason {
	switch {
	case e.log.Room() != nil:
		return exchange.NoRoom
	case e.lag() >= uint64(e.limits.backlog.Load()):
		return exchange.DatabaseBehind
	}
	return exchange.OK
}

// Refusing returns why the exchange refuses orders and creates at this moment, nil
// while it takes them: the journal's disk is full, or the projection is too far
// behind. Queries and cancels still work.
func (e *Engine) Refusing() error {
	//exhaustive:ignore admit has no others
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

// claim sets room in the journal aside for what a command is about to do, and
// from then on it is done: its record is appended with the claim. Where that is
// refused, with NoRoom or TooManyFills in r, it returns false. An error is the
// journal's and final.
func (e *Engine) claim(bytes int, r *exchange.Result) (ok bool, err error) {
	return claimed(e.log.Claim(bytes), exchange.NoRoom, exchange.TooManyFills, r)
}

// claimToCancel is claim for a cancel, which goes on in the journal's reserve and
// is refused with NoRoomToCancel at its end. One of many orders may also be refused
// with TooManyCancels.
func (e *Engine) claimToCancel(bytes int, r *exchange.Result) (ok bool, err error) {
	return claimed(e.log.ClaimReserve(bytes), exchange.NoRoomToCancel, exchange.TooManyCancels, r)
}

// pace slows a session down while Postgres is more than half of the bound
// behind: the closer to the bound, the longer. Orders then arrive as fast as
// Postgres takes them, instead of being refused in bursts.
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

// giveUp notes that the journal takes no records any more.
func (e *Engine) giveUp() { e.failed.Store(true) }
