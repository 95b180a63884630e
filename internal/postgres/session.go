package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// How soon each side notices a dead peer: an idle connection is probed after keepaliveIdle, then every
// keepaliveInterval. It is dropped after keepaliveCount failed probes, or once sent data has been
// unacknowledged for userTimeout. During a statement, Postgres checks every deathCheck that its client is
// still connected.
const (
	keepaliveIdle     = 10 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3
	userTimeout       = keepaliveIdle + keepaliveCount*keepaliveInterval
	deathCheck        = time.Second
)

const (
	// tableLockWait is how long a statement of the server's sessions waits for a lock of another session. Then
	// it fails, and the failure is logged and the statement retried.
	tableLockWait = 10 * time.Second

	// idleTransactionMax is how long a session of the server may be idle in a transaction. The server never
	// leaves one idle, so this limit ends only sessions of a process that is frozen or cut off, and frees their
	// locks.
	idleTransactionMax = time.Minute

	connectTimeout = 10 * time.Second
)

// errPooler: a connection pooler is between this program and Postgres.
var errPooler = fmt.Errorf("%w: a connection pooler is in between, and Outcry needs a direct connection: the lock "+
	"and the settings of its sessions are lost in a pooler", errUnusable)

// everySession has settings that every session of this program starts with. They override those of the role
// and the database.
//
// Plans made while a table was empty would otherwise be kept for ever. Limits that are meant for other clients
// must not end a batch, a load, or a copy; where these need a limit, this program sets a deadline.
var everySession = map[string]string{
	"plan_cache_mode":                     "force_custom_plan",
	"synchronous_commit":                  "on",
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "0",
	"tcp_keepalives_idle":                 inSeconds(keepaliveIdle),
	"tcp_keepalives_interval":             inSeconds(keepaliveInterval),
	"tcp_keepalives_count":                strconv.Itoa(keepaliveCount),
	"tcp_user_timeout":                    inMilliseconds(userTimeout),
}

// newerSettings set parameters that older versions of Postgres lack and would refuse at startup. On some
// platforms Postgres cannot check its client's connection; there that check stays off.
var newerSettings = []string{
	`SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings
		WHERE name IN ('idle_session_timeout', 'transaction_timeout')`,
	`SELECT pg_catalog.set_config(name, '` + inMilliseconds(deathCheck) +
		`', false) FROM pg_catalog.pg_settings WHERE name = 'client_connection_check_interval'`,
}

func inSeconds(d time.Duration) string      { return strconv.Itoa(int(d / time.Second)) }
func inMilliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ownLimits returns settings for the sessions of a running server, which limit waits for locks and idle
// transactions.
func ownLimits() map[string]string {
	return map[string]string{
		"lock_timeout":                        inMilliseconds(tableLockWait),
		"idle_in_transaction_session_timeout": inMilliseconds(idleTransactionMax),
	}
}

// setUp prepares config for sessions with the given name, everySession and further settings. The sessions
// detect a dead peer. Connecting fails with errPooler if the peer is not Postgres itself.
func setUp(config *pgx.ConnConfig, name string, settings map[string]string) {
	maps.Copy(config.RuntimeParams, everySession)
	maps.Copy(config.RuntimeParams, settings)
	config.RuntimeParams["application_name"] = name
	config.ConnectTimeout = connectTimeout
	dialer := &net.Dialer{
		Timeout: connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval,
			Count: keepaliveCount},
		Control: func(network, _ string, c syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			return setUserTimeout(c, userTimeout)
		},
	}
	config.DialFunc = dialer.DialContext
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := refusePooler(ctx, conn); err != nil {
			return err
		}
		return setNewer(ctx, conn)
	}
}

// connect connects with a config that setUp has prepared.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		return conn, nil
	}
	if refusesParameter(err) {
		return nil, fmt.Errorf("postgres: connect: %w: %w", errPooler, err)
	}
	return nil, fmt.Errorf("postgres: connect: %w", err)
}

// refusesParameter reports whether a connect failed because of a startup parameter. Every supported Postgres
// knows all of ours, so a pooler must have refused it.
func refusesParameter(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "42704" || strings.Contains(pgErr.Message, "startup parameter"))
}

