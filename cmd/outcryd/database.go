package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/postgres"
	"outcry/internal/postgres/cluster"
)

// While Postgres is away at a start, it is tried again after databaseRetryMin,
// then after twice as long each time, up to databaseRetryMax.
const (
	databaseRetryMin = 100 * time.Millisecond
	databaseRetryMax = 2 * time.Second
)

// database is Postgres as a start finds it.
type database struct {
	url      string
	number   string           // of the data directory, which its sessions have
	cluster  *cluster.Cluster // nil where the database is somebody else's
	store    *postgres.Store
	position postgres.Position
	aside    bool // the journal is to be set aside, and a new one begun
	snapshot *exchange.Snapshot
	traded   []exchange.TradedState // for market data, as is trades
	trades   []exchange.TradeState
}

// openDatabase starts the local cluster, where no database is named, connects,
// and reads the state. While Postgres is away it says so through waiting and
// tries again until ctx ends. The error is one that no further try will mend.
func openDatabase(ctx context.Context, c *config, log *slog.Logger, waiting func(error)) (*database, error) {
	d := &database{url: c.databaseURL}
	var err error
	if d.number, err = postgres.DirectoryNumber(c.data); err != nil {
		log.Warn("a later start will not know the sessions of this one", "error", err)
	}
	if d.url == "" {
		log.Info("starting the local Postgres cluster", "directory", c.clusterDir())
		local, err := cluster.Start(ctx, cluster.Options{Dir: c.clusterDir(), Log: log})
		if err != nil {
			return nil, err
		}
		d.cluster, d.url = local, local.URL()
	}
	for delay := databaseRetryMin; ; delay = min(2*delay, databaseRetryMax) {
		err := d.open(ctx, c, log)
		if err == nil {
			return d, nil
		}
		if _, refused := errors.AsType[*refusedError](err); refused || postgres.Unusable(err) || ctx.Err() != nil {
			d.close()
			return nil, err
		}
		waiting(err)
		log.Warn("waiting for Postgres", "error", err, "next_try_in", delay.String())
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			d.close()
			return nil, ctx.Err()
		}
	}
}

// open connects and reads the state, once, with market data where that is served.
func (d *database) open(ctx context.Context, c *config, log *slog.Logger) (err error) {
	check := func(p postgres.Position, upgrade bool) (err error) {
		d.aside, err = c.lookAtJournal(p, upgrade)
		return err
	}
	if d.store, err = postgres.OpenChecked(ctx, d.url, d.number, log, check); err != nil {
		return err
	}
	if d.position, err = d.store.Position(ctx); err == nil {
		d.snapshot, err = d.store.Load(ctx)
	}
	if err == nil && c.http != "" {
		d.traded, d.trades, err = d.store.LoadMarket(ctx)
	}
	if err != nil {
		d.store.Close()
		d.store = nil
	}
	return err
}

// close gives up the connection and stops the local cluster.
func (d *database) close() {
	if d.store != nil {
		d.store.Close()
	}
	if d.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
		defer cancel()
		_ = d.cluster.Stop(ctx) // it ends with this process in any case
	}
}

// clusterStopTimeout bounds how long the local cluster may take to stop.
const clusterStopTimeout = 20 * time.Second

// errJournalLost is wrapped where the database knows records that no journal has.
var errJournalLost = errors.New("records that were answered may be lost")

// journalLost explains a lost journal to whoever starts the server.
func journalLost(dir string, reaches uint64, p postgres.Position) error {
	return fmt.Errorf("the database holds records up to %d, the journal in %s reaches only to %d: %w, if they are not in the database. "+
		"Bring back the data directory that was used with this database, or go on from the database's state with --accept-journal-loss",
		p.Applied, dir, reaches, errJournalLost)
}
