// Package replica runs one exchange on several machines. They share a log whose records count as
// durable once a majority has them on disk. The package drives package core with goroutines, files
// and connections.
//
//	peers ──messages──▶ loop ──core.Write──▶ disk goroutine ──▶ data/raft
//	engine ──records──▶  │ ▲                      │
//	                     │ └──────written─────────┘
//	                     └──committed records──▶ apply goroutine ──▶ data/journal
//
// The loop owns the core.Node and never waits for a disk, a peer or a reader. Slow work goes through
// queues of limited size. A node whose queue to a disk is full drops messages from its peers, and Raft
// sends them again.
//
// data/journal receives only committed records, the same ones on every node. It is synced later than the
// records count as durable, since data/raft already holds them. core removes entries from data/raft only
// after the journal has synced their records.
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
	// tick is the time unit of package core; an election starts after 30 to 60 ticks without a
	// leader.
	tick = 10 * time.Millisecond
	// closeWait is how long Close waits for a goroutine that is stuck in a sync.
	closeWait = 2 * time.Second
)

// Replica is a node of a cluster. While it leads, it is the log of an engine: it implements
// engine.Log and confirms reads. All methods may be called from any goroutine.
type Replica struct {
	*leadership
	options Options
	node    stepper // used only by the loop
	disk    disk
	net     network
	journal *journal.Journal
	now     func() time.Duration // time since the start

	self    core.Identity
	readers *readers
	keep    *journal.Reader // keeps journal segments that members may need
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

	leading, deposed, broken, failed chan struct{} // each is closed at most once
	loopEnded                        chan struct{}
	life                             context.Context // canceled by Close
	die                              context.CancelFunc
	closing                          sync.Once
	ended                            sync.WaitGroup
	closeErr                         error
}

// stepper is the interface of core.Node that the replica uses.
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

// Leading returns a channel that is closed once this node leads, its journal has all records from
// before its leadership, and it accepts records. Appended then returns the seq of the last of those
// records. The channel is never closed if Deposed is closed first.
func (r *Replica) Leading() <-chan struct{} { return r.leading }

// Deposed returns a channel that is closed once this node has lost the leadership. From then on it
// must reveal no result to clients, and the process must restart: this replica never leads a second
// time.
func (r *Replica) Deposed() <-chan struct{} { return r.deposed }

// Failed returns a channel that is closed once this node has stopped for good, because a log cannot
// be written or the node is broken. Err returns the reason.
func (r *Replica) Failed() <-chan struct{} { return r.failed }

// Broken returns a channel that is closed once this node's history is known to differ from its
// cluster's and the file BROKEN is written. The node must stay down. Err returns the reason.
func (r *Replica) Broken() <-chan struct{} { return r.broken }

// Close stops the replica; waiting callers get ErrClosed. The journal belongs to the caller and
// stays open. Close returns the error of closing data/raft. If a goroutine is stuck in a sync for
// more than closeWait, Close leaves it running and returns an error that says so.
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
		stuck := fmt.Errorf("replica: close %s: a write to a disk has not ended for %v", r.options.Data, closeWait)
		select {
		case <-ended:
			// The goroutines have ended, but a sync of the log's own may still be stuck.
			closed := make(chan error, 1)
			go func() { closed <- r.disk.Close() }()
			select {
			case r.closeErr = <-closed:
			case <-timer.C:
				r.closeErr = stuck
			}
		case <-timer.C:
			r.closeErr = stuck
		}
		r.keep.Close()
	})
	return r.closeErr
}
