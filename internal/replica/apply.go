package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// application is one item for the apply goroutine: committed records, the start of a leadership
// after them, or records to fetch.
type application struct {
	commits []core.Commit
	index   uint64
	bytes   int // size of the records in commits

	leads bool
	begin uint64 // seq of the last record before the leadership

	fetch *core.Fetch
	until context.Context // context of the fetch
}

// apply is the apply goroutine, the only one that appends to the journal.
func (r *Replica) apply() {
	for {
		items := r.applies.waitAll(r.life.Done())
		if items == nil {
			return
		}
		for _, a := range items {
			if err := r.applyOne(a); err != nil {
				r.fail(err)
				return
			}
			r.applies.done(a.bytes)
		}
	}
}

func (r *Replica) applyOne(a application) error {
	for _, c := range a.commits {
		if err := r.appendCommit(c); err != nil {
			return err
		}
	}
	if a.index > 0 {
		r.update(func(in *inbox) { in.applied = max(in.applied, a.index) })
	}
	if a.leads {
		if at := r.journal.Appended(); at != a.begin {
			return &BrokenError{fmt.Errorf("the journal ends at record %d, but the leadership starts after %d", at, a.begin)}
		}
		if r.begin(a.begin) {
			close(r.leading)
			r.note(slog.LevelInfo, "this node leads the cluster", "seq", a.begin)
		}
	}
	if a.fetch == nil {
		return nil
	}
	at, err := r.fetch(a.until, a.fetch)
	if _, broken := errors.AsType[*BrokenError](err); broken || errors.Is(err, errJournal) && a.until.Err() == nil {
		return err
	}
	if errors.Is(err, journal.ErrGone) && !errors.Is(err, errJournal) {
		return &BehindError{Seq: a.fetch.To.Seq, Reason: err}
	}
	r.update(func(in *inbox) { in.fetched = append(in.fetched, fetchOutcome{*a.fetch, at, err}) })
	return nil
}

// appendCommit appends the records of one batch.
func (r *Replica) appendCommit(c core.Commit) error {
	for i, record := range c.Records {
		seq, next := c.First+uint64(i), r.journal.Appended()+1
		if seq != next {
			return &BrokenError{fmt.Errorf("record %d is committed, but the next record of the journal is %d", seq, next)}
		}
		if err := r.appendRecord(seq, record); err != nil {
			return err
		}
	}
	return nil
}

// errJournal is wrapped by errors of this node's journal, which are final.
var errJournal = errors.New("replica: data/journal")

// appendRecord appends record seq. It uses the record's claim if this node appended the record as
// leader.
func (r *Replica) appendRecord(seq uint64, record []byte) error {
	var err error
	c, ok := r.takeClaim(seq, len(record))
	if !ok && r.options.Trail != nil {
		if err := r.putOnTrail(seq, record); err != nil {
			return &BrokenError{err}
		}
	}
	switch {
	case !ok:
		_, err = r.journal.Append(record)
	case c.many:
		_, err = r.journal.AppendMany(record, c.bytes)
	default:
		_, err = r.journal.AppendClaimed(record, c.bytes)
	}
	if err != nil {
		return fmt.Errorf("%w: append record %d: %w", errJournal, seq, err)
	}
	return nil
}

// putOnTrail shows a record that this node has not appended as the leader to those that follow the journal.
func (r *Replica) putOnTrail(seq uint64, record []byte) error {
	if r.hasLed() {
		r.options.Trail.Abandon()
		return nil
	}
	return r.options.Trail.PutRecord(seq, record)
}

// fetch appends records from a peer's journal and syncs them. Records that this node's journal
// already has are compared instead, unless their segments are deleted. It returns the position it
// reached and the error that stopped it, which may be ctx's. The error wraps errJournal if this
// node's journal caused it.
func (r *Replica) fetch(ctx context.Context, f *core.Fetch) (at core.Position, err error) {
	own, err := r.journal.NewReader(max(f.From.Seq+1, r.journal.First()))
	if err != nil {
		return f.From, fmt.Errorf("%w: compare fetched records: %w", errJournal, err)
	}
	defer own.Close()
	r.note(slog.LevelInfo, "this node fetches missing records",
		"peer", f.Peer, "from", f.From.Seq+1, "to", f.To.Seq)
	at = f.From
	err = r.net.Fetch(ctx, f.Peer, f.From.Seq+1, f.To.Seq, func(seq uint64, record []byte) error {
		if seq != at.Seq+1 {
			return fmt.Errorf("replica: received record %d instead of record %d", seq, at.Seq+1)
		}
		if err := r.fetched(ctx, own, seq, record); err != nil {
			return err
		}
		at = at.After(record)
		return nil
	})
	if err != nil {
		return at, fmt.Errorf("replica: fetch record %d from node %d: %w", at.Seq+1, f.Peer, err)
	}
	if err := r.journal.Wait(ctx, at.Seq); err != nil {
		return at, fmt.Errorf("%w: sync fetched records: %w", errJournal, err)
	}
	return at, nil
}

// fetched appends a fetched record, or compares it with the journal's record.
func (r *Replica) fetched(ctx context.Context, own *journal.Reader, seq uint64, record []byte) error {
	switch last := r.journal.Appended(); {
	case seq > last+1:
		return fmt.Errorf("replica: record %d was fetched, but the journal ends at %d", seq, last)
	case seq == last+1:
		return r.appendRecord(seq, record)
	case seq < r.journal.First():
		return nil
	}
	_, had, err := own.Next(ctx)
	if err != nil {
		return fmt.Errorf("%w: compare record %d: %w", errJournal, seq, err)
	}
	if !bytes.Equal(had, record) {
		return &BrokenError{fmt.Errorf("record %d differs from the leader's", seq)}
	}
	return nil
}
