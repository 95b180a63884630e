package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"outcry/internal/journal/trail"
)

const (
	// A failed write is retried after retryMin, and then after twice as long each time, up to retryMax.
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second

	// batchTimeMax is how long a write of a batch may take before it is given up and retried with fewer records. The
	// limit for a single record, which cannot be split, doubles at each retry up to recordTimeMax; a fixed limit could
	// stop the projection permanently.
	batchTimeMax  = time.Minute
	recordTimeMax = time.Hour

	// stillAfter is the time after which the log repeats that Postgres cannot be written.
	stillAfter = time.Minute
)

// write writes the batch, or a smaller one in its place, and retries without limit. It returns only errors of
// ctx and of the journal, and permanent ones.
func (p *Projector) write(ctx context.Context) (rows int64, err error) {
	for delay := retryMin; ; {
		rows, err = p.writeOnce(ctx)
		if err == nil || errors.Is(err, ErrTaken) || ctx.Err() != nil {
			break
		}
		p.failed(err)
		if !p.shrink(err) {
			if err = p.pause(ctx, &delay); err != nil {
				return 0, err
			}
		}
		var done bool
		if done, err = p.reconnect(ctx, &delay); done || err != nil {
			break
		}
		if err = p.refill(ctx); err != nil {
			return 0, err
		}
	}
	if err == nil {
		p.worked()
	}
	return rows, err
}

// writeOnce tries to write the batch once. The time limit matters because Postgres, or the network, may accept
// all data and never reply.
func (p *Projector) writeOnce(ctx context.Context) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return p.options.Store.write(ctx, p.batch)
}

// failed records a failed write and logs it, at most once per stillAfter. A lock that another session holds on
// a table does not mean that Postgres is down.
func (p *Projector) failed(err error) {
	if !hasCode(err, lockNotAvailable) {
		p.down.Store(true)
	}
	if time.Since(p.warned) >= stillAfter {
		p.options.Log.Warn("Postgres cannot be written to; trading continues, and the tables will catch up", "error", err)
		p.warned = time.Now()
	}
	if p.options.OnRetry != nil {
		p.options.OnRetry()
	}
}

// worked records a successful write.
func (p *Projector) worked() {
	p.limit = p.timeMax
	p.down.Store(false)
	if !p.warned.IsZero() {
		p.options.Log.Info("Postgres can be written to again", "applied_seq", p.batch.last)
		p.warned = time.Time{}
	}
}

// shrink halves the size of the next attempt, since the batch may have been too large for Postgres. It reports
// whether that is likely, so that a retry without a pause makes sense. A single record gets more time instead.
func (p *Projector) shrink(err error) (atOnce bool) {
	late := errors.Is(err, context.DeadlineExceeded)
	records := p.batch.records()
	switch {
	case hasCode(err, lockNotAvailable):
		return false // another session is the cause, whatever the size
	case records > 1:
		p.size = records / 2
		return late || tooMuch(err)
	case late:
		p.limit = min(2*p.limit, recordTimeMax)
	}
	return false
}

// tooMuch reports whether an error of Postgres means that a transaction was too large or took too long.
func tooMuch(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pgErr.Code {
	case "57014", "25P04", // query_canceled, such as by statement_timeout; transaction_timeout
		"53200", "53400", // out_of_memory, configuration_limit_exceeded
		"XX000": // internal_error, such as for a value above a gigabyte
		return true
	}
	return strings.HasPrefix(pgErr.Code, "54") // program_limit_exceeded
}

// pause waits for *delay, and doubles it up to retryMax. It returns ctx's error.
func pause(ctx context.Context, delay *time.Duration) error {
	select {
	case <-time.After(*delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	*delay = min(2**delay, retryMax)
	return nil
}

// reconnect reconnects, with retries without limit. It reports whether the batch is already committed: the
// connection may have broken between the commit and the reply. It returns only ctx's error and permanent ones.
func (p *Projector) reconnect(ctx context.Context, delay *time.Duration) (done bool, err error) {
	applied, err := p.options.Store.reconnect(ctx)
	for err != nil && !errors.Is(err, ErrTaken) {
		p.failed(err)
		if err := p.pause(ctx, delay); err != nil {
			return false, err
		}
		applied, err = p.options.Store.reconnect(ctx)
	}
	switch {
	case err != nil:
		return false, err
	case applied == p.batch.last:
		return true, nil
	case applied != p.batch.first-1:
		return false, fmt.Errorf("postgres: %w: it is at record %d, expected %d", errUnusable, applied, p.batch.first-1)
	}
	return false, nil
}

// refill rebuilds the batch if it may now have fewer records. The journal still has them, since they are not
// applied.
func (p *Projector) refill(ctx context.Context) error {
	if p.batch.records() <= p.size {
		return nil
	}
	records, err := p.options.Trail.Follow(trail.FollowOptions{After: p.batch.first - 1, HoldMax: math.MaxUint64})
	if err != nil {
		return fmt.Errorf("postgres: read the journal again: %w", err)
	}
	p.endAhead()
	p.records.Close()
	p.records = records
	p.batch.reset(p.batch.first - 1)
	err = p.fill(ctx)
	p.ahead.reset(p.batch.last)
	return err
}
