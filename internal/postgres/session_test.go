package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// mustConnect opens a session of somebody else's.
func mustConnect(t *testing.T, database, name string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	config.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(background, config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(background) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(background, sql)
	require.NoError(t, err)
}

// limitDatabase has a database limit all its sessions until the test ends.
func limitDatabase(t *testing.T, admin *pgx.Conn, limits map[string]string) {
	t.Helper()
	name := admin.Config().Database
	for setting, value := range limits {
		mustExec(t, admin, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", name, setting, value))
	}
	t.Cleanup(func() {
		mustExec(t, mustConnect(t, admin.Config().ConnString(), "admin"), "ALTER DATABASE "+name+" RESET ALL")
	})
}

// TestSettingsOfTheDatabaseDoNotReachOurSessions asks each kind of session, also after
// the migrations, which reset all settings.
func TestSettingsOfTheDatabaseDoNotReachOurSessions(t *testing.T) {
	database := pgtest.NewDatabase(t)
	limits := map[string]string{"statement_timeout": "250ms", "lock_timeout": "1ms", "idle_in_transaction_session_timeout": "50ms",
		"idle_session_timeout": "50ms", "client_connection_check_interval": "0", "synchronous_commit": "off", "plan_cache_mode": "auto"}
	limitDatabase(t, mustConnect(t, database, "admin"), limits)

	settings := func(ask on) map[string]string {
		is := map[string]string{}
		for name := range limits {
			var value string
			require.NoError(t, ask(background, "SHOW "+name).Scan(&value))
			is[name] = value
		}
		return is
	}
	own := map[string]string{"statement_timeout": "0", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "1min",
		"idle_session_timeout": "0", "client_connection_check_interval": "1s", "synchronous_commit": "on", "plan_cache_mode": "force_custom_plan"}
	others := map[string]string{"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
		"idle_session_timeout": "0", "client_connection_check_interval": "1s", "synchronous_commit": "on", "plan_cache_mode": "force_custom_plan"}

	l, err := OpenLoader(background, database)
	require.NoError(t, err)
	require.Equal(t, others, settings(l.store.conn.QueryRow), "restore")
	l.Close()
	s := mustOpen(t, database)
	require.Equal(t, own, settings(s.conn.QueryRow), "the writer, after the migrations")
	_, err = s.reconnect(background)
	require.NoError(t, err)
	require.Equal(t, own, settings(s.conn.QueryRow), "the writer, connected again")
	past := mustOpenHistory(t, database)
	require.Equal(t, own, settings(past.pool.QueryRow), "history")
	a := mustOpenArchive(t, database)
	require.Equal(t, others, settings(a.tx.QueryRow), "verify and backup")
}

// on asks one session or another.
type on func(ctx context.Context, sql string, args ...any) pgx.Row

func mustOpenNumbered(t *testing.T, database, number string) *Store {
	t.Helper()
	s, err := OpenChecked(background, database, number, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestAServerEndsItsOwnFormerSessions has one that nobody has closed, as after a power cut
// of its machine, wait for a lock on a table besides.
func TestAServerEndsItsOwnFormerSessions(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t)
	number := "0123456789abcdef"
	former := mustOpenNumbered(t, database, number)
	admin := mustConnect(t, database, "admin")
	mustExec(t, admin, `BEGIN; LOCK TABLE accounts IN SHARE MODE`) // as CREATE INDEX does
	waiting := make(chan error, 1)
	go func() {
		_, err := former.conn.Exec(background, `SET lock_timeout = 0; UPDATE accounts SET held = 0`)
		waiting <- err
	}()
	past, err := OpenHistory(background, database, number)
	require.NoError(t, err)
	defer past.Close()
	require.NoError(t, past.pool.Ping(background))
	kept, err := past.pool.Acquire(background)
	require.NoError(t, err)
	defer func() { kept.Release() }()
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, admin.QueryRow(background, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'accounts'::regclass`).Scan(&n))
		return n == 1
	}, time.Minute, time.Millisecond)

	_, err = OpenChecked(background, database, "another directory", slog.New(slog.DiscardHandler), nil)
	require.ErrorIs(t, err, ErrTaken, "it is another server's")
	require.ErrorContains(t, err, fmt.Sprintf("process %d, \"outcryd 0123456789abcdef\"", former.conn.PgConn().PID()))
	require.Empty(t, waiting)

	young := mustOpenNumbered(t, database, number)
	require.ErrorContains(t, <-waiting, "administrator command")
	require.Error(t, kept.Ping(background), "nor does a session of history stay")
	kept.Release()
	_, err = young.Load(background)
	require.NoError(t, err, "the table is still locked")
	require.NoError(t, past.pool.Ping(background))
	_, err = young.reconnect(background)
	require.NoError(t, err)
	kept, err = past.pool.Acquire(background)
	require.NoError(t, err)
	require.NoError(t, kept.Ping(background), "those of the server that runs are left")
	kept.Release()
}

// TestASessionThatIsNoServerIsNotCalledOne holds the exchange's lock in a psql.
func TestASessionThatIsNoServerIsNotCalledOne(t *testing.T) {
	t.Parallel() // it waits for the lock
	database := pgtest.NewDatabase(t)
	s := mustOpen(t, database)
	s.Close()
	psql := mustConnect(t, database, "psql")
	mustExec(t, psql, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey)))
	_, err := Open(background, database, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, fmt.Sprintf(`a session that is no server, process %d ("psql")`, psql.PgConn().PID()))
	require.False(t, Unusable(err), "it will pass")
	_, err = s.reconnect(background)
	require.ErrorContains(t, err, "a session that is no server")
	require.False(t, Unusable(err))

	// Nor has a server that begins taken the database already.
	other := mustConnect(t, database, "outcryd other")
	mustExec(t, psql, `SELECT pg_advisory_unlock_all()`)
	mustExec(t, other, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey)))
	_, err = s.reconnect(background)
	require.ErrorContains(t, err, "another server is using the database")
	require.NotErrorIs(t, err, ErrTaken)
	mustExec(t, other, `UPDATE exchange_state SET epoch = epoch + 1`)
	_, err = s.reconnect(background)
	require.ErrorIs(t, err, ErrTaken)
}

// TestTheJournalIsNotedOverANewConnection ends the session of a server that begins.
func TestTheJournalIsNotedOverANewConnection(t *testing.T) {
	database := pgtest.NewDatabase(t)
	s := mustOpen(t, database)
	mustExec(t, mustConnect(t, database, "admin"), fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, s.conn.PgConn().PID()))
	require.Eventually(t, func() bool { return s.SetJournal(background, [16]byte{1}, "journal") == nil }, time.Minute, time.Millisecond)
	p, err := s.Position(background)
	require.NoError(t, err)
	require.Equal(t, [16]byte{1}, p.Journal)
}
