package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
)

const (
	// gatherTime is how long records may gather after a batch while no call waits for Postgres. Bigger batches
	// cost less per record: a row that changes repeatedly is written once, and records share a commit. It is
	// also the lag of the tables under light load.
	gatherTime = 75 * time.Millisecond

	// gatherTimeBusy is how long records may gather under load, that is, while each gatherStep brings at least
	// gatherFew of them. In a larger batch each written position, market or candle covers more records, and
	// more orders open and close without a row in resting_orders. After the load has ended, the tables should
	// catch up soon.
	gatherTimeBusy = 500 * time.Millisecond
	gatherStep     = 25 * time.Millisecond
	gatherFew      = 250

	// batchRecordsMax is the maximum number of records that one transaction writes. It bounds memory, which is about a
	// kilobyte per record without many fills, for the batch being written and the next one. It also bounds how long
	// callers wait for Postgres. Batches get that large only when the projection lags.
	batchRecordsMax = 50_000

	// batchExecutionsMax also ends a batch, because an order may have thousands of executions.
	batchExecutionsMax = 250_000

	// dropAgain is the time between attempts to delete segments that another reader holds, or that could not be
	// deleted.
	dropAgain = 100 * time.Millisecond
)

// ProjectorOptions configure a Projector.
type ProjectorOptions struct {
	Store   *Store // no other code may use the Store from now on
	Journal *journal.Journal
	Trail   *trail.Trail[exchange.KeptEvent] // of the Journal
	Applied uint64                           // last record that the tables include
	Log     *slog.Logger

	// OnBatch is called after each commit, on the projector's goroutine. It may be nil.
	OnBatch func(records int, rows int64, took time.Duration)
	// OnRetry is called after each failed attempt to write to Postgres.
	OnRetry func()
}

// Projector applies the journal's synced records to the tables, in batches. All methods except Run are safe
// for concurrent use.
type Projector struct {
	options ProjectorOptions
	records *trail.Follower[exchange.KeptEvent]
	batch   *batch                                                // batch being written, or to be written next
	ahead   *batch                                                // batch after that one
	gather  func(gathered time.Duration, arrived int) bool        // gatherOn; tests replace it
	timeMax time.Duration                                         // batchTimeMax; tests replace it
	pause   func(ctx context.Context, delay *time.Duration) error // pause; tests replace it
	applied atomic.Uint64
	down    atomic.Bool

	// Only the goroutine of Run uses the fields below.
	size      int           // most records that the next batch may have, up to batchRecordsMax
	limit     time.Duration // time limit of the next batch: timeMax, or more for a single record
	warned    time.Time     // when the log last said that Postgres cannot be written
	undeleted bool          // the last attempt to delete segments failed

	enough   context.CancelFunc // ends the goroutine of fillAhead
	filling  sync.WaitGroup     // while batch is written, a goroutine owns records and ahead
	aheadErr error              // that goroutine's error

	// mu guards the fields below. changed is closed and replaced after each commit. ended is why there will be
	// no further commits. waiting is the number of calls that wait for a commit. wanted is not nil while
	// records gather, and is closed when a call begins to wait.
	mu      sync.Mutex
	changed chan struct{}
	ended   error
	waiting int
	wanted  chan struct{}
}

// NewProjector prepares to apply the records after o.Applied. It returns an error if the journal no longer has
// the record o.Applied+1.
func NewProjector(o ProjectorOptions) (*Projector, error) {
	records, err := o.Trail.Follow(trail.FollowOptions{After: o.Applied, HoldMax: math.MaxUint64})
	if err != nil {
		return nil, fmt.Errorf("postgres: project after record %d: %w", o.Applied, err)
	}
	p := &Projector{options: o, records: records, batch: newBatch(), ahead: newBatch(), gather: gatherOn,
		timeMax: batchTimeMax, pause: pause, enough: func() {}, size: batchRecordsMax, limit: batchTimeMax,
		changed: make(chan struct{})}
	p.applied.Store(o.Applied)
	p.batch.reset(o.Applied)
	return p, nil
}

// Applied returns the seq of the last committed record.
func (p *Projector) Applied() uint64 { return p.applied.Load() }

// Down reports whether the last attempt to write to Postgres failed.
func (p *Projector) Down() bool { return p.down.Load() }

// WaitApplied waits until seq is committed. It returns ctx's error, or why the projector has ended. While a
// call waits, records are written without gathering first.
func (p *Projector) WaitApplied(ctx context.Context, seq uint64) error {
	if p.applied.Load() >= seq {
		return nil
	}
	p.boost()
	defer p.endBoost()
	for {
		p.mu.Lock()
		changed, ended := p.changed, p.ended
		p.mu.Unlock()
		switch {
		case p.applied.Load() >= seq:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// boost records that a call waits for a commit, which ends gathering; endBoost records that it no longer waits.
func (p *Projector) boost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	if p.wanted != nil {
		close(p.wanted)
		p.wanted = nil
	}
}

func (p *Projector) endBoost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}

// Run applies records until ctx ends, the journal closes, another server takes the database, or the database is at a
// record that this server has not projected. It returns nil when ctx ends or the journal closes, and the cause
// otherwise. After any other error of Postgres it retries, without limit.
func (p *Projector) Run(ctx context.Context) error {
	defer func() { p.records.Close() }()
	err := p.run(ctx)
	if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
		err = nil
	}
	ended := err
	if ended == nil {
		ended = errors.New("postgres: the projector has stopped")
	}
	p.mu.Lock()
	p.ended = ended
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	return err
}

