// Package recovery finds out where an exchange goes on at a start: it opens the database,
// judges the journal beside it before either is changed, and makes the state of both. It
// is apart from the wiring since what is lost or kept after a crash is decided here.
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

// While Postgres is away at a start, it is tried again after databaseRetryMin,
// then after twice as long each time, up to databaseRetryMax.
const (
	databaseRetryMin = 100 * time.Millisecond
	databaseRetryMax = 2 * time.Second
)

// Database is Postgres as a start finds it.
type Database struct {
	URL      string
	Number   string         // of the data directory, which its sessions have
	Cluster  *local.Cluster // nil if the database is somebody else's
	Store    *postgres.Store
	Position postgres.Position
	Snapshot *exchange.Snapshot     // of which Restore lets go
	Traded   []exchange.TradedState // for market data, as are Trades and Candles
	Trades   []exchange.TradeState
	Candles  []exchange.CandleState

	journal *journal.Journal // of a node of a cluster, else nil
	aside   bool             // the journal is to be set aside, and a new one begun
}

// OpenDatabase starts the local cluster, if no database is named, connects,
// and reads the state. While Postgres is away it says so through waiting and
// tries again until ctx ends. The error is one that no further try will mend.
//
// The journal of a node of a cluster is open already, and may grow meanwhile; of a server
// alone j is nil, and OpenJournal follows.
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

// open connects and reads the state, once, with market data if that is served.
func (d *Database) open(ctx context.Context, c *settings.Config, log *slog.Logger) (err error) {
	check := func(p postgres.Position, upgrade bool) (err error) {
		if d.journal != nil {
			return judgeMember(c, d.journal, p)
		}
		d.aside, err = lookAtJournal(c, p, upgrade)
		return err
	}
	if d.Store, err = postgres.OpenChecked(ctx, d.URL, d.Number, log, check); err != nil {
		return err
	}
	begun := time.Now()
	defer progress.Log(log, sayEvery, "loading the state from Postgres",
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

// Close gives up the connection and stops the local cluster.
func (d *Database) Close() {
	if d.Store != nil {
		d.Store.Close()
	}
	if d.Cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
		defer cancel()
		_ = d.Cluster.Stop(ctx) // it ends with this process in any case
	}
}

// clusterStopTimeout bounds how long the local cluster may take to stop.
const clusterStopTimeout = 20 * time.Second

// errJournalLost is wrapped if the database knows records that no journal has.
var errJournalLost = errors.New("records that were answered may be lost")

// journalLost explains a lost journal to those who start the server.
func journalLost(dir string, reaches uint64, p postgres.Position) error {
	return fmt.Errorf("the database holds records up to %d, the journal in %s reaches only to %d: %w, "+
		"if they are not in the database. Bring back the data directory that was used with this database, "+
		"or go on from the database's state with --accept-journal-loss",
		p.Applied, dir, reaches, errJournalLost)
}
