package replica

import (
	"fmt"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// Room for a record is claimed in the journal of the leader, which takes the record only once
// it is committed. So a claim goes through to the journal and stays charged there until the
// record comes back: while it gathers, while Raft has it, and in the queue to the journal.
// Whatever was claimed therefore fits, as on a single machine. Other nodes have claimed
// nothing: their journals take the record when they have room, and count as slow meanwhile.
//
// Claims of a leadership that is over stay charged: its records may be committed or not. That
// takes no room from what is committed, which journal.Append takes without a claim, and the
// process ends soon.

// claim is what was claimed for a record.
type claim struct {
	bytes int
	many  bool // by ClaimMany
}

// Claim sets room aside in this node's journal, as journal.Journal.Claim does. The error is
// the journal's, or that of Err.
func (l *leadership) Claim(bytes int) error {
	if err := l.claimable(bytes); err != nil {
		return err
	}
	return l.journal.Claim(bytes)
}

// ClaimReserve is Claim within the journal's reserve.
func (l *leadership) ClaimReserve(bytes int) error {
	if err := l.claimable(bytes); err != nil {
		return err
	}
	return l.journal.ClaimReserve(bytes)
}

// ClaimMany is Claim for several records, all or none, as journal.Journal.ClaimMany is.
func (l *leadership) ClaimMany(records, bytes int) (wait <-chan struct{}, err error) {
	if err := l.claimable(bytes); err != nil {
		return nil, err
	}
	return l.journal.ClaimMany(records, bytes)
}

// claimable returns why no record of so many bytes can be claimed, whatever room there is.
func (l *leadership) claimable(bytes int) error {
	if err := l.Err(); err != nil {
		return err
	}
	if n := l.ClaimBytesMax(); bytes > n {
		return fmt.Errorf("%w: %d bytes, the limit of a cluster is %d", journal.ErrTooLarge, bytes, n)
	}
	return nil
}

// Forgo says that a ClaimMany which was to wait is not tried again.
func (l *leadership) Forgo() { l.journal.Forgo() }

// Unclaim gives back the room of records that are not appended after all.
func (l *leadership) Unclaim(records, bytes int) { l.journal.Unclaim(records, bytes) }

// ClaimBytesMax returns the largest record that can be claimed, in bytes. A member whose
// journal takes less is refused, so it fits on every node.
func (l *leadership) ClaimBytesMax() int {
	return min(l.journal.ClaimBytesMax(), core.BatchBytesMax)
}

// Room returns nil while this node's journal has room for new records, or its refusal.
func (l *leadership) Room() error { return l.journal.Room() }

// AppendClaimed puts a copy of record behind the last one, with the room of a claim of so many
// bytes, and returns its seq. It waits while gatherBytesMax bytes are on their way. The error
// is that of Err, ErrNotLeading, or names a length that no record has.
func (l *leadership) AppendClaimed(record []byte, claimed int) (seq uint64, err error) {
	return l.append(record, claim{bytes: claimed})
}

// AppendMany is AppendClaimed for one of the records of a ClaimMany.
func (l *leadership) AppendMany(record []byte, claimed int) (seq uint64, err error) {
	return l.append(record, claim{bytes: claimed, many: true})
}

// takeClaim returns what was claimed for the committed record seq, with ok, if it was appended
// here, and makes room for others: the journal takes the record now. The apply goroutine calls
// it, for each record once, in their order.
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
