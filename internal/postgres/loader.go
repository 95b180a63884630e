package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// Loader fills an empty database with the tables of a backup, in one transaction. It holds the lock of the
// server that writes. Not safe for concurrent use. After an error only Close may be called, and the database
// is unchanged.
type Loader struct {
	store   *Store
	tx      pgx.Tx
	version int // version of the schema in this transaction
}

// OccupiedError reports a database that should be empty and is not.
type OccupiedError struct{ Database, Found string }

// Error names the database and what was found.
func (e *OccupiedError) Error() string {
	return fmt.Sprintf("the database %q is not empty: it has %s", e.Database, e.Found)
}

// OpenLoader connects to the database that url names, takes its lock, and begins the transaction. The error
// says why the database could not be reached, or is ErrTaken.
func OpenLoader(ctx context.Context, url string) (l *Loader, err error) {
	l = &Loader{store: &Store{url: url}}
	if err := l.store.dial(ctx, "outcry restore", map[string]string{"client_encoding": "UTF8"}); err != nil {
		return nil, err
	}
	if err := l.store.lock(ctx); err != nil {
		l.Close()
		return nil, err
	}
	l.tx, err = l.store.conn.Begin(ctx)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("postgres: begin: %w", err)
	}
	return l, nil
}

// Close rolls back the transaction unless it was committed, and closes the connection.
func (l *Loader) Close() { l.store.Close() }

// CheckEmpty returns an *OccupiedError that names the first relation in the database, ignoring those of the
// system and of extensions. It returns nil if the database is empty.
func (l *Loader) CheckEmpty(ctx context.Context) error {
	var found string
	err := l.tx.QueryRow(ctx, `
		SELECT CASE c.relkind WHEN 'v' THEN 'the view ' WHEN 'S' THEN 'the sequence ' ELSE 'the table ' END || c.oid::regclass
		  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
		   AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
		   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
		                    WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e')
		 ORDER BY 1 LIMIT 1`).Scan(&found)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("postgres: look for tables: %w", err)
	}
	return &OccupiedError{l.store.conn.Config().Database, found}
}

// Epoch returns the epoch of the exchange in the database, or 0 without one.
func (l *Loader) Epoch(ctx context.Context) (epoch uint64, err error) {
	if err = l.store.conn.find(ctx, l.tx); err == nil && l.store.conn.version > 0 {
		err = l.tx.QueryRow(ctx, `SELECT epoch FROM people.exchange_state`).Scan(&epoch)
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: look for an exchange: %w", err)
	}
	return epoch, nil
}

// MakeSchema creates the schema at a version, with empty tables. The error says that this program does not
// know the version, or why the schema could not be created.
func (l *Loader) MakeSchema(ctx context.Context, version int) (err error) {
	if newest := SchemaVersion(); version < 1 || version > newest {
		return fmt.Errorf("postgres: %w: its schema has version %d, this program knows 1 to %d", errUnusable, version, newest)
	}
	if err := l.store.conn.checkPlaces(ctx); err != nil {
		return err
	}
	if err := l.store.conn.noteVersion(ctx, l.tx); err != nil {
		return err
	}
	if err := l.migrate(ctx, 0, version); err != nil {
		return err
	}
	tables, err := l.tables(ctx)
	for _, t := range tables {
		if err == nil { // migrations may have inserted rows
			_, err = l.tx.Exec(ctx, "TRUNCATE "+l.named(t))
		}
	}
	if err != nil {
		return fmt.Errorf("postgres: empty the tables: %w", err)
	}
	return nil
}

// Replace prepares a database that may hold an exchange as MakeSchema does. It empties existing tables and keeps them,
// so that views and grants that operators added to them survive. The existing version and version must then both be
// the newest; otherwise it returns an error.
func (l *Loader) Replace(ctx context.Context, version int) error {
	if err := l.store.conn.find(ctx, l.tx); err != nil {
		return fmt.Errorf("postgres: look for an exchange: %w", err)
	}
	there, newest := l.store.conn.version, SchemaVersion()
	switch {
	case there == 0:
		if err := l.CheckEmpty(ctx); err != nil {
			return err
		}
		return l.MakeSchema(ctx, version)
	case version != newest || there > newest:
		return fmt.Errorf("postgres: %w: the tables have schema version %d, the backup has %d, and this program makes "+
			"%d: take a backup of a node of the same program", errUnusable, there, version, newest)
	}
	if err := l.migrate(ctx, there, newest); err != nil {
		return err
	}
	l.version = newest
	tables, err := l.tables(ctx)
	if err != nil {
		return fmt.Errorf("postgres: list the tables: %w", err)
	}
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = l.store.conn.in(l.named(t))
	}
	if _, err := l.tx.Exec(ctx, "TRUNCATE "+strings.Join(names, ", ")); err != nil {
		return fmt.Errorf("postgres: empty the tables: %w", err)
	}
	return nil
}

// Upgrade migrates the schema from version, which MakeSchema has made, to the newest.
func (l *Loader) Upgrade(ctx context.Context, version int) error {
	return l.migrate(ctx, version, SchemaVersion())
}

// migrate runs the migrations after+1 to version, all in the transaction.
func (l *Loader) migrate(ctx context.Context, after, version int) error {
	for next := after + 1; next <= version; next++ {
		if err := l.store.conn.raise(ctx, l.tx, next); err != nil {
			return err
		}
		l.version = next
	}
	return nil
}

