package replica

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// A node whose disk hangs or is full should not lead: it answers late or refuses, while others
// could do better. So the loop checks at each tick how long the writes in progress take. If they
// take too long, it tries to transfer the leadership and does not campaign until the disk has been
// healthy for a while. The check does no disk I/O, since a goroutine that is stuck in a sync stays
// stuck.

const (
	// syncAgeMax is how long a write may take before the disk counts as slow.
	syncAgeMax = time.Second
	// wellAfter is how long a disk must be without problems before it counts as healthy again.
	wellAfter = time.Second
)

// watch is the state of this node's disks. All fields except writing are used only by the loop.
type watch struct {
	// writing is the start of the current write to data/raft, on the replica's clock, or 0 if no
	// write is in progress.
	writing atomic.Int64
	synced  uint64 // synced seq of the journal at the last check
	since   time.Duration
	age     time.Duration // age of the oldest write that has not ended
	bad     time.Duration // time of the last check that found a problem
	reason  error         // reason why this node should not lead; nil if the disks are healthy
}

// lookAtDisks checks the disks. If it finds a problem, campaign transfers the leadership.
func (r *Replica) lookAtDisks() {
	w, now := &r.watch, r.now()
	why := r.badDisk(now)
	switch {
	case why != nil:
		w.bad = now
		if w.reason == nil {
			r.note(slog.LevelError, "this node should not lead because of its disk", "reason", why)
		}
		w.reason = why
	case w.reason != nil && now-w.bad >= wellAfter:
		w.reason = nil
		r.note(slog.LevelInfo, "the disk of this node has recovered")
	}
}

// syncAge returns the age of the oldest unfinished write of data/raft and of data/journal.
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

// badDisk returns the problem of a disk, or nil if the disks are healthy.
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
