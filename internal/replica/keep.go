package replica

import (
	"math"
	"time"
)

// KeepBytesDefault is the default size of the data/journal kept for members that lag or are away.
const KeepBytesDefault = 4 << 30

// keepEvery is how often the loop computes which segments to keep.
const keepEvery = time.Second

// keepForPeers makes data/journal keep its newest segments, up to KeepBytes, even after this node's
// Postgres has all their records. A member that was away fetches them from the leader of that time,
// so every node keeps them. If the disk is full, nothing is kept: a full disk is worse than a
// member that must be restored from a backup. The loop may call it, since the journal does no I/O
// while holding its lock.
func (r *Replica) keepForPeers() {
	now := r.now()
	if now-r.loop.kept < keepEvery {
		return
	}
	r.loop.kept = now
	if r.journal.Room() != nil {
		r.keep.Hold(0)
		return
	}
	synced := r.journal.Synced()
	r.keep.Hold(synced + 1 - min(synced+1, r.journal.FirstWithin(r.options.KeepBytes)))
}

// beginToKeep keeps all segments until the first call of keepForPeers.
func (r *Replica) beginToKeep() (err error) {
	r.keep, err = r.journal.NewFollower(r.journal.First(), math.MaxUint64)
	return err
}
