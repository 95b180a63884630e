// Package replica makes one exchange of several machines: a log whose records count once
// a majority has them on disk. It drives package core with goroutines, files and
// connections.
//
//	peers ──messages──▶ loop ──core.Write──▶ disk goroutine ──▶ data/raft
//	engine ──records──▶  │ ▲                      │
//	                     │ └──────written─────────┘
//	                     └──committed records──▶ apply goroutine ──▶ data/journal
//
// The loop owns the core.Node and never waits: not for a disk, not for a peer, not for a
// reader. Whatever takes time is behind a queue, and what fills a queue is not let in: a
// node whose disk hangs drops what its peers send, which Raft sends again.
//
// data/journal gets committed records only, the same on every node. It is synced later than
// the records count, since data/raft has them: core forgets them there once the journal says
// that it has synced them.
package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

const (
	// tick is the unit of core's times: an election after 30 to 60 of them.
	tick = 10 * time.Millisecond
	// closeWait is how long Close waits for a goroutine that is stuck in a sync.
	closeWait = 2 * time.Second
)

// Replica is a node of a cluster. While it leads, it is the log of an engine (engine.Log, with
// what confirms reads). Its methods may be called from any goroutine.
type Replica struct {
	*leadership
	options Options
	node    stepper // the loop's own
	disk    disk
	net     network
	journal *journal.Journal
	now     func() time.Duration // since the start

	self    core.Identity
	readers *readers
	keep    *journal.Reader // holds what members may need
	counts  counts
	notebook

	wakeLoop chan struct{}
	requests chan func()
	inbox    inbox
	writes   *queue[*core.Write]
	applies  *queue[application]
	watch    watch
	state    state
	loop     loopState

	leading, deposed, broken, failed chan struct{} // closed once
	loopEnded                        chan struct{}
	life                             context.Context // ends with Close
	die                              context.CancelFunc
	closing                          sync.Once
	ended                            sync.WaitGroup
	closeErr                         error
}

// stepper is what the replica drives: a core.Node.
type stepper interface {
	nodeInputs
	CanPropose() bool
	Propose(first uint64, records [][]byte) error
	Read() (round uint64)
	MayCampaign(may bool)
	Transfer(to uint64) error
	Change(c core.MemberChange) error
	Status() core.Status
	Output() core.Output
}

// Leading returns a channel that is closed once this node leads and its journal has every
// record before its leadership: Appended returns the last of them, and records are taken. It
// is never closed if Deposed is closed first.
func (r *Replica) Leading() <-chan struct{} { return r.leading }

// Deposed returns a channel that is closed once a leadership of this node is over. Nothing may
// be told any more, and a process that led has to begin again: this replica does not lead a
// second time.
func (r *Replica) Deposed() <-chan struct{} { return r.deposed }

// Failed returns a channel that is closed once this node cannot go on: a log of it cannot be
// written, or it is broken. Err says why.
func (r *Replica) Failed() <-chan struct{} { return r.failed }

// Broken returns a channel that is closed once the history of this node is known not to be
// that of its cluster, and the file BROKEN says so: it has to stay down. Err says why.
func (r *Replica) Broken() <-chan struct{} { return r.broken }

// Close ends the replica; callers who wait get ErrClosed. The journal stays open: it is the
// caller's. A goroutine that is stuck in a sync for more than closeWait is left behind, and
// the error says so. It is otherwise what closing data/raft returned.
func (r *Replica) Close() error {
	r.closing.Do(func() {
		r.die()
		r.end(ErrClosed)
		r.net.Close()
		ended := make(chan struct{})
		go func() {
			r.ended.Wait()
			r.readers.close()
			close(ended)
		}()
		timer := time.NewTimer(closeWait)
		defer timer.Stop()
		select {
		case <-ended:
			r.closeErr = r.disk.Close()
		case <-timer.C:
			r.closeErr = fmt.Errorf("replica: close %s: a write to a disk has not ended for %v", r.options.Data, closeWait)
		}
		r.keep.Close()
	})
	return r.closeErr
}
