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

// How soon each side notices that the other has gone without a goodbye: an idle
// connection is probed after keepaliveIdle, then every keepaliveInterval, and given up
// after keepaliveCount probes or once data was unacknowledged for userTimeout. While it
// works on a statement, Postgres looks every deathCheck whether its client is there.
const (
	keepaliveIdle     = 10 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3
	userTimeout       = keepaliveIdle + keepaliveCount*keepaliveInterval
	deathCheck        = time.Second
)

const (
	// tableLockWait is how long a statement of the server's own sessions waits for a lock
	// that another session holds, before it fails, is reported, and tried again.
	tableLockWait = 10 * time.Second

	// idleTransactionMax is how long such a session may leave a transaction alone. None
	// does, so only one whose process is frozen or cut off ends so, with its locks.
	idleTransactionMax = time.Minute

	connectTimeout = 10 * time.Second
)

// errPooler is why a start refuses what stands between it and Postgres.
var errPooler = fmt.Errorf("%w: a connection pooler is in between, and Outcry needs a direct connection: the lock "+
	"and the settings of its sessions are lost in a pooler", errUnusable)

// everySession is what every session of ours begins with, whatever its role or database
// sets.
//   - Plans made while a table was empty would be kept for ever.
//   - No limit that is meant for other clients ends a batch, a load, or a copy. Those that
//     need one have a deadline on this side.
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

// newerSettings sets what not every version of Postgres has, and would refuse at the
// startup. A platform may lack what the check of the client needs: then it stays off.
var newerSettings = []string{
	`SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings
		WHERE name IN ('idle_session_timeout', 'transaction_timeout')`,
	`SELECT pg_catalog.set_config(name, '` + inMilliseconds(deathCheck) +
		`', false) FROM pg_catalog.pg_settings WHERE name = 'client_connection_check_interval'`,
}

func inSeconds(d time.Duration) string      { return strconv.Itoa(int(d / time.Second)) }
func inMilliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ownLimits are settings of the sessions of a running server: they wait for other
// sessions' locks for a while only, and never rest in a transaction.
func ownLimits() map[string]string {
	return map[string]string{
		"lock_timeout":                        inMilliseconds(tableLockWait),
		"idle_in_transaction_session_timeout": inMilliseconds(idleTransactionMax),
	}
}

// setUp has config make sessions of the given name, with everySession and what else is
// given. They notice when the other side has gone, and end with errPooler where that is
// no Postgres.
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

// connect is pgx.ConnectConfig for a config that setUp has made ready.
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

// refusesParameter reports whether an error of connecting is about a parameter of the
// startup. A Postgres that this program supports knows all of them.
func refusesParameter(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "42704" || strings.Contains(pgErr.Message, "startup parameter"))
}

// refusePooler returns errPooler if the session is not with the process that the
// connection was made to, or lacks what it was begun with. It uses the simple protocol:
// poolers may not know prepared statements.
func refusePooler(ctx context.Context, conn *pgconn.PgConn) error {
	row, err := conn.Exec(ctx, `SELECT pg_catalog.pg_backend_pid(),
		pg_catalog.current_setting('plan_cache_mode'), pg_catalog.current_setting('synchronous_commit')`).ReadAll()
	if err != nil {
		return fmt.Errorf("ask for the process of the session: %w", err)
	}
	if len(row) != 1 || len(row[0].Rows) != 1 || len(row[0].Rows[0]) != 3 {
		return fmt.Errorf("%w: it answered %d results where one was asked for", errPooler, len(row))
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
			continue // invalid_parameter_value: not on this platform
		}
		if err != nil {
			return fmt.Errorf("set up the session: %w", err)
		}
	}
	return nil
}

// Names of a server's sessions. Each is followed by the number of its data directory,
// if there is one.
const (
	writerName  = "outcryd"
	historyName = "outcryd history"
	ourPrefix   = "outcry" // of all programs of ours
)

// sessionName returns the name of the sessions of one kind of the server that has a
// data directory's number.
func sessionName(kind, number string) string {
	if number == "" {
		return kind
	}
	return kind + " " + number
}

// endFormer ends the sessions of this data directory that their client has left: those
// that write and, at a start, those that read history. The directory has one server at a
// time, so they are nobody else's. Sessions of another role, which this one may not end,
// are left.
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

// holdsLock says of a row l of pg_locks that it is of the lock on a database, and not of
// somebody who waits for it. Its parameters are the two halves of the key.
const (
	holdsLock = `l.locktype = 'advisory' AND l.granted
		AND l.classid = $1::bigint::oid AND l.objid = $2::bigint::oid AND l.objsubid = 1`
	lockKeyHigh = int64(lockKey >> 32)
	lockKeyLow  = int64(lockKey & (1<<32 - 1))
)

// holder returns why the lock could not be had: ErrTaken if another server holds it, and
// an error that may pass if it is a former session of ours that does not end, or a
// session that is no server.
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
		return fmt.Errorf("postgres: database %q: its lock has become free just now", database)
	case err != nil:
		return fmt.Errorf("postgres: database %q: ask who holds its lock: %w", database, err)
	case s.number != "" && name == sessionName(writerName, s.number):
		return fmt.Errorf("postgres: database %q: a former session of this server, process %d of role %s, holds its lock "+
			"and has not ended; end it by hand: SELECT pg_terminate_backend(%d)",
			database, pid, role, pid)
	case strings.HasPrefix(name, ourPrefix):
		return fmt.Errorf("postgres: database %q: %w: process %d, %q", database, ErrTaken, pid, name)
	}
	return fmt.Errorf("postgres: database %q: a session that is no server, process %d (%q) of role %s, holds its lock",
		database, pid, name, role)
}

// Codes of errors that Postgres answers.
const (
	lockNotAvailable = "55P03" // lock_timeout
)

// hasCode reports whether err is an answer of Postgres with that code.
func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}
