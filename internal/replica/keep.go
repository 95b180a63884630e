package replica

import (
	"math"
	"time"
)

// KeepBytesDefault is how much of data/journal is kept for members that lag or are away.
const KeepBytesDefault = 4 << 30

// keepEvery is how often it is worked out what that comes to.
const keepEvery = time.Second

// keepForPeers lets data/journal keep its newest segments, up to KeepBytes, also when this
// node's Postgres has all their records: a member that was away fetches them from any node that
// leads then, so every node keeps them. A full disk is worse than a member that has to be
// restored from a backup: then nothing is kept. The loop calls it: the journal holds its lock for no I/O.
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

// beginToKeep keeps everything until keepForPeers knows better.
func (r *Replica) beginToKeep() (err error) {
	r.keep, err = r.journal.NewFollower(r.journal.First(), math.MaxUint64)
	return err
}
