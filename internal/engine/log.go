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

// Shared is a Log on several machines, one of which leads and appends. Its records are durable,
// and Synced, once a majority has them. What was read on a machine that did not lead any more
// may be out of date, and must not be told, though all of its records are durable: so the
// one that leads has the others confirm that, in rounds, which all who wait share.
//
// Once this machine leads no more the log has failed (Err), for ever: Confirmed returns false,
// and all who wait get the error.
type Shared interface {
	Log
	// Round returns the number, above 0, of the round that begins next: one that began before
	// the call does not do. It sees to it that there is one, and does not wait.
	Round() uint64
	// Confirmed reports whether everything up to seq is durable and round, unless it is 0, or
	// a later one has confirmed that this machine led when it began. Unless seq is 0, a durable
	// record behind it does that as well: so seq is Appended once all was read, or 0.
	Confirmed(seq, round uint64) bool
	// WaitConfirmed returns nil once Confirmed does. The error is the log's, or ctx's.
	WaitConfirmed(ctx context.Context, seq, round uint64) error
	// NotifyConfirmed sends to wake once WaitConfirmed would not wait, as Notify does.
	NotifyConfirmed(seq, round uint64, wake chan<- struct{})
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