func (p *Projector) run(ctx context.Context) error {
	for {
		if err := p.fill(ctx); err != nil {
			return err
		}
		start := time.Now()
		p.fillAhead(ctx)
		rows, err := p.write(ctx)
		p.endAhead()
		if err != nil {
			return err
		}
		if p.options.OnBatch != nil {
			p.options.OnBatch(p.batch.records(), rows, time.Since(start))
		}
		full := p.batch.full(p.size)
		p.commit()
		if p.aheadErr != nil {
			return p.aheadErr
		}
		if !full {
			if err := p.letGather(ctx); err != nil {
				return err
			}
		}
		// Grow slowly: a size that is too large again costs the time of a failed attempt.
		p.size = min(p.size+p.size/8+1, batchRecordsMax)
	}
}

// fillAhead starts to fill the next batch while the current one is written, so that neither this process nor Postgres
// waits for the other, and so that under load the records are still in the trail's ring. endAhead ends it; after that,
// ahead and aheadErr may be read.
func (p *Projector) fillAhead(ctx context.Context) {
	p.ahead.reset(p.batch.last)
	size := p.size // the writer may change p.size
	ctx, p.enough = context.WithCancel(ctx)
	p.filling.Go(func() {
		for {
			if p.aheadErr = p.addAvailable(p.ahead, size); p.aheadErr != nil || p.ahead.full(size) {
				return
			}
			if !p.records.Sleep(ctx, p.ahead.last, false) {
				return
			}
		}
	})
}

// endAhead ends what fillAhead started.
func (p *Projector) endAhead() {
	p.enough()
	p.filling.Wait()
}

// gatherOn reports whether records should gather for longer. gathered is how long they have gathered so far, and
// arrived is how many arrived in the last gatherStep.
func gatherOn(gathered time.Duration, arrived int) bool {
	return gathered < gatherTime || gathered < gatherTimeBusy && arrived >= gatherFew
}

// letGather adds records to the batch as they arrive, until gather returns false, the batch is full, or a call
// waits for a commit.
func (p *Projector) letGather(ctx context.Context) error {
	wanted := make(chan struct{})
	p.mu.Lock()
	if p.waiting > 0 {
		close(wanted)
	} else {
		p.wanted = wanted
	}
	p.mu.Unlock()
	step := time.NewTicker(gatherStep)
	defer step.Stop()
	arrived := 0
	for gathered := time.Duration(0); !p.batch.full(p.size) && p.gather(gathered, arrived); gathered += gatherStep {
		select {
		case <-step.C:
		case <-wanted:
			return nil
		case <-ctx.Done():
			return nil
		}
		arrived = -p.batch.records()
		if err := p.addAvailable(p.batch, p.size); err != nil {
			return err
		}
		arrived += p.batch.records()
	}
	return nil
}

// next waits for the next record. While it waits, it retries the deletion of applied segments, such as those
// that another reader held at the last commit: on a full disk no further record arrives until one is deleted.
func (p *Projector) next(ctx context.Context) (seq uint64, kept *exchange.KeptEvent, err error) {
	for {
		soon, cancel := context.WithTimeout(ctx, dropAgain)
		seq, kept, err := p.records.Next(soon)
		cancel()
		switch {
		case err == nil:
			return seq, kept, nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return 0, nil, fmt.Errorf("postgres: read the journal: %w", err)
		}
		p.removeApplied()
	}
}

// removeApplied deletes the journal's segments whose records Postgres has. If a segment cannot be deleted, it retries
// later; the segment only uses disk space.
func (p *Projector) removeApplied() {
	err := p.options.Journal.RemoveBefore(p.applied.Load() + 1)
	switch {
	case err != nil && !p.undeleted:
		p.options.Log.Warn("an old segment of the journal cannot be deleted; trading continues, and the deletion is retried",
			"error", err)
	case err == nil && p.undeleted:
		p.options.Log.Info("old segments of the journal can be deleted again")
	}
	p.undeleted = err != nil
}

// fill waits until the batch has a record, then adds all further records that are available.
func (p *Projector) fill(ctx context.Context) error {
	if p.batch.records() == 0 {
		seq, kept, err := p.next(ctx)
		if err == nil {
			err = p.batch.add(seq, kept)
		}
		if err != nil {
			return err
		}
	}
	return p.addAvailable(p.batch, p.size)
}

// addAvailable adds the available records to b, until it has size of them.
func (p *Projector) addAvailable(b *batch, size int) error {
	for !b.full(size) {
		seq, kept, ok, err := p.records.TryNext()
		if err != nil {
			return fmt.Errorf("postgres: read the journal: %w", err)
		}
		if !ok {
			return nil
		}
		if err := b.add(seq, kept); err != nil {
			return err
		}
	}
	return nil
}

// commit publishes that the batch is committed, makes the next batch the current one, and deletes journal
// segments that are no longer needed.
func (p *Projector) commit() {
	p.applied.Store(p.batch.last)
	p.batch, p.ahead = p.ahead, p.batch
	p.mu.Lock()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.removeApplied()
}
