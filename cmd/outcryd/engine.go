package main

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/recovery"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
)

// startEngine opens the journal, restores the state, and starts the engine with its followers.
func (s *server) startEngine(ctx context.Context) (err error) {
	if s.journal, err = recovery.OpenJournal(ctx, s.config, s.database, s.journalOptions(), s.log); err != nil {
		return err
	}
	s.trail = engine.NewTrail(s.journal)
	s.marks.Synced(s.journal.Appended(), time.Now())
	state, _, err := s.load(ctx)
	if err != nil {
		return err
	}
	o := s.engineOptions(s.journal)
	o.State, o.AckPostgres = state, s.config.Ack == settings.AckPostgres
	s.engine = engine.New(o)
	s.engine.SetLimits(engineLimits(s.config))
	if err := s.resumeEngine(ctx); err != nil {
		return err
	}
	s.metrics.watch(s.engine.Stats, s.engine.Reconcile, s.journal, s.projector)
	s.runFollowers()
	s.metrics.watchLag(&s.marks, s.projector)
	return nil
}

// resumeEngine executes the cancels that came due while the exchange was down, before clients can connect.
func (s *server) resumeEngine(ctx context.Context) error {
	if err := s.engine.Catchup(ctx); err != nil {
		return fmt.Errorf("cancel what was due while the exchange was down: %w", err)
	}
	if err := s.engine.Refusing(); err != nil {
		s.log.Warn("no orders are accepted yet", "error", err)
	}
	return nil
}

// journalOptions returns the options for the journal of committed records.
func (s *server) journalOptions() journal.Options {
	o := journal.Options{Version: exchange.EventVersion, SegmentBytes: s.config.SegmentBytes}
	o.OnSync = func(records, bytes int, took time.Duration) {
		s.metrics.synced(records, bytes, took)
		s.marks.Synced(uint64(records), time.Now())
	}
	return o
}

// load restores the state from the open database and journal, starts the projector, and prepares the market data
// feed and the view of accounts, which runFollowers starts. It returns the state and the seq of its last record.
func (s *server) load(ctx context.Context) (*exchange.State, uint64, error) {
	if err := s.newFeed(s.database.Snapshot); err != nil { // before Restore, which releases the snapshot
		return nil, 0, err
	}
	if err := s.newView(s.database.Snapshot); err != nil {
		return nil, 0, err
	}
	state, seq, err := recovery.Restore(ctx, s.database, s.journal, s.log)
	if err != nil {
		return nil, 0, err
	}
	if s.history, err = postgres.OpenHistory(ctx, s.database.URL, s.database.Number); err != nil {
		return nil, 0, err
	}
	s.projector, err = postgres.NewProjector(postgres.ProjectorOptions{
		Store: s.database.Store, Journal: s.journal, Trail: s.trail, Applied: s.database.Position.Applied, Log: s.log,
		OnBatch: s.metrics.projected, OnRetry: s.metrics.retries.Inc,
	})
	if err != nil {
		return nil, 0, err
	}
	projecting, cancel := context.WithCancel(context.Background())
	s.unproject = cancel
	s.running.Go(func() {
		if err := s.projector.Run(projecting); err != nil {
			s.ended <- err
		}
	})
	return state, seq, nil
}

// engineOptions returns the options for an engine that appends to log. The caller adds the state.
func (s *server) engineOptions(log engine.Log) engine.Options {
	return engine.Options{
		Journal: log, OrdersAfter: s.database.Position.OrdersAfter, Projection: s.projector, History: s.history,
		Trail: s.trail, RefsMax: s.config.RefsMax, OnStages: s.metrics.sessions.Executed,
	}
}
