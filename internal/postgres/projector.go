package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

const (
	// gatherTime is how long records may gather after a batch, while nobody waits
	// for Postgres. Bigger batches cost less a record: rows that change again and
	// again are written once, and a commit is shared. So it is also by how much the
	// tables lag under light load.
	gatherTime = 75 * time.Millisecond

	// gatherTimeBusy is how long they may gather under load, which is while each gatherStep brings gatherFew or more:
	// in larger batches each change of a position, a market or a candle stands for more records, and more orders come
	// and go without a row in resting_orders. Once the load has ended, the tables shall have all of it soon.
	gatherTimeBusy = 500 * time.Millisecond
	gatherStep     = 25 * time.Millisecond
	gatherFew      = 250

	// batchRecordsMax is how many records one transaction takes at the most. It
	// bounds memory, about a kilobyte a record without many fills, for one that is written and the next; and for how
	// long those wait who wait for Postgres. There are that many only when the projection is behind.
	batchRecordsMax = 50_000

	// batchExecutionsMax ends a batch earlier: orders may have thousands of executions each.
	batchExecutionsMax = 250_000

	// dropAgain is how often segments are tried again that another reader holds, or that
	// could not be deleted.
	dropAgain = 100 * time.Millisecond
)

// ProjectorOptions are what a Projector needs.
type ProjectorOptions struct {
	Store   *Store // the projector is its only user from now on
	Journal *journal.Journal
	Applied uint64 // what the tables include
	Log     *slog.Logger

	// OnBatch is called after each commit, by the projector's goroutine; nil
	// means that nobody is told.
	OnBatch func(records int, rows int64, took time.Duration)
	// OnRetry is called when Postgres could not be written.
	OnRetry func()
}

// Projector applies the journal's synced records to the tables, in batches. Its
// other methods may be called from any goroutine while Run runs.
type Projector struct {
	options ProjectorOptions
	reader  *journal.Reader
	batch   *batch // that is written next, or now
	ahead   *batch // what follows it
	decoder exchange.Decoder
	event   exchange.Event
	gather  func(gathered time.Duration, came int) bool           // gatherOn, except in tests
	timeMax time.Duration                                         // batchTimeMax, except in tests
	pause   func(ctx context.Context, delay *time.Duration) error // pause, except in tests
	applied atomic.Uint64
	down    atomic.Bool

	// For the goroutine of Run alone.
	size      int           // how many records the next batch may have, up to batchRecordsMax
	limit     time.Duration // how long it may take: timeMax, or more for one record
	warned    time.Time     // when the log said last that Postgres cannot be written
	undeleted bool          // the last try to delete segments failed

	taking  sync.WaitGroup // while batch is written, one goroutine has the reader, event and ahead
	takeErr error          // of that

	// mu guards changed, which is closed and replaced after each commit; ended,
	// which says why there will be none any more; waiting, how many calls wait for a
	// commit; and wanted, which is there while records gather, and is closed when a
	// call begins to wait.
	mu      sync.Mutex
	changed chan struct{}
	ended   error
	waiting int
	wanted  chan struct{}
}

// NewProjector prepares to go on after o.Applied. The error says that the
// journal does not reach back to there.
func NewProjector(o ProjectorOptions) (*Projector, error) {
	reader, err := o.Journal.NewReader(o.Applied + 1)
	if err != nil {
		return nil, fmt.Errorf("postgres: project after record %d: %w", o.Applied, err)
	}
	p := &Projector{options: o, reader: reader, batch: newBatch(), ahead: newBatch(), gather: gatherOn,
		timeMax: batchTimeMax, pause: pause, size: batchRecordsMax, limit: batchTimeMax, changed: make(chan struct{})}
	p.applied.Store(o.Applied)
	p.batch.reset(o.Applied)
	return p, nil
}

// Applied returns the seq up to which everything is committed.
func (p *Projector) Applied() uint64 { return p.applied.Load() }

// Down reports whether Postgres could not be written at the last try.
func (p *Projector) Down() bool { return p.down.Load() }

// WaitApplied returns once seq is committed. It returns ctx's error, or why the
// projector has ended. While a call waits, records are written as they come.
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

// boost says that somebody waits for a commit, and endBoost that they no longer do.
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

