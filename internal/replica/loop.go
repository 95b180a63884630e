package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"outcry/internal/replica/core"
)

// loopState is used only by the loop.
type loopState struct {
	leads        bool          // the node has announced its leadership, and not its end
	hasLed       bool          // this node has led once, so it does not campaign again
	transferring bool          // the owner has requested a transfer
	applied      uint64        // index last passed to core's Applied
	synced       uint64        // seq last passed to core's JournalSynced
	rounds       []askedRound  // rounds in progress
	records      [][]byte      // records of the batch being proposed
	ownerAllows  bool          // the owner allows campaigning
	mayCampaign  bool          // value last passed to core's MayCampaign
	transfer     time.Duration // time of the last attempt to transfer the leadership
	pause        time.Duration // wait until the next attempt
	kept         time.Duration // time of the last computation of what data/journal keeps
	endFetch     func()        // cancels the last core.Fetch
}

// askedRound has a round's number in the leadership and in core.
type askedRound struct{ ours, core uint64 }

// run is the loop goroutine, the only one that uses r.node.
func (r *Replica) run() {
	defer close(r.loopEnded)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.node.Tick()
			r.onTick()
		case <-r.wakeLoop:
			// Goroutines that are ready to append or read run first. That produces fewer and larger entries when the processors
			// are busy.
			runtime.Gosched()
		case f := <-r.requests:
			f()
		case <-r.journal.Failed():
			r.fail(fmt.Errorf("replica: data/journal: %w", r.journal.Err()))
		case <-r.life.Done():
			return
		}
		if err := r.step(); err != nil {
			r.stop(err)
			return
		}
	}
}

// step handles the input and passes on the node's output. An error is final.
func (r *Replica) step() error {
	if err := r.handleInbox(); err != nil {
		return err
	}
	if err := r.propose(); err != nil {
		return err
	}
	if r.loop.leads {
		r.read()
	}
	return r.handOn(r.node.Output())
}

// propose proposes collected batches while the node and its disks accept them. If the node has lost
// the leadership, the error of the proposal is the first sign of it.
func (r *Replica) propose() error {
	for r.loop.leads && r.node.CanPropose() && !r.congested() {
		b := r.leadership.nextBatch()
		if b == nil {
			return nil
		}
		r.loop.records = b.memory.records(r.loop.records[:0])
		err := r.node.Propose(b.first, r.loop.records)
		r.recycle(b)
		if err != nil {
			r.depose(fmt.Errorf("%w: propose records %d to %d: %w", ErrDeposed, b.first, b.last, err))
		}
	}
	return nil
}

// read starts the round that callers wait for. Rounds that share a round of core are merged into
// the later one.
func (r *Replica) read() {
	ours, ok := r.beginRound()
	if !ok {
		return
	}
	a := askedRound{ours, r.node.Read()}
	if n := len(r.loop.rounds); n > 0 && r.loop.rounds[n-1].core == a.core {
		r.loop.rounds[n-1] = a
	} else if a.core != 0 {
		r.loop.rounds = append(r.loop.rounds, a)
	}
}

// depose ends the leadership. It is called before any other output of the node is handled.
func (r *Replica) depose(why error) {
	if r.loop.hasLed {
		return
	}
	r.loop.hasLed, r.loop.leads = true, false
	r.end(why)
	r.campaign()
	close(r.deposed)
	level := slog.LevelWarn
	if r.loop.transferring { // the owner has requested it
		level = slog.LevelInfo
	}
	r.note(level, "this node no longer leads the cluster", "reason", why)
}

// handOn passes on the node's output. A lost leadership is handled before commits and
// confirmations, which may belong to another leader.
func (r *Replica) handOn(out core.Output) error {
	if out.Leads {
		r.loop.leads = !r.loop.hasLed
	}
	if out.Deposed && r.loop.leads {
		r.depose(ErrDeposed)
	}
	if out.Broken != nil {
		return &BrokenError{Reason: out.Broken}
	}
	if out.Write != nil {
		r.writes.put(out.Write, writeBytes(out.Write))
	}
	if len(out.Commits) > 0 || out.Index > 0 {
		r.handCommits(out)
	}
	if out.Leads && r.loop.leads {
		r.applies.put(application{leads: true, begin: r.node.Status().Position.Seq}, 0)
	}
	if out.Fetch != nil {
		r.loop.endFetch() // the previous one is over
		a := application{fetch: out.Fetch}
		a.until, r.loop.endFetch = context.WithCancel(r.life)
		r.applies.put(a, 0)
	}
	if out.FetchOver {
		r.loop.endFetch()
	}
	for len(r.loop.rounds) > 0 && r.loop.rounds[0].core <= out.Confirmed {
		r.confirm(r.loop.rounds[0].ours)
		r.loop.rounds = r.loop.rounds[1:]
	}
	r.send(out.Send)
	return nil
}

// handCommits passes committed records to the apply goroutine and wakes callers that wait for them.
func (r *Replica) handCommits(out core.Output) {
	bytes := 0
	for _, c := range out.Commits {
		for _, record := range c.Records {
			bytes += len(record)
		}
	}
	r.applies.put(application{commits: out.Commits, index: out.Index, bytes: bytes}, bytes)
	if n := len(out.Commits); n > 0 && r.loop.leads {
		last := out.Commits[n-1]
		r.commit(last.First + uint64(len(last.Records)) - 1)
	}
}

// onTick does the loop's periodic work.
func (r *Replica) onTick() {
	if synced := r.journal.Synced(); synced > r.loop.synced {
		r.loop.synced = synced
		r.node.JournalSynced(synced)
	}
	r.lookAtDisks()
	r.campaign()
	r.keepForPeers()
	r.publish()
}

// campaign updates whether the node may campaign. It may not before the owner is ready, while a
// disk hangs or is full, or after a leadership. A node that leads and may not campaign transfers
// the leadership.
func (r *Replica) campaign() {
	may := r.loop.ownerAllows && !r.loop.hasLed && r.watch.reason == nil
	now := r.now()
	switch {
	case may != r.loop.mayCampaign:
		r.loop.mayCampaign, r.loop.transfer, r.loop.pause = may, now, transferWait
		r.node.MayCampaign(may)
	case !may && r.loop.leads && now-r.loop.transfer >= r.loop.pause:
		// Nothing is proposed during an attempt. So the pauses between attempts grow, and orders
		// continue if no other node can lead.
		r.loop.transfer, r.loop.pause = now, min(2*r.loop.pause, transferPauseMax)
		// Transfer picks a voter that was not tried yet. If none can lead, this node keeps leading
		// and tries again later.
		_ = r.node.Transfer(0)
	}
}

// stop publishes the reason why the loop ends.
func (r *Replica) stop(err error) {
	r.note(slog.LevelError, "this node stops", "error", err)
	led := r.loop.leads
	r.loop.leads = false
	r.end(err)
	r.update(func(in *inbox) { in.failure = err })
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		if err := writeBroken(r.options.Data, broken.Reason); err != nil {
			r.note(slog.LevelError, "this node is broken, but BROKEN was not written: do not restart it", "error", err)
		}
		close(r.broken)
	}
	if behind, ok := errors.AsType[*BehindError](err); ok {
		if err := (&Restore{Seq: behind.Seq}).write(r.options.Data); err != nil {
			r.note(slog.LevelError, "this node must be restored from a backup, but RESTORE was not written", "error", err)
		}
	}
	if led {
		close(r.deposed)
	}
	close(r.failed)
	r.publish()
}