// refusePooler returns errPooler if the session's process is not the one that the connection was made to, or
// if the session lacks its startup settings. It uses the simple protocol, since poolers may not support
// prepared statements.
func refusePooler(ctx context.Context, conn *pgconn.PgConn) error {
	row, err := conn.Exec(ctx, `SELECT pg_catalog.pg_backend_pid(),
		pg_catalog.current_setting('plan_cache_mode'), pg_catalog.current_setting('synchronous_commit')`).ReadAll()
	if err != nil {
		return fmt.Errorf("ask for the process of the session: %w", err)
	}
	if len(row) != 1 || len(row[0].Rows) != 1 || len(row[0].Rows[0]) != 3 {
		return fmt.Errorf("%w: it answered %d results instead of one", errPooler, len(row))
	}
	is := row[0].Rows[0]
	if pid := strconv.FormatUint(uint64(conn.PID()), 10); pid != string(is[0]) {
		return fmt.Errorf("%w: the connection is with process %s, the session with process %s", errPooler, pid, is[0])
	}
	for i, name := range []string{"plan_cache_mode", "synchronous_commit"} {
		if want := everySession[name]; want != string(is[i+1]) {
			return fmt.Errorf("%w: %s was set to %s and is %s", errPooler, name, want, is[i+1])
		}
	}
	return nil
}

// setNewer applies newerSettings.
func setNewer(ctx context.Context, conn *pgconn.PgConn) error {
	for _, sql := range newerSettings {
		_, err := conn.Exec(ctx, sql).ReadAll()
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "22023" {
			continue // invalid_parameter_value: not supported on this platform
		}
		if err != nil {
			return fmt.Errorf("set up the session: %w", err)
		}
	}
	return nil
}

// Names of a server's sessions. The number of the data directory follows, if there is one.
const (
	writerName  = "outcryd"
	historyName = "outcryd history"
	ourPrefix   = "outcry" // all programs of Outcry
)

// sessionName returns the name of a server's sessions of one kind, with the number of its data directory.
func sessionName(kind, number string) string {
	if number == "" {
		return kind
	}
	return kind + " " + number
}

// endFormer ends the leftover sessions of earlier servers of this data directory: those that write and, at a start,
// those that read history. A directory has one server at a time, so no other server uses these sessions. It leaves
// sessions of other roles alone, because this role may not end them.
func (s *Store) endFormer(ctx context.Context) error {
	if s.number == "" {
		return nil
	}
	names := []string{sessionName(writerName, s.number)}
	if s.epoch == 0 {
		names = append(names, sessionName(historyName, s.number))
	}
	var pid int32
	var ended []int32
	rows, err := s.conn.Query(ctx, `SELECT pid, pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
		WHERE datname = current_database() AND application_name = ANY ($1)
		  AND pid <> pg_backend_pid() AND pg_has_role(usesysid, 'USAGE')`, names)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&pid, nil}, func() error {
			ended = append(ended, pid)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("postgres: end former sessions: %w", err)
	}
	if len(ended) > 0 {
		slices.Sort(ended)
		s.log.Warn("ended former sessions of this server that Postgres still had", "pids", ended)
	}
	return nil
}

// holdsLock is a condition on a row l of pg_locks: the session holds the lock on a database, and does not just
// wait for it. Its parameters are the two halves of the key.
const (
	holdsLock = `l.locktype = 'advisory' AND l.granted
		AND l.classid = $1::bigint::oid AND l.objid = $2::bigint::oid AND l.objsubid = 1`
	lockKeyHigh = int64(lockKey >> 32)
	lockKeyLow  = int64(lockKey & (1<<32 - 1))
)

// holder returns why the lock is not available: ErrTaken if another server holds it. It returns a temporary
// error if the holder is a former session of this server that has not ended, or a session that is not a
// server's.
func (s *Store) holder(ctx context.Context) error {
	var pid int32
	var name, role string
	err := s.conn.QueryRow(ctx, `SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.usename, '')
		  FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a USING (pid)
		 WHERE a.datname = current_database() AND l.database = a.datid AND `+holdsLock,
		lockKeyHigh, lockKeyLow).Scan(&pid, &name, &role)
	database := s.conn.Config().Database
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("postgres: database %q: its lock has just become free", database)
	case err != nil:
		return fmt.Errorf("postgres: database %q: ask who holds its lock: %w", database, err)
	case s.number != "" && name == sessionName(writerName, s.number):
		return fmt.Errorf("postgres: database %q: a former session of this server, process %d of role %s, holds its lock "+
			"and has not ended; end it by hand: SELECT pg_terminate_backend(%d)",
			database, pid, role, pid)
	case strings.HasPrefix(name, ourPrefix):
		return fmt.Errorf("postgres: database %q: %w: process %d, %q", database, ErrTaken, pid, name)
	}
	return fmt.Errorf("postgres: database %q: a session of another program, process %d (%q) of role %s, holds its lock",
		database, pid, name, role)
}

// SQLSTATE codes that Postgres returns.
const (
	lockNotAvailable = "55P03" // lock_timeout
)

// hasCode reports whether err is an error of Postgres with that code.
func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}
