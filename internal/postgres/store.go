package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrTaken means that another server has the database: it holds the lock, or has raised the epoch. This server then
// stops writing.
var ErrTaken = errors.New("another server is using the database")

// errUnusable marks errors for which a retry is pointless.
var errUnusable = errors.New("the database cannot be used")

// Unusable reports whether an error of this package is permanent: another server has the database, or Outcry
// cannot use it.
func Unusable(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, errUnusable)
}

const (
	// lockKey identifies the advisory lock that the writing server holds: "outcry" in ASCII.
	lockKey = 0x6f7574637279

	// lockWait is how long a connect waits for the lock. The lock of a server that was just killed is free as
	// soon as Postgres notices that the connection has closed.
	lockWait = 5 * time.Second

	// reconnectMax bounds a connect with all its queries, such as the one for the position: the peer may accept
	// all data and never reply.
	reconnectMax = 30 * time.Second
)

// Store is a database that this server may write: it holds the lock and the highest epoch. Not safe for
// concurrent use.
type Store struct {
	url    string
	number string // number of the data directory, or ""
	log    *slog.Logger
	epoch  int64    // 0 until Open has raised the epoch
	conn   *session // nil after an error, until reconnect
}

// Open connects to the database that url names, upgrades its schema, takes its lock and raises its epoch. It
// tries once. If Unusable reports true for the error, a retry is pointless. An upgrade of the schema, which
// may take long, is logged. The caller must call Close.
func Open(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	return OpenChecked(ctx, url, "", log, nil)
}

// OpenChecked opens a Store as Open does, for the server of the data directory with the given number (see
// DirectoryNumber), and ends sessions that earlier servers of the directory left. Before it changes an
// exchange, it calls check with the position of the projection, except for OrdersAfter, and with whether the
// schema must be upgraded. Without an exchange the position is zero. If check returns an error, OpenChecked
// returns it, and the exchange is unchanged.
func OpenChecked(
	ctx context.Context, url, number string, log *slog.Logger, check func(p Position, upgrade bool) error,
) (*Store, error) {
	s := &Store{url: url, number: number, log: log}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	if err := s.migrate(ctx, log, check); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.planByKeys(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.conn.leadToPeople(ctx); err != nil {
		log.Warn("psql as the role "+internalSchema+" may list internal tables too", "error", err)
	}
	row := s.conn.QueryRow(ctx, `UPDATE people.exchange_state SET epoch = epoch + 1 RETURNING epoch`)
	if err := row.Scan(&s.epoch); err != nil {
		s.Close()
		return nil, fmt.Errorf("postgres: raise the epoch: %w", err)
	}
	return s, nil
}

// Close closes the connection, which releases the lock.
func (s *Store) Close() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // Postgres notices the end of the connection even without this
	s.conn = nil
}

// connect connects, ends leftover sessions of earlier servers of the directory, and takes the lock.
func (s *Store) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reconnectMax)
	defer cancel()
	if err := s.dial(ctx, sessionName(writerName, s.number), ownLimits()); err != nil {
		return err
	}
	err := s.endFormer(ctx)
	if err == nil {
		err = s.lock(ctx)
	}
	if err != nil {
		s.Close()
	}
	return err
}

// dial connects.
func (s *Store) dial(ctx context.Context, name string, settings map[string]string) error {
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return fmt.Errorf("postgres: %w: %w", errUnusable, WithoutURL(err))
	}
	setUp(config, name, settings)
	s.conn, err = openSession(ctx, config)
	return err
}

// lock takes the advisory lock for the connection's session. If it is not available, lock returns the error of
// holder.
func (s *Store) lock(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", lockWait.Milliseconds())); err != nil {
		return fmt.Errorf("postgres: set lock_timeout: %w", err)
	}
	_, err := s.conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(lockKey))
	if hasCode(err, lockNotAvailable) {
		return s.holder(ctx)
	}
	if err != nil {
		return fmt.Errorf("postgres: lock the database: %w", err)
	}
	_, err = s.conn.Exec(ctx, "RESET lock_timeout")
	return err
}

// planByKeys makes the planner use indexes on this connection. The projector finds rows by keys. With poor
// statistics, or for a small table, the planner might read the whole table for each batch. Disabling scans
// makes plans look expensive, which must not trigger compilation (JIT). It queries which settings exist, since
// an older Postgres lacks some.
func (s *Store) planByKeys(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, `SELECT set_config(name, 'off', false) FROM pg_catalog.pg_settings
		WHERE name IN ('enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'enable_memoize', 'jit')`)
	if err != nil {
		return fmt.Errorf("postgres: set up the planner: %w", err)
	}
	return nil
}

