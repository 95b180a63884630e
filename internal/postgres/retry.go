package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// A write that failed is tried again after retryMin, then after twice as
	// long each time, up to retryMax.
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second

	// batchTimeMax is how long a batch may take before it is given up, and tried smaller.
	// One record may take twice as long each time, up to recordTimeMax: it cannot be made
	// smaller, and a limit that it never keeps would stop the tables for good.
	batchTimeMax  = time.Minute
	recordTimeMax = time.Hour

	// stillAfter is how often the log says again that Postgres cannot be written.
	stillAfter = time.Minute
)

// write writes the batch, however often it takes, or a smaller one in its place. It
// returns only ctx's error, the journal's, and those that no further try will mend.
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

// writeOnce tries the batch once, for as long as it may take. Postgres may take all that
// is sent and answer nothing.
func (p *Projector) writeOnce(ctx context.Context) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	return p.options.Store.write(ctx, p.batch)
}

// failed notes that Postgres could not be written, and says so now and then. That
// somebody has locked a table does not mean that it is away.
func (p *Projector) failed(err error) {
	if !hasCode(err, lockNotAvailable) {
		p.down.Store(true)
	}
	if time.Since(p.warned) >= stillAfter {
		p.options.Log.Warn("Postgres cannot be written; trading goes on, the tables will catch up", "error", err)
		p.warned = time.Now()
	}
	if p.options.OnRetry != nil {
		p.options.OnRetry()
	}
}

// worked notes that Postgres could be written.
func (p *Projector) worked() {
	p.limit = p.timeMax
	p.down.Store(false)
	if !p.warned.IsZero() {
		p.options.Log.Info("Postgres can be written again", "applied_seq", p.batch.last)
		p.warned = time.Time{}
	}
}

// shrink has the next try be half as large, since it may have been the batch that was too
// much for Postgres. It reports whether that is likely, and so worth a try at once. A
// single record gets more time instead.
func (p *Projector) shrink(err error) (atOnce bool) {
	late := errors.Is(err, context.DeadlineExceeded)
	records := p.batch.records()
	switch {
	case hasCode(err, lockNotAvailable):
		return false // it is another session, whatever the size
	case records > 1:
		p.size = records / 2
		return late || tooMuch(err)
	case late:
		p.limit = min(2*p.limit, recordTimeMax)
	}
	return false
}

// tooMuch reports whether an answer of Postgres says that a transaction was too large, or
// took too long.
func tooMuch(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pgErr.Code {
	case "57014", "25P04", // query_canceled, as by statement_timeout; transaction_timeout
		"53200", "53400", // out_of_memory, configuration_limit_exceeded
		"XX000": // internal_error, as for a value above a gigabyte
		return true
	}
	return strings.HasPrefix(pgErr.Code, "54") // program_limit_exceeded
}

// pause waits for delay, and doubles it up to retryMax. The error is ctx's.
func pause(ctx context.Context, delay *time.Duration) error {
	select {
	case <-time.After(*delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	*delay = min(2**delay, retryMax)
	return nil
}

// reconnect connects again, however often it takes, and reports whether the batch turned
// out to be committed: the connection may have broken after the commit and before its
// answer. The error is ctx's, or no further try will mend it.
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
		return false, fmt.Errorf("postgres: %w: it stands at record %d, expected %d", errUnusable, applied, p.batch.first-1)
	}
	return false, nil
}

// refill makes the batch anew if it has become smaller. The journal still has its
// records, since they are not applied.
func (p *Projector) refill(ctx context.Context) error {
	if p.batch.records() <= p.size {
		return nil
	}
	reader, err := p.options.Journal.NewReader(p.batch.first)
	if err != nil {
		return fmt.Errorf("postgres: read the journal again: %w", err)
	}
	p.taking.Wait()
	p.reader.Close()
	p.reader = reader
	p.batch.reset(p.batch.first - 1)
	err = p.fill(ctx)
	p.ahead.reset(p.batch.last)
	return err
}
