package engine

import "context"

// Log is the write-ahead log that an engine needs. Its records are numbered with seqs from 1 and become
// durable some time after they were appended. Its methods are called from many goroutines.
// *journal.Journal implements it on the disk of one machine.
//
// Room for a record is claimed before the command is executed, because the execution cannot be undone. A claim fails
// with a Refusal, and then nothing has happened. Any other error of a Log is final: it accepts no more records, and
// the contents of a record whose append failed must not become visible.
type Log interface {
	// Claim sets room aside for one record of up to bytes bytes, which AppendClaimed uses.
	Claim(bytes int) error
	// ClaimReserve is Claim for records such as cancels, which are still needed when Claim is refused: it may use
	// a reserve.
	ClaimReserve(bytes int) error
	// ClaimMany is Claim for several records, each of up to bytes bytes, all or none. Each is appended with AppendMany,
	// and Unclaim returns unused room. ClaimMany does not wait: if wait is not nil, nothing is set aside yet, and once
	// wait is closed the caller must try again or call Forgo.
	ClaimMany(records, bytes int) (wait <-chan struct{}, err error)
	Forgo()
	Unclaim(records, bytes int)
	// ClaimBytesMax returns the largest record that can be claimed, in bytes.
	ClaimBytesMax() int
	// Room returns nil while there is room for new records, or a Refusal that says why not.
	Room() error

	// AppendClaimed appends a copy of record and returns its seq. claimed is the size that was claimed for it,
	// in bytes. It does not wait until the record is durable.
	AppendClaimed(record []byte, claimed int) (seq uint64, err error)
	// AppendMany appends one of the records of a ClaimMany, otherwise like AppendClaimed.
	AppendMany(record []byte, claimed int) (seq uint64, err error)

	// Appended returns the seq of the last record. Synced returns that of the last durable record.
	Appended() uint64
	Synced() uint64
	// Wait returns nil once all records up to seq are durable. The error is the log's, or ctx's.
	Wait(ctx context.Context, seq uint64) error
	// Notify sends a value to wake once Wait(seq) would return at once. The send does not block: a channel needs
	// capacity 1 to miss nothing.
	Notify(seq uint64, wake chan<- struct{})
	// Err returns the reason why the log accepts no more records, or nil while it accepts them.
	Err() error
}

// Shared is a Log on several machines, one of which is the leader and appends. Records are durable,
// and Synced, once a majority has them. A read on a machine that is no longer the leader
// may be stale, and must not be sent to a client, even if all its records are durable. So the
// leader has the other machines confirm its leadership in rounds, which all waiting callers share.
//
// Once this machine is no longer the leader, the log has failed permanently (Err): Confirmed returns false, and all
// waiting callers get the error.
type Shared interface {
	Log
	// Round returns the number, above 0, of the next round to begin; rounds that began before
	// the call do not count. It makes sure that this round takes place, and does not wait.
	Round() uint64
	// Confirmed reports whether all records up to seq are durable and, unless round is 0, this machine is confirmed
	// to have been the leader when round began. That round or a later one confirms it; if seq is not 0, a durable
	// record after seq does as well. So callers pass as seq what Appended returned after their reads, or 0.
	Confirmed(seq, round uint64) bool
	// WaitConfirmed returns nil once Confirmed reports true. The error is the log's, or ctx's.
	WaitConfirmed(ctx context.Context, seq, round uint64) error
	// NotifyConfirmed sends a value to wake once WaitConfirmed would return at once, as Notify does.
	NotifyConfirmed(seq, round uint64, wake chan<- struct{})
}

// Refusal is an error of a claim that found no room.
type Refusal interface {
	error
	// NoRoom reports whether there may be room later. If false, a record of this size never fits.
	NoRoom() bool
}
