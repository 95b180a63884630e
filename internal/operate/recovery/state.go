package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/process/progress"
)

// OpenJournal opens the journal of a standalone server after checkJournal has accepted it. It sets the
// old journal aside if necessary, and creates a new one that begins after the database's state if there
// is none. It then registers the journal in the database, and retries while Postgres is unavailable.
func OpenJournal(
	ctx context.Context, c *settings.Config, d *Database, o journal.Options, log *slog.Logger,
) (*journal.Journal, error) {
	if d.aside {
		aside := "aside-" + time.Now().UTC().Format("20060102T150405Z")
		if err := journal.SetAside(c.JournalDir(), aside); err != nil {
			return nil, err
		}
		log.Warn("the journal ended before the database's state and was set aside",
			"directory", filepath.Join(c.JournalDir(), aside))
	}
	o.FirstSeq = d.Position.Applied + 1
	j, err := journal.Open(c.JournalDir(), o)
	if err != nil {
		return nil, err
	}
	if err = follow(ctx, j, c, d, log); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// follow calls registerJournal and retries while Postgres is unavailable.
func follow(ctx context.Context, j *journal.Journal, c *settings.Config, d *Database, log *slog.Logger) error {
	err := registerJournal(ctx, j, c, d)
	delay := databaseRetryMin
	for ; err != nil && !postgres.Unusable(err) && ctx.Err() == nil; delay = min(2*delay, databaseRetryMax) {
		log.Warn("waiting for Postgres", "error", err, "next_try_in", delay.String())
		select {
		case <-time.After(delay):
			err = registerJournal(ctx, j, c, d)
		case <-ctx.Done():
		}
	}
	return err
}

// registerJournal registers the journal in the database, so that its projection follows it. If the journal
// replaces a lost one, order ids that clients may have received are skipped.
func registerJournal(ctx context.Context, j *journal.Journal, c *settings.Config, d *Database) error {
	p := &d.Position
	lost := j.Appended() < j.First() && p.Journal != j.ID() && (p.Applied > 0 || p.Journal != [16]byte{})
	if !lost || p.Ack == settings.AckPostgres {
		ack := c.Ack
		if ack == settings.AckPostgres && p.Ack != settings.AckPostgres && j.Appended() > p.Applied {
			ack = p.Ack // records after Applied were answered without Postgres; the next start checks again
		}
		return d.Store.SetJournal(ctx, j.ID(), ack)
	}
	newest, err := d.Store.NewestOrder(ctx)
	if err == nil {
		p.OrdersAfter, err = d.Store.ReplaceJournal(ctx, j.ID(), c.Ack, backup.SkipOrders(newest))
	}
	return err
}

// refusedError has the reason why a database and journal were refused. Neither was changed.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// checkJournal checks the journal in the data directory with judge, before the database is opened, and
// reports whether the journal must be set aside. It changes nothing. It reads the newest segment. Before
// steps that cannot be undone, which are an upgrade of the schema and setting aside, it reads all segments
// to find damage. The error is a *refusedError.
func checkJournal(c *settings.Config, p postgres.Position, upgrade bool) (aside bool, err error) {
	found, err := journal.Peek(c.JournalDir(), exchange.EventVersion)
	if err == nil {
		aside, err = judge(c, found, p)
	}
	if err == nil && found.Segments > 0 && (upgrade || aside) {
		_, err = journal.Inspect(c.JournalDir(), exchange.EventVersion, func(uint64, []byte) error { return nil })
	}
	if err != nil {
		return false, &refusedError{err}
	}
	return aside, nil
}

// judge decides what to do with the journal that belongs to a database. It returns false to use that journal, or a new
// one if there is none; true to set it aside and begin a new one; or an error that is the reason to refuse the start.
func judge(c *settings.Config, found journal.Summary, p postgres.Position) (aside bool, err error) {
	// If every answer waited for Postgres, losing the journal loses no answered command.
	mayLose := c.AcceptJournalLoss || p.Ack == settings.AckPostgres
	registered := p.Journal != [16]byte{}
	foreign, empty := registered && p.Journal != found.ID, found.Last < found.First
	switch {
	case found.Segments == 0 && (p.Applied > 0 || registered) && !mayLose:
		return false, journalLost(c.JournalDir(), 0, p)
	case found.Segments == 0:
		return false, nil
	case foreign && !empty: // not set aside either: its own exchange needs it
		return false, foreignJournal(c.JournalDir(), found.ID, p)
	case found.First > p.Applied+1:
		return false, fmt.Errorf("the database holds records up to %d, but the journal in %s begins at %d: "+
			"the database is older than the journal's start. Restore a newer backup of it",
			p.Applied, c.JournalDir(), found.First)
	case (foreign || found.Last < p.Applied) && !mayLose:
		return false, journalLost(c.JournalDir(), found.Last, p)
	}
	return found.Last < p.Applied, nil
}

// foreignJournal returns the error for a journal that belongs to another database.
func foreignJournal(dir string, id [16]byte, p postgres.Position) error {
	return fmt.Errorf("the journal in %s (%x) is not the one that the database follows (%x): "+
		"this data directory belongs to another database", dir, id, p.Journal)
}

// progressInterval is the interval of progress lines in the log. Tests shorten it.
var progressInterval = progress.LineEvery

// Restore builds the exchange's state: it loads the database's snapshot, replays the later records that the
// journal has at the time of the call, and checks every invariant. It returns the state and the seq of
// its last record.
func Restore(
	ctx context.Context, d *Database, j *journal.Journal, log *slog.Logger,
) (*exchange.State, uint64, error) {
	start := time.Now()
	stop := progress.Log(log, progressInterval, "building the state",
		func() []any { return []any{"since", time.Since(start).Round(time.Second).String()} })
	state, err := d.Snapshot.Restore()
	stop()
	if err != nil {
		return nil, 0, fmt.Errorf("the database's state at record %d does not add up: %w", d.Snapshot.Seq, err)
	}
	d.Snapshot.Accounts, d.Snapshot.Positions, d.Snapshot.Orders = nil, nil, nil
	last := j.Appended()
	if last > d.Position.Applied {
		if err := replay(ctx, state, j, d.Position.Applied+1, last, log); err != nil {
			return nil, 0, err
		}
		if err := state.Audit(); err != nil {
			return nil, 0, fmt.Errorf("the journal's state at record %d does not add up: %w", last, err)
		}
	}
	log.Info("state loaded", "seq", last, "replayed", last-d.Position.Applied, "accounts", state.Ledger.Accounts(),
		"symbols", len(state.Books), "last_order", state.OrderID, "digest", Digest(state),
		"took", time.Since(start).Round(time.Millisecond).String())
	return state, last, nil
}

// Digest returns a state's digest in hexadecimal, as shown in logs and by `outcry verify`.
func Digest(s *exchange.State) string { return fmt.Sprintf("%x", s.Digest()) }

// replay applies the journal's records from first to last to state.
func replay(
	ctx context.Context, state *exchange.State, j *journal.Journal, first, last uint64, log *slog.Logger,
) error {
	r, err := j.NewReader(first)
	if err != nil {
		return err
	}
	defer r.Close()
	var done atomic.Uint64
	stop := progress.Log(log, progressInterval, "replaying the journal",
		func() []any { return []any{"seq", done.Load(), "of", last} })
	defer stop()
	var e exchange.Event
	for seq := uint64(0); seq < last; {
		var record []byte
		if seq, record, err = r.Next(ctx); err != nil {
			return err
		}
		if err := exchange.DecodeEvent(record, &e); err != nil {
			return fmt.Errorf("journal record %d: %w", seq, err)
		}
		if err := state.Apply(&e); err != nil {
			return fmt.Errorf("journal record %d does not replay as recorded: %w", seq, err)
		}
		done.Store(seq)
	}
	return nil
}
