package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// mustConnect opens a session that does not belong to the program under test.
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

// limitDatabase sets limits for all sessions of a database until the test ends.
func limitDatabase(t *testing.T, admin *pgx.Conn, limits map[string]string) {
	t.Helper()
	name := admin.Config().Database
	for setting, value := range limits {
		mustExec(t, admin, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", name, setting, value))
	}
	// The reset uses a session that began before the limits were set, so they do not apply to it.
	t.Cleanup(func() { mustExec(t, admin, "ALTER DATABASE "+name+" RESET ALL") })
}

// TestSettingsOfTheDatabaseDoNotReachOurSessions checks each kind of session, also after the migrations and a
// reconnect.
func TestSettingsOfTheDatabaseDoNotReachOurSessions(t *testing.T) {
	database := pgtest.NewDatabase(t)
	limits := map[string]string{"statement_timeout": "10s", "lock_timeout": "1ms",
		"idle_in_transaction_session_timeout": "10s",
		"idle_session_timeout":                "10s", "client_connection_check_interval": "0", "synchronous_commit": "off",
		"plan_cache_mode": "auto"}
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
	own := map[string]string{"statement_timeout": "0", "lock_timeout": "10s",
		"idle_in_transaction_session_timeout": "1min",
		"idle_session_timeout":                "0", "client_connection_check_interval": "1s", "synchronous_commit": "on",
		"plan_cache_mode": "force_custom_plan"}
	others := map[string]string{"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
		"idle_session_timeout": "0", "client_connection_check_interval": "1s", "synchronous_commit": "on",
		"plan_cache_mode": "force_custom_plan"}

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

// on runs a query on a session.
type on func(ctx context.Context, sql string, args ...any) pgx.Row

func mustOpenNumbered(t *testing.T, database, number string) *Store {
	t.Helper()
	s, err := OpenChecked(background, database, number, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestAServerEndsItsOwnFormerSessions leaves a session open, as after a power failure of the client's machine;
// the session also waits for a lock on a table.
func TestAServerEndsItsOwnFormerSessions(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t)
	number := "0123456789abcdef"
	former := mustOpenNumbered(t, database, number)
	admin := mustConnect(t, database, "admin")
	mustExec(t, admin, `BEGIN; LOCK TABLE public.accounts IN SHARE MODE`) // as CREATE INDEX does
	waiting := make(chan error, 1)
	go func() {
		_, err := former.conn.Exec(background, `SET lock_timeout = 0; UPDATE people.accounts SET held = 0`)
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
		require.NoError(t, admin.QueryRow(background,
			`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'accounts'::regclass`).Scan(&n))
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

// TestASessionThatIsNoServerIsNotCalledOne holds the exchange's lock in a psql session.
func TestASessionThatIsNoServerIsNotCalledOne(t *testing.T) {
	t.Parallel() // the test waits for the lock
	database := newTables(t)
	s := mustOpen(t, database)
	s.Close()
	psql := mustConnect(t, database, "psql")
	mustExec(t, psql, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey)))
	_, err := Open(background, database, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, fmt.Sprintf(`a session of another program, process %d ("psql")`, psql.PgConn().PID()))
	require.False(t, Unusable(err), "it will pass")
	_, err = s.reconnect(background)
	require.ErrorContains(t, err, "a session of another program")
	require.False(t, Unusable(err))

	// A server that holds the lock but has not raised the epoch does not own the database yet.
	other := mustConnect(t, database, "outcryd other")
	mustExec(t, psql, `SELECT pg_advisory_unlock_all()`)
	mustExec(t, other, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey)))
	_, err = s.reconnect(background)
	require.ErrorContains(t, err, "another server is using the database")
	require.NotErrorIs(t, err, ErrTaken)
	mustExec(t, other, `UPDATE public.exchange_state SET epoch = epoch + 1`)
	_, err = s.reconnect(background)
	require.ErrorIs(t, err, ErrTaken)
}

// TestTheJournalIsNotedOverANewConnection ends the session of a server during its start.
func TestTheJournalIsNotedOverANewConnection(t *testing.T) {
	database := newTables(t)
	s := mustOpen(t, database)
	mustExec(t, mustConnect(t, database, "admin"), fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, s.conn.PgConn().PID()))
	require.Eventually(t, func() bool { return s.SetJournal(background, [16]byte{1}, "journal") == nil }, time.Minute,
		time.Millisecond)
	p, err := s.Position(background)
	require.NoError(t, err)
	require.Equal(t, [16]byte{1}, p.Journal)
}

// TestWhichErrorsAreAPoolers: a pooler refuses startup parameters that it does not know.
func TestWhichErrorsAreAPoolers(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "42704", Message: "unrecognized configuration parameter"}, true},
		{&pgconn.PgError{Code: "08P01", Message: "unsupported startup parameter: plan_cache_mode"}, true},
		{&pgconn.PgError{Code: "57P03", Message: "the database system is starting up"}, false},
		{errors.New("unsupported startup parameter"), false},
	} {
		require.Equal(t, test.want, refusesParameter(fmt.Errorf("connect: %w", test.err)), test.err)
	}
}

