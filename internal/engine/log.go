package engine

import (
	"context"
	"errors"
	"fmt"

	"outcry/internal/exchange"
)

// Log is the write-ahead log that an engine needs: numbered records, seq 1 and up, that are
// durable some time after they were appended. Its methods are called from many goroutines.
// *journal.Journal is one, on the disk of one machine.
//
// Room for a record is claimed before what it says is done, since that cannot be undone.
// The error of a claim is a Refusal, and then nothing has happened; any other error of
// a Log is final: it takes no records any more, and what an append that failed was to say
// must not become visible.
type Log interface {
	// Claim sets room aside for a record of up to bytes, which AppendClaimed uses.
	Claim(bytes int) error
	// ClaimReserve is Claim for what has to go on, within a reserve, while Claim is refused.
	ClaimReserve(bytes int) error
	// ClaimMany is Claim for several records, each of up to bytes, all or none. Each is
	// appended with AppendMany, and Unclaim gives back what is left. It does not wait: if
	// wait is not nil, nothing is set aside yet, and once it is closed the caller tries
	// again or calls Forgo.
	ClaimMany(records, bytes int) (wait <-chan struct{}, err error)
	Forgo()
	Unclaim(records, bytes int)
	// ClaimBytesMax returns the largest record that can be claimed, in bytes.
	ClaimBytesMax() int
	// Room returns nil while there is room for new records, or a Refusal that says why not.
	Room() error

	// AppendClaimed puts a copy of record behind the last one, with the room of a claim of
	// so many bytes, and returns its seq. It does not wait until the record is durable.
	AppendClaimed(record []byte, claimed int) (seq uint64, err error)
	// AppendMany is AppendClaimed for one of the records of a ClaimMany.
	AppendMany(record []byte, claimed int) (seq uint64, err error)

	// Appended returns the seq of the last record, Synced that of the last durable one.
	Appended() uint64
	Synced() uint64
	// Wait returns nil once everything up to seq is durable. The error is the log's, or ctx's.
	Wait(ctx context.Context, seq uint64) error
	// Notify sends to wake once Wait(seq) would not wait. It does not wait for wake to take
	// the value: a channel with room for one misses nothing.
	Notify(seq uint64, wake chan<- struct{})
	// Err returns why the log takes no records any more, nil while it does.
	Err() error
}

// Refusal is an error of a claim that found no room.
type Refusal interface {
	error
	// NoRoom reports whether room may be found later. Otherwise so much never is.
	NoRoom() bool
}

// claimed tells a claim that is refused, and says so in r, from a log that has failed.
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

// durability is the one place that knows what is durable, and so may be told: what is
// synced in the log and, with AckPostgres, committed in Postgres. Replies wait for it,
// market data and operators see nothing beyond it.
//
// A log on several machines has to confirm, before a reply, that no other one has gone on
// without it since the exchange was read. Every reply comes by wait or reached, after its
// last read: there is the place for that.
type durability struct {
	log        Log
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

// reached reports whether wait(seq) would return nil at once.
func (d *durability) reached(seq uint64) bool { return d.seq() >= seq }

// wait waits until everything up to seq is durable. It returns the log's error, the
// projection's, or ctx's.
func (d *durability) wait(ctx context.Context, seq uint64) error {
	if err := d.log.Wait(ctx, seq); err != nil || d.projection == nil {
		return err
	}
	return d.projection.WaitApplied(ctx, seq)
}

// notify sends to wake once wait(seq) does not wait for the log any more.
func (d *durability) notify(seq uint64, wake chan<- struct{}) { d.log.Notify(seq, wake) }