// Position is the position of the projection.
type Position struct {
	Applied uint64   // last record that the tables include
	Journal [16]byte // id of the journal that Applied counts in; zero if none was recorded
	Ack     string   // what replies have waited for so far: "journal" or "postgres"

	// OrdersAfter is an order id that all new ids must be above, since ids up to it may have been given out. It
	// is 0 except after a restore or the loss of a journal.
	OrdersAfter uint64
}

// Position reads the position of the projection.
func (s *Store) Position(ctx context.Context) (Position, error) {
	state, err := readState(ctx, s.conn)
	return state.Position, err
}

// rowQuerier is a connection or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readState reads the row of exchange_state.
func readState(ctx context.Context, q rowQuerier) (state stateRow, err error) {
	row := q.QueryRow(ctx, exchangeState.query(""))
	if err := row.Scan(exchangeState.into(&state)...); err != nil {
		return stateRow{}, fmt.Errorf("postgres: read exchange_state: %w", err)
	}
	return state, nil
}

// ensureConnected reconnects if the connection was lost.
func (s *Store) ensureConnected(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	_, err := s.reconnect(ctx)
	return err
}

// SetJournal records the id of the journal that the projection follows from now on, and what replies wait for (ack).
// After an error for which Unusable reports false, it may be called again; it then reconnects.
func (s *Store) SetJournal(ctx context.Context, id [16]byte, ack string) error {
	if err := s.ensureConnected(ctx); err != nil {
		return err
	}
	tag, err := s.conn.Exec(ctx, `UPDATE people.exchange_state SET journal_id = $1, ack = $2 WHERE epoch = $3`,
		id, ack, s.epoch)
	if err != nil {
		return fmt.Errorf("postgres: record the journal: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("postgres: record the journal: %w", ErrTaken)
	}
	return nil
}

// ReplaceJournal records a journal as SetJournal does, after the former one was lost together with replies
// that are not in the tables. New order ids begin skip above all known ones. It returns the id after which
// they begin.
func (s *Store) ReplaceJournal(ctx context.Context, id [16]byte, ack string, skip uint64) (
	ordersAfter uint64, err error,
) {
	if err := s.ensureConnected(ctx); err != nil {
		return 0, err
	}
	err = s.conn.QueryRow(ctx, `UPDATE people.exchange_state SET journal_id = $1, ack = $2,
			orders_after = $3 + greatest(orders_after, (SELECT coalesce(max(id), 0) FROM outcry.order_log))
		WHERE epoch = $4 RETURNING orders_after`, id, ack, int64(skip), s.epoch).Scan(&ordersAfter)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrTaken
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: record the new journal: %w", err)
	}
	return ordersAfter, nil
}

// NewestOrder returns when the newest order was placed, or the zero time if there are no orders. An error means that
// the table could not be read.
func (s *Store) NewestOrder(ctx context.Context) (placed time.Time, err error) {
	if err := s.ensureConnected(ctx); err != nil {
		return time.Time{}, err
	}
	return newestOrder(ctx, s.conn)
}

// newestOrder implements Store.NewestOrder on a connection or in a transaction.
func newestOrder(ctx context.Context, q rowQuerier) (placed time.Time, err error) {
	var seconds int64
	err = q.QueryRow(ctx, `SELECT time FROM outcry.order_log ORDER BY id DESC LIMIT 1`).Scan(&seconds)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("postgres: read the newest order: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// reconnect reconnects after an error and returns applied_seq. It returns ErrTaken if another server has
// raised the epoch. All other errors may be temporary.
func (s *Store) reconnect(ctx context.Context) (applied uint64, err error) {
	s.Close()
	ctx, cancel := context.WithTimeout(ctx, reconnectMax)
	defer cancel()
	if err = s.dial(ctx, sessionName(writerName, s.number), ownLimits()); err == nil {
		applied, err = s.resume(ctx)
	}
	if err != nil {
		s.Close()
		return 0, fmt.Errorf("postgres: reconnect: %w", err)
	}
	return applied, nil
}

// resume ends this server's former sessions, takes the lock, and checks that the epoch is still this server's.
// Only the holder of the lock changes applied_seq, so it is read after the lock was taken.
func (s *Store) resume(ctx context.Context) (applied uint64, err error) {
	if err := s.endFormer(ctx); err != nil {
		return 0, err
	}
	lockErr := s.lock(ctx)
	var epoch int64
	err = s.conn.QueryRow(ctx, `SELECT applied_seq, epoch FROM people.exchange_state`).Scan(&applied, &epoch)
	switch {
	case err != nil:
		return 0, errors.Join(lockErr, err)
	case epoch != s.epoch:
		return 0, ErrTaken
	case lockErr != nil: // the server that holds the lock has not raised the epoch yet; %v, so that Unusable reports false
		return 0, fmt.Errorf("%v", lockErr)
	}
	return applied, s.planByKeys(ctx)
}
