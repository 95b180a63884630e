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

// loopState is the loop's own.
type loopState struct {
	leads    bool          // the node has said so, and not that it is over
	was      bool          // it has led once: it does not campaign again
	asked    bool          // its owner has asked for the end of that
	applied  uint64        // index that core was told of
	synced   uint64        // seq of the journal that core was told of
	rounds   []askedRound  // under way
	records  [][]byte      // of the batch that is proposed
	may      bool          // the owner lets it campaign
	mayNow   bool          // what core was told
	transfer time.Duration // when it last tried to hand over
	pause    time.Duration // until it tries again
	kept     time.Duration // when it last worked out what data/journal keeps
	endFetch func()        // of the last core.Fetch
}

// askedRound is a round of the leadership, and core's number of it.
type askedRound struct{ ours, core uint64 }

// run is the loop.
func (r *Replica) run() {
	defer close(r.loopEnded)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.node.Tick()
			r.look()
		case <-r.wakeLoop:
			// Goroutines that are ready to append or ask do so first: fewer and larger
			// entries where the processors are busy.
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

// step takes what has come, and hands on what comes of it. An error is final.
func (r *Replica) step() error {
	if err := r.takeInbox(); err != nil {
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

// propose proposes what has gathered, as far as the node and its disk take it. Who leads no
// more, and has not heard it yet, hears it here.
func (r *Replica) propose() error {
	for r.loop.leads && r.node.CanPropose() && !r.congested() {
		b := r.leadership.take()
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

// read asks the node for the round that somebody waits for. Rounds that share one of core's
// are one from then on.
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

// depose ends the leadership: before anything else is looked at that the node says.
func (r *Replica) depose(why error) {
	if r.loop.was {
		return
	}
	r.loop.was, r.loop.leads = true, false
	r.end(why)
	r.campaign()
	close(r.deposed)
	level := slog.LevelWarn
	if r.loop.asked { // it was to be so
		level = slog.LevelInfo
	}
	r.note(level, "this node leads the cluster no more", "reason", why)
}

// handOn hands on what the node wants done. The order matters in one place: the end of
// a leadership comes before what is committed and confirmed, which may be another leader's.
func (r *Replica) handOn(out core.Output) error {
	if out.Leads {
		r.loop.leads = !r.loop.was
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
		r.loop.endFetch() // of one that is over
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

// handCommits gives the apply goroutine what is committed, and lets those go on who wait
// for it.
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

// look is what the loop does at each tick.
func (r *Replica) look() {
	if synced := r.journal.Synced(); synced > r.loop.synced {
		r.loop.synced = synced
		r.node.JournalSynced(synced)
	}
	r.lookAtDisks()
	r.campaign()
	r.keepForPeers()
	r.publish()
}

// campaign tells the node whether it may campaign, if that has changed: not before the owner
// is ready, not with a disk that hangs or is full, and not after a leadership. A node that
// leads and may not hands over.
func (r *Replica) campaign() {
	may := r.loop.may && !r.loop.was && r.watch.reason == nil
	now := r.now()
	switch {
	case may != r.loop.mayNow:
		r.loop.mayNow, r.loop.transfer, r.loop.pause = may, now, transferWait
		r.node.MayCampaign(may)
	case !may && r.loop.leads && now-r.loop.transfer >= r.loop.pause:
		// Nothing is proposed while it tries: where nobody is fit, orders have to go on.
		r.loop.transfer, r.loop.pause = now, min(2*r.loop.pause, transferPauseMax)
		_ = r.node.Transfer(0) // to another one; if nobody is fit it leads on, and tries again
	}
}

// stop notes why the loop ends.
func (r *Replica) stop(err error) {
	r.note(slog.LevelError, "this node cannot go on", "error", err)
	led := r.loop.leads
	r.loop.leads = false
	r.end(err)
	r.tell(func(in *inbox) { in.failure = err })
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		if err := writeBroken(r.options.Data, broken.Reason); err != nil {
			r.note(slog.LevelError, "this node is broken, and a restart may not know it", "error", err)
		}
		close(r.broken)
	}
	if behind, ok := errors.AsType[*BehindError](err); ok {
		if err := (&Restore{Seq: behind.Seq}).write(r.options.Data); err != nil {
			r.note(slog.LevelError, "this node has to be restored from a backup, and a restart may not know it", "error", err)
		}
	}
	if led {
		close(r.deposed)
	}
	close(r.failed)
	r.publish()
}
