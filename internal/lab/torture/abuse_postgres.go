package torture

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Attacks by a database session, or by a client while Postgres is frozen.

const (
	timeoutsRound = 5 // how often sessions are ended
)

// abuseHistory freezes Postgres and queries orders that only Postgres knows. Later orders on the
// connection must not be delayed.
func (s *server) abuseHistory(ctx context.Context) error {
	forgotten := func(ctx context.Context) error { return inTurn(ctx, s.awaitTables, s.turnSegment) }
	s.summarize("queries of old orders while Postgres is frozen")
	return s.HistoryDelaysNothing(ctx, s.abuser, dollarOrder, forgotten, s.pg.Freeze)
}

// awaitTables waits until the tables have every record answered so far.
func (s *server) awaitTables(ctx context.Context) error {
	highest := int64(s.HighestID())
	return s.await(ctx, "the tables have what was answered", 0, func() (bool, error) {
		var last int64
		err := s.db.QueryRow(ctx, "SELECT coalesce(max(id), 0) FROM outcry.order_log").Scan(&last)
		return last >= highest, err
	})
}

// abuseLost breaks the connections to Postgres on the server's side only, so that its sessions stay
// alive.
func (s *server) abuseLost(ctx context.Context) error {
	for range 2 {
		s.pg.Lose()
		if err := errors.Join(s.keepTrading(ctx), s.awaitTables(ctx)); err != nil {
			return err
		}
	}
	s.summarize("the connections to Postgres are lost twice, and its sessions live on")
	return nil
}

// abuseSessions ends the exchange's sessions, and gives its database role timeouts that no batch can
// meet.
func (s *server) abuseSessions(ctx context.Context) (err error) {
	settings := []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"}
	defer func() {
		for _, name := range settings {
			_, resetErr := s.db.Exec(context.WithoutCancel(ctx), "ALTER ROLE CURRENT_USER RESET "+name)
			err = errors.Join(err, resetErr)
		}
	}()
	for _, name := range settings {
		if _, err := s.db.Exec(ctx, "ALTER ROLE CURRENT_USER SET "+name+" = '2ms'"); err != nil {
			return fmt.Errorf("torture: %w", err)
		}
	}
	for range timeoutsRound {
		_, err := s.db.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
			WHERE application_name LIKE 'outcryd%' AND pid <> pg_backend_pid() AND datname = current_database()`)
		if err != nil {
			return fmt.Errorf("torture: %w", err)
		}
		if err = s.keepTrading(ctx); err == nil {
			err = s.awaitTables(ctx)
		}
		if err != nil {
			return fmt.Errorf("with timeouts of 2 ms: %w", err)
		}
	}
	s.summarize("sessions end %d times, with timeouts of 2 ms for the role", timeoutsRound)
	return nil
}

// abuseLock locks a table as CREATE INDEX does, and kills the exchange while it waits for the lock. The
// next start must not need the lock.
func (s *server) abuseLock(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "LOCK TABLE public.orders, outcry.order_log, public.executions IN SHARE MODE"); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if err := s.keepTrading(ctx); err != nil {
		return err
	}
	err = s.await(ctx, "the exchange waits for the lock", 0, func() (waits bool, err error) {
		err = tx.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_catalog.pg_locks WHERE NOT granted").Scan(&waits)
		return waits, err
	})
	if err != nil {
		return err
	}
	s.End.MayBeGone.Store(true)
	s.server.Kill()
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("while a table is locked: %w", err)
	}
	s.summarize("killed and started while a table is locked")
	return nil
}