// named returns a table's name with its schema, if the current version has schemas.
func (l *Loader) named(t Table) string {
	if l.version < namedSince {
		return peopleDot + pgx.Identifier{t.Name}.Sanitize()
	}
	return named(t.Name)
}

// tables returns the tables that the database has now, without the one for the version.
func (l *Loader) tables(ctx context.Context) (all []Table, err error) {
	rows, err := l.tx.Query(ctx, `
		SELECT c.relname, array_agg(a.attname ORDER BY a.attnum)
		  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
		  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		 WHERE c.relkind = 'r' AND (n.nspname = $1 AND c.relname <> $2 OR n.nspname = $3 AND c.relname <> $4)
		   AND a.attnum > 0 AND NOT a.attisdropped
		 GROUP BY 1 ORDER BY 1`, l.store.conn.people, formerVersionTable,
		internalSchema, strings.TrimPrefix(versionTable, internalSchema+"."))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		return t, row.Scan(&t.Name, &t.Columns)
	})
}

// CheckTables returns an error that names the first table or column that only the schema or only the list has.
func (l *Loader) CheckTables(ctx context.Context, list []Table) error {
	tables, err := l.tables(ctx)
	if err != nil {
		return fmt.Errorf("postgres: list the tables: %w", err)
	}
	for _, t := range tables {
		i := slices.IndexFunc(list, func(other Table) bool { return other.Name == t.Name })
		if i < 0 {
			return fmt.Errorf("postgres: table %s is missing in the backup", t.Name)
		}
		if !slices.Equal(slices.Sorted(slices.Values(t.Columns)), slices.Sorted(slices.Values(list[i].Columns))) {
			return fmt.Errorf("postgres: table %s has the columns %v in the backup, and %v in its version of the schema", t.Name,
				list[i].Columns, t.Columns)
		}
	}
	for i, other := range list {
		same := func(t Table) bool { return t.Name == other.Name }
		if !slices.ContainsFunc(tables, same) || slices.ContainsFunc(list[:i], same) {
			return fmt.Errorf("postgres: the backup has an unknown table %q", other.Name)
		}
	}
	return nil
}

// Load fills a table with rows that Dump wrote, and returns their number. The error says why they could not be
// written, or is r's.
func (l *Loader) Load(ctx context.Context, t Table, r io.Reader) (rows int64, err error) {
	table := l.store.conn.in(t.sql(l.named(t)))
	tag, err := l.store.conn.PgConn().CopyFrom(ctx, r, "COPY "+table+" FROM STDIN (ENCODING 'UTF8')")
	if err != nil {
		return 0, fmt.Errorf("postgres: fill %s: %w", t.Name, err)
	}
	return tag.RowsAffected(), nil
}

// Identity distinguishes an exchange from the exchange that it is a copy of.
type Identity struct {
	Journal [16]byte // id of the journal that the tables follow from now on
	Epoch   uint64   // the next server gets Epoch+1
	// SkipOrders is the number of order ids to leave unused above the known ones.
	SkipOrders uint64
}

// SetIdentity sets the identity of the exchange. It returns the order id after which new ids begin. The schema
// must be the newest.
func (l *Loader) SetIdentity(ctx context.Context, id Identity) (ordersAfter uint64, err error) {
	err = l.tx.QueryRow(ctx, `UPDATE people.exchange_state SET journal_id = $1, epoch = $2,
			orders_after = $3 + greatest(orders_after, (SELECT coalesce(max(id), 0) FROM outcry.order_log))
		RETURNING orders_after`, id.Journal, int64(id.Epoch), int64(id.SkipOrders)).Scan(&ordersAfter)
	if err != nil {
		return 0, fmt.Errorf("postgres: set the exchange's identity: %w", err)
	}
	return ordersAfter, nil
}

// State returns the state in the tables, audited, and its position. The schema must be the newest. The error
// says why the state could not be read, or what is inconsistent.
func (l *Loader) State(ctx context.Context) (*exchange.State, Position, error) {
	a := &Archive{conn: l.store.conn, tx: l.tx}
	var err error
	if a.state, err = readState(ctx, l.tx); err != nil {
		return nil, Position{}, err
	}
	state, err := a.State(ctx)
	return state, a.state.Position, err
}

// NewestOrder returns when the newest order in the tables was placed, or the zero time.
func (l *Loader) NewestOrder(ctx context.Context) (placed time.Time, err error) {
	return newestOrder(ctx, l.tx)
}

// CheckRefs checks the refs in the tables as Archive.CheckRefs does.
func (l *Loader) CheckRefs(ctx context.Context) (refs int64, err error) {
	return (&Archive{conn: l.store.conn, tx: l.tx}).CheckRefs(ctx)
}

// Analyze updates the planner's statistics, which do not yet know the rows of this transaction.
func (l *Loader) Analyze(ctx context.Context) error {
	if _, err := l.tx.Exec(ctx, `ANALYZE`); err != nil {
		return fmt.Errorf("postgres: analyze: %w", err)
	}
	return nil
}

// Commit makes everything durable. After an error the transaction may or may not have been committed.
func (l *Loader) Commit(ctx context.Context) error {
	if err := l.tx.Commit(ctx); err != nil {
		return fmt.Errorf("postgres: commit: %w", err)
	}
	return nil
}