// Run projects until ctx ends, the journal closes, or the database is taken by
// another server, or stands where this one has not brought it. It returns why; ctx's end
// and the journal's are nil. Whatever else there is with Postgres, it tries again and
// again.
func (p *Projector) Run(ctx context.Context) error {
	defer func() { p.reader.Close() }()
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
		p.takeAhead()
		rows, err := p.write(ctx)
		p.taking.Wait()
		if err != nil {
			return err
		}
		if p.options.OnBatch != nil {
			p.options.OnBatch(p.batch.records(), rows, time.Since(start))
		}
		full := p.batch.full(p.size)
		p.commit()
		if p.takeErr != nil {
			return p.takeErr
		}
		if !full {
			if err := p.letGather(ctx); err != nil {
				return err
			}
		}
		// Slowly, after it was too much: what is too much now and then costs its time again.
		p.size = min(p.size+p.size/8+1, batchRecordsMax)
	}
}

// takeAhead begins to make the batch that follows while this one is written: neither this process nor Postgres waits
// for the other one. What it comes to is known once taking is done.
func (p *Projector) takeAhead() {
	p.ahead.reset(p.batch.last)
	size := p.size // which the writer may change
	p.taking.Go(func() { p.takeErr = p.take(p.ahead, size) })
}

// gatherOn reports whether records gather on that have done so for some time, when so many came in the last gatherStep.
func gatherOn(gathered time.Duration, came int) bool {
	return gathered < gatherTime || gathered < gatherTimeBusy && came >= gatherFew
}

// letGather takes records into the batch while they gather, until it is full, or somebody wants it to be committed.
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
	came := 0
	for gathered := time.Duration(0); !p.batch.full(p.size) && p.gather(gathered, came); gathered += gatherStep {
		select {
		case <-step.C:
		case <-wanted:
			return nil
		case <-ctx.Done():
			return nil
		}
		came = -p.batch.records()
		if err := p.take(p.batch, p.size); err != nil {
			return err
		}
		came += p.batch.records()
	}
	return nil
}

// next waits for the next record. Segments that another reader of the journal held
// when the last batch was committed, or that the journal has come to since, are deleted
// as soon as they may be: on a full disk no batch comes before that.
func (p *Projector) next(ctx context.Context) (seq uint64, record []byte, err error) {
	for {
		soon, cancel := context.WithTimeout(ctx, dropAgain)
		seq, record, err = p.reader.Next(soon)
		cancel()
		switch {
		case err == nil:
			return seq, record, nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return 0, nil, fmt.Errorf("postgres: read the journal: %w", err)
		}
		p.removeApplied()
	}
}

// removeApplied deletes the segments of the journal whose records Postgres has. Those
// that cannot be deleted are tried again later: they take room, and nothing else.
func (p *Projector) removeApplied() {
	err := p.options.Journal.RemoveBefore(p.applied.Load() + 1)
	switch {
	case err != nil && !p.undeleted:
		p.options.Log.Warn("an old segment of the journal cannot be deleted; trading goes on, and it is tried again",
			"error", err)
	case err == nil && p.undeleted:
		p.options.Log.Info("old segments of the journal can be deleted again")
	}
	p.undeleted = err != nil
}

// fill waits for a record, unless the batch has some, and takes all that are there with it into the batch.
func (p *Projector) fill(ctx context.Context) error {
	if p.batch.records() == 0 {
		seq, record, err := p.next(ctx)
		if err == nil {
			err = p.add(p.batch, seq, record)
		}
		if err != nil {
			return err
		}
	}
	return p.take(p.batch, p.size)
}

// take takes the records that are there into a batch, which is to have up to size.
func (p *Projector) take(b *batch, size int) error {
	for !b.full(size) {
		seq, record, ok, err := p.reader.TryNext()
		if err != nil {
			return fmt.Errorf("postgres: read the journal: %w", err)
		}
		if !ok {
			return nil
		}
		if err := p.add(b, seq, record); err != nil {
			return err
		}
	}
	return nil
}

// add adds a record to a batch.
func (p *Projector) add(b *batch, seq uint64, record []byte) error {
	if err := p.decoder.Decode(record, &p.event); err != nil {
		return fmt.Errorf("postgres: journal record %d: %w", seq, err)
	}
	return b.add(seq, &p.event)
}

// commit publishes that the batch is committed, goes on to what was taken meanwhile,
// and drops the journal segments that are no longer needed.
func (p *Projector) commit() {
	p.applied.Store(p.batch.last)
	p.batch, p.ahead = p.ahead, p.batch
	p.mu.Lock()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.removeApplied()
}
