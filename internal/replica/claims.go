package replica

import (
	"fmt"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// Space for a record is claimed in the leader's journal, but the journal receives the record only
// once it is committed. So the claim stays charged in the journal while the record is in a batch,
// in Raft's log, and in the queue to the journal. Every claimed record therefore fits, as on a
// single machine. The other nodes claim nothing: their journals accept the record once they have
// room, and until then they count as slow.
//
// After a leadership ends, its claims stay charged, since its records may or may not be committed. That
// takes no room from committed records, which journal.Append accepts without a claim, and the process
// restarts soon.

// claim is the space claimed for one record.
type claim struct {
	bytes int
	many  bool // made by ClaimMany
}

// Claim reserves room in this node's journal, as journal.Journal.Claim does. The error is the
// journal's, or that of Err.
func (l *leadership) Claim(bytes int) error {
	if err := l.claimable(bytes); err != nil {
		return err
	}
	return l.journal.Claim(bytes)
}

// ClaimReserve is like Claim, but may use the journal's reserve.
func (l *leadership) ClaimReserve(bytes int) error {
	if err := l.claimable(bytes); err != nil {
		return err
	}
	return l.journal.ClaimReserve(bytes)
}

// ClaimMany is like Claim for several records, all or none. See journal.Journal.ClaimMany.
func (l *leadership) ClaimMany(records, bytes int) (wait <-chan struct{}, err error) {
	if err := l.claimable(bytes); err != nil {
		return nil, err
	}
	return l.journal.ClaimMany(records, bytes)
}

// claimable returns an error if a record of this size can never be claimed, whatever room is free.
func (l *leadership) claimable(bytes int) error {
	if err := l.Err(); err != nil {
		return err
	}
	if n := l.ClaimBytesMax(); bytes > n {
		return fmt.Errorf("%w: %d bytes, and the limit in a cluster is %d", journal.ErrTooLarge, bytes, n)
	}
	return nil
}

// Forgo reports that the caller will not retry a ClaimMany that had to wait.
func (l *leadership) Forgo() { l.journal.Forgo() }

// Unclaim releases the room of claimed records that will not be appended.
func (l *leadership) Unclaim(records, bytes int) { l.journal.Unclaim(records, bytes) }

// ClaimBytesMax returns the size of the largest record that can be claimed, in bytes. Members whose
// journals have a lower limit are refused, so the record fits on every node.
func (l *leadership) ClaimBytesMax() int {
	return min(l.journal.ClaimBytesMax(), core.BatchBytesMax)
}

// Room returns nil if this node's journal has room for new records, otherwise the journal's error.
func (l *leadership) Room() error { return l.journal.Room() }

// AppendClaimed appends a copy of record, using a claim of the given size, and returns its seq. It
// waits while gatherBytesMax bytes are on their way to the journal. The error is that of Err,
// ErrNotLeading, or one about an invalid length.
func (l *leadership) AppendClaimed(record []byte, claimed int) (seq uint64, err error) {
	return l.append(record, claim{bytes: claimed})
}

// AppendMany is like AppendClaimed for a record claimed with ClaimMany.
func (l *leadership) AppendMany(record []byte, claimed int) (seq uint64, err error) {
	return l.append(record, claim{bytes: claimed, many: true})
}

// takeClaim removes and returns the claim of the committed record seq. ok is false if this node did
// not append the record in this leadership. It also wakes appenders that wait for space, since the
// journal is about to receive the record. The apply goroutine calls it once for each record, in
// their order.
func (l *leadership) takeClaim(seq uint64, bytes int) (c claim, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Load() != nil || !l.open || seq < l.claimed || len(l.claims) == 0 {
		return c, false
	}
	c = l.claims[0]
	l.claims = l.claims[1:]
	l.claimed++
	l.held -= bytes
	l.space.Broadcast()
	return c, true
}
