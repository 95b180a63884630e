package replica

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// A node whose disk hangs or is full should not lead: it answers late or refuses, and others
// could do better. So the loop looks at each tick how long the present writes take, hands over
// while it can, and does not campaign until the disk has been well for a while. It does so
// without asking the disk for anything: a goroutine that is stuck in a sync stays there.

const (
	// syncAgeMax is how long a write may take until the disk counts as slow.
	syncAgeMax = time.Second
	// wellAfter is how long a disk must have been well to count as that again.
	wellAfter = time.Second
)

// watch is what is known of this node's disks. All but writing is the loop's own.
type watch struct {
	writing atomic.Int64 // since when data/raft is written, on the replica's clock; 0 if it is not
	synced  uint64       // of the journal, when it was last looked at
	since   time.Duration
	age     time.Duration // of the oldest write that has not ended
	bad     time.Duration // when a disk was last found bad
	reason  error         // why this node should not lead; nil if it is well
}

// lookAtDisks finds out whether the disks are well: if not, campaign hands over.
func (r *Replica) lookAtDisks() {
	w, now := &r.watch, r.now()
	why := r.badDisk(now)
	switch {
	case why != nil:
		w.bad = now
		if w.reason == nil {
			r.note(slog.LevelError, "this node should not lead: its disk", "reason", why)
		}
		w.reason = why
	case w.reason != nil && now-w.bad >= wellAfter:
		w.reason = nil
		r.note(slog.LevelInfo, "the disk of this node is well again")
	}
}

// syncAge returns how old the oldest write is that has not ended: of data/raft, and of
// data/journal.
func (r *Replica) syncAge(now time.Duration) (raft, journal time.Duration) {
	w := &r.watch
	if at := w.writing.Load(); at != 0 {
		raft = max(0, now-time.Duration(at))
	}
	if synced := r.journal.Synced(); synced != w.synced || synced >= r.journal.Appended() {
		w.synced, w.since = synced, now
	}
	return raft, now - w.since
}

// badDisk returns what is wrong with a disk, nil if nothing is.
func (r *Replica) badDisk(now time.Duration) error {
	raft, journal := r.syncAge(now)
	r.watch.age = max(raft, journal)
	switch {
	case raft > syncAgeMax:
		return fmt.Errorf("replica: a write to data/raft has not ended for %v", raft.Round(10*time.Millisecond))
	case journal > syncAgeMax:
		return fmt.Errorf("replica: a write to data/journal has not ended for %v", journal.Round(10*time.Millisecond))
	}
	return r.journal.Room()
}
