package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrTaken means that another server has the database: it holds the lock, or it
// has raised the epoch since. Nothing more is written.
var ErrTaken = errors.New("another server is using the database")

// errUnusable marks errors that no further try will mend.
var errUnusable = errors.New("the database cannot be used")

// Unusable reports whether an error of this package will stay, however often one
// tries: another server has the database, or it is not one that Outcry can use.
func Unusable(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, errUnusable)
}

const (
	// lockKey is the advisory lock that the writing server holds: "outcry" in ASCII.
	lockKey = 0x6f7574637279

	// lockWait is how long a connect waits for the lock. A server that was just
	// killed loses it as soon as Postgres sees its connection gone.
	lockWait = 5 * time.Second

	// reconnectMax bounds a connect with all that it asks, as for where the tables stand: what answers nothing, though
	// it takes all that is sent, is given up.
	reconnectMax = 30 * time.Second
)

// Store is a database that this server may write: it holds the lock and the
// highest epoch. Its methods are for one goroutine at a time.
type Store struct {
	url    string
	number string // of the data directory, "" if there is none
	log    *slog.Logger
	epoch  int64    // 0 until it is raised
	conn   *session // nil after an error, until reconnect
}

// Open connects to the database that url names, brings its schema up to date,
// takes its lock and raises its epoch. It tries once. If Unusable reports so of
// the error, a further try is in vain. The log tells of an upgrade of the schema, which
// may take long. Close ends it.
func Open(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	return OpenChecked(ctx, url, "", log, nil)
}

// OpenChecked is Open for the server of the data directory of a number, which
// DirectoryNumber returns: sessions that a former server of it has left are ended.
// Before it changes an exchange calls check with where the
// projection stands, except for OrdersAfter, and whether the schema has to be upgraded. In a
// database without an exchange the position is zero. An error of check is returned, and
// no exchange has changed.
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

// Close gives up the connection and with it the lock.
func (s *Store) Close() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // the server's end notices either way
	s.conn = nil
}

// connect opens the connection, ends former sessions of ours, and takes the lock.
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

// dial opens the connection.
func (s *Store) dial(ctx context.Context, name string, settings map[string]string) error {
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return fmt.Errorf("postgres: %w: %w", errUnusable, WithoutURL(err))
	}
	setUp(config, name, settings)
	s.conn, err = openSession(ctx, config)
	return err
}

// lock takes the advisory lock of the connection's session, or returns what holder says.
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

// planByKeys keeps the planner to indexes for this connection. The projector finds
// rows by their keys; where the planner knows a table badly, or finds it small, it
// would read all of it for each batch. What then looks dear must not be compiled
// for that. It asks which settings there are, since an older Postgres lacks some.
func (s *Store) planByKeys(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, `SELECT set_config(name, 'off', false) FROM pg_catalog.pg_settings
		WHERE name IN ('enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'enable_memoize', 'jit')`)
	if err != nil {
		return fmt.Errorf("postgres: set up the planner: %w", err)
	}
	return nil
}

// Position is where the projection stands.
type Position struct {
	Applied uint64   // the last record that the tables include
	Journal [16]byte // the journal that Applied counts in, zero where none was noted
	Ack     string   // what answers waited for so far: "journal" or "postgres"

	// OrdersAfter is an order id above which the next ones have to be, since others may
	// have been given out: 0 but after a restore, or a lost journal.
	OrdersAfter uint64
}

// Position reads where the projection stands.
func (s *Store) Position(ctx context.Context) (Position, error) {
	state, err := readState(ctx, s.conn)
	return state.Position, err
}

// rowQuerier is a connection or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readState reads exchange_state.
func readState(ctx context.Context, q rowQuerier) (state stateRow, err error) {
	row := q.QueryRow(ctx, exchangeState.query(""))
	if err := row.Scan(exchangeState.into(&state)...); err != nil {
		return stateRow{}, fmt.Errorf("postgres: read exchange_state: %w", err)
	}
	return state, nil
}

// again connects again if the connection was lost.
func (s *Store) again(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	_, err := s.reconnect(ctx)
	return err
}

// SetJournal notes the journal that the projection follows from now on, and what
// answers wait for. Where Unusable does not say otherwise of the error, it may be called
// again, and connects again.
func (s *Store) SetJournal(ctx context.Context, id [16]byte, ack string) error {
	if err := s.again(ctx); err != nil {
		return err
	}
	tag, err := s.conn.Exec(ctx, `UPDATE people.exchange_state SET journal_id = $1, ack = $2 WHERE epoch = $3`,
		id, ack, s.epoch)
	if err != nil {
		return fmt.Errorf("postgres: note the journal: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("postgres: note the journal: %w", ErrTaken)
	}
	return nil
}

// ReplaceJournal is SetJournal for a journal that has been begun in the place of one that
// is lost, with what was answered and is not in the tables. Order ids go on skip above all
// that are known; it returns the one after which they do.
func (s *Store) ReplaceJournal(ctx context.Context, id [16]byte, ack string, skip uint64) (
	ordersAfter uint64, err error,
) {
	if err := s.again(ctx); err != nil {
		return 0, err
	}
	err = s.conn.QueryRow(ctx, `UPDATE people.exchange_state SET journal_id = $1, ack = $2,
			orders_after = $3 + greatest(orders_after, (SELECT coalesce(max(id), 0) FROM outcry.order_log))
		WHERE epoch = $4 RETURNING orders_after`, id, ack, int64(skip), s.epoch).Scan(&ordersAfter)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrTaken
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: note the new journal: %w", err)
	}
	return ordersAfter, nil
}

// NewestOrder returns when the newest order was placed, zero if there is none. The
// error says why it could not be read.
func (s *Store) NewestOrder(ctx context.Context) (placed time.Time, err error) {
	if err := s.again(ctx); err != nil {
		return time.Time{}, err
	}
	return newestOrder(ctx, s.conn)
}

// newestOrder is Store.NewestOrder on a connection or in a transaction.
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

// reconnect opens the connection again after an error, and returns the seq that is
// applied. The error is ErrTaken if another server has taken the database meanwhile,
// which the epoch says; all others may pass.
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

// resume makes a new connection that of the server: it ends its former ones, takes the
// lock, and makes sure that the epoch is still this server's. Nobody else than the holder
// of the lock changes applied_seq, so that is read after.
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
	case lockErr != nil: // whose server has not begun, if it is one's
		return 0, fmt.Errorf("%v", lockErr)
	}
	return applied, s.planByKeys(ctx)
}
