// Package recovery restores an exchange at start: it opens the database, checks the journal against it before either
// is changed, and builds the state from both. It is separate from cmd/outcryd because it decides what is kept or lost
// after a crash.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/postgres/local"
	"outcry/internal/process/progress"
)

// Delays between attempts to reach Postgres at start: the first is databaseRetryMin; each is twice
// the previous one, up to databaseRetryMax.
const (
	databaseRetryMin = 100 * time.Millisecond
	databaseRetryMax = 2 * time.Second
)

// Database is the open database together with the state that was read from it.
type Database struct {
	URL      string
	Number   string         // number of the data directory; identifies its database sessions
	Cluster  *local.Cluster // local cluster; nil if the database is an external one
	Store    *postgres.Store
	Position postgres.Position
	Snapshot *exchange.Snapshot     // Restore clears its accounts, positions and orders to free memory
	Traded   []exchange.TradedState // market data, like Trades and Candles; nil if HTTP is off
	Trades   []exchange.TradeState
	Candles  []exchange.CandleState

	journal *journal.Journal // journal of a cluster node; nil for a standalone server
	aside   bool             // the old journal must be set aside and a new one begun
}

// OpenDatabase starts the local cluster if no database is configured, connects, and reads the
// state. While Postgres is unavailable, it calls waiting with the error and retries until ctx ends.
// The error is ctx's, or one that retrying cannot fix.
//
// For a cluster node, j is its journal, which is open already and may grow during the call. For a
// standalone server j is nil, and the caller calls OpenJournal next.
func OpenDatabase(
	ctx context.Context, c *settings.Config, j *journal.Journal, log *slog.Logger, waiting func(error),
) (*Database, error) {
	d := &Database{URL: c.DatabaseURL, journal: j}
	var err error
	if d.Number, err = postgres.DirectoryNumber(c.Data); err != nil {
		log.Warn("a later start will not know the sessions of this one", "error", err)
	}
	if d.URL == "" {
		log.Info("starting the local Postgres cluster", "directory", c.ClusterDir())
		local, err := local.Start(ctx, local.Options{Dir: c.ClusterDir(), Log: log})
		if err != nil {
			return nil, err
		}
		d.Cluster, d.URL = local, local.URL()
	}
	for delay := databaseRetryMin; ; delay = min(2*delay, databaseRetryMax) {
		err := d.open(ctx, c, log)
		if err == nil {
			return d, nil
		}
		if _, refused := errors.AsType[*refusedError](err); refused || postgres.Unusable(err) || ctx.Err() != nil {
			d.Close()
			return nil, err
		}
		waiting(err)
		log.Warn("waiting for Postgres", "error", err, "next_try_in", delay.String())
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			d.Close()
			return nil, ctx.Err()
		}
	}
}

// open makes one attempt to connect and read the state, including market data if HTTP is served.
func (d *Database) open(ctx context.Context, c *settings.Config, log *slog.Logger) (err error) {
	check := func(p postgres.Position, upgrade bool) (err error) {
		if d.journal != nil {
			return judgeMember(c, d.journal, p)
		}
		d.aside, err = checkJournal(c, p, upgrade)
		return err
	}
	if d.Store, err = postgres.OpenChecked(ctx, d.URL, d.Number, log, check); err != nil {
		return err
	}
	begun := time.Now()
	defer progress.Log(log, progressInterval, "loading the state from Postgres",
		func() []any { return []any{"since", time.Since(begun).Round(time.Second).String()} })()
	if d.Position, err = d.Store.Position(ctx); err == nil {
		d.Snapshot, err = d.Store.Load(ctx)
	}
	if err == nil && c.HTTP != "" {
		if d.Traded, d.Trades, err = d.Store.LoadMarket(ctx); err == nil {
			d.Candles, err = d.Store.LoadCandles(ctx)
		}
	}
	if err != nil {
		d.Store.Close()
		d.Store = nil
	}
	return err
}

// Close closes the connections and stops the local cluster.
func (d *Database) Close() {
	if d.Store != nil {
		d.Store.Close()
	}
	if d.Cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
		defer cancel()
		_ = d.Cluster.Stop(ctx) // on failure it still ends with this process
	}
}

// clusterStopTimeout is how long Close waits for the local cluster to stop.
const clusterStopTimeout = 20 * time.Second

// errJournalLost says that the database holds records that the journal does not have.
var errJournalLost = errors.New("records that were answered may be lost")

// journalLost returns the error for a lost journal, with advice to the operator. reaches is the last
// record of the journal found in dir.
func journalLost(dir string, reaches uint64, p postgres.Position) error {
	return fmt.Errorf("the database holds records up to %d, the journal in %s reaches only to %d: %w, "+
		"if they are not in the database. Bring back the data directory that was used with this database, "+
		"or continue from the database's state with --accept-journal-loss",
		p.Applied, dir, reaches, errJournalLost)
}