// TestWhatAPlatformLacksIsLeftOut checks that unsupported settings are skipped, and that other failures are
// errors.
func TestWhatAPlatformLacksIsLeftOut(t *testing.T) {
	conn := mustConnect(t, pgtest.NewDatabase(t), "test")
	was := newerSettings
	t.Cleanup(func() { newerSettings = was })
	newerSettings = []string{`SELECT set_config('client_connection_check_interval', '-5', false)`,
		`SELECT set_config('application_name', 'set', false)`}
	require.NoError(t, setNewer(background, conn.PgConn()))
	var name string
	require.NoError(t, conn.QueryRow(background, `SHOW application_name`).Scan(&name))
	require.Equal(t, "set", name, "what follows is done")
	newerSettings = []string{`SELECT 1/0`}
	require.ErrorContains(t, setNewer(background, conn.PgConn()), "set up the session: ERROR: division by zero")
}

// asSuperuser returns the URL of a database of the tests' cluster for its superuser.
func asSuperuser(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.User = nil
	q := u.Query()
	q.Set("user", "outcry_admin")
	u.RawQuery = q.Encode()
	return u.String()
}

// TestWhichFormerSessionsAreEnded checks that only sessions of this database and role are ended, but not the
// current one, and that the log lists them.
func TestWhichFormerSessionsAreEnded(t *testing.T) {
	number, name := "fedcba9876543210", sessionName(writerName, "fedcba9876543210")
	database, other := pgtest.NewDatabase(t), pgtest.NewDatabase(t)
	former, elsewhere := mustConnect(t, database, name), mustConnect(t, other, name)
	foreign := mustConnect(t, asSuperuser(t, database), name)
	var log lockedLines
	s, err := OpenChecked(background, database, number, slog.New(slog.NewTextHandler(&log, nil)), nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.Error(t, former.Ping(background))
	require.NoError(t, elsewhere.Ping(background), "of another database")
	require.NoError(t, foreign.Ping(background), "of a role that this one is not")
	require.Equal(t, 1, log.count(fmt.Sprintf("level=WARN msg=\"ended former sessions of this server that Postgres "+
		"still had\" pids=[%d]", former.PgConn().PID())))

	ended, cancel := context.WithCancel(background)
	cancel()
	require.ErrorContains(t, s.endFormer(ended), "end former sessions")
}

// TestWhoHoldsTheLockIsNamed checks the error if a session of this server holds the lock and may not be ended,
// and if the lock has just become free. Sessions that wait for the lock do not hold it.
func TestWhoHoldsTheLockIsNamed(t *testing.T) {
	t.Parallel() // the test waits for the lock
	number := "0011223344556677"
	database := pgtest.NewDatabase(t)
	s := mustOpenNumbered(t, database, number)
	s.Close()
	require.NoError(t, s.ensureConnected(background))
	require.ErrorContains(t, s.holder(background), fmt.Sprintf("a former session of this server, process %d",
		s.conn.PgConn().PID()))
	waits := mustConnect(t, database, "waits")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = waits.Exec(background, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey)))
	}()
	admin := mustConnect(t, database, "admin")
	waiters := func(want int) func() bool {
		return func() bool {
			var n int
			require.NoError(t, admin.QueryRow(background,
				`SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE d.datname = current_database() AND locktype = 'advisory' AND NOT granted`).Scan(&n))
			return n == want
		}
	}
	require.Eventually(t, waiters(1), time.Minute, time.Millisecond)
	var granted int
	require.NoError(t, admin.QueryRow(background, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE d.datname = current_database() AND `+holdsLock, lockKeyHigh, lockKeyLow).Scan(&granted))
	require.Equal(t, 1, granted)
	mustExec(t, admin, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, waits.PgConn().PID()))
	<-ended // otherwise the session's connection would be closed concurrently
	require.Eventually(t, waiters(0), time.Minute, time.Millisecond)

	require.NoError(t, s.conn.QueryRow(background, `SELECT 1 WHERE pg_advisory_unlock($1)`, int64(lockKey)).Scan(new(int)))
	require.ErrorContains(t, s.holder(background), "its lock has just become free")
	require.False(t, Unusable(s.holder(background)))
	s.Close()

	foreign := mustConnect(t, asSuperuser(t, database), sessionName(writerName, number))
	mustExec(t, foreign, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey)))
	_, err := OpenChecked(background, database, number, slog.New(slog.DiscardHandler), nil)
	require.ErrorContains(t, err, fmt.Sprintf("a former session of this server, process %d of role outcry_admin",
		foreign.PgConn().PID()))
	require.False(t, Unusable(err), "it may be ended by hand")
}
