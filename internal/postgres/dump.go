package postgres

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// Table is a table of the exchange with the columns that a backup keeps.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
}

// Tables returns every table that a backup of the newest schema keeps: all except the table with the schema's
// version.
func Tables() (all []Table) {
	for _, t := range allTables {
		d, _, _ := t.describe()
		all = append(all, d)
	}
	return all
}

// appliedPoll is the time between two looks at applied_seq.
const appliedPoll = 50 * time.Millisecond

// OpenArchiveAt waits until the tables include record seq, and then opens them as OpenArchive does. Until then
// it calls waiting about 20 times a second, with the position and with whether a server is connected to the
// database: only a server applies further records. It returns the error of waiting or of ctx.
func OpenArchiveAt(
	ctx context.Context, url string, seq uint64, waiting func(p Position, served bool) error,
) (*Archive, error) {
	a, err := connectArchive(ctx, url, "outcry backup")
	if err != nil {
		return nil, err
	}
	for {
		if err = a.begin(ctx); err != nil || a.state.Applied >= seq {
			break
		}
		var served bool
		if served, err = a.served(ctx); err != nil {
			break
		}
		if err = waiting(a.state.Position, served); err != nil {
			break
		}
		if err = a.pause(ctx); err != nil {
			break
		}
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// served reports whether a session holds the lock of the server that writes.
func (a *Archive) served(ctx context.Context) (yes bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconnectMax)
	defer cancel()
	err = a.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l
		JOIN pg_catalog.pg_database d ON d.oid = l.database WHERE d.datname = current_database()
		  AND `+holdsLock+`)`, lockKeyHigh, lockKeyLow).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("postgres: ask whether a server has the database: %w", err)
	}
	return yes, nil
}

// pause ends the transaction and waits for appliedPoll.
func (a *Archive) pause(ctx context.Context) error {
	if err := a.tx.Rollback(ctx); err != nil {
		return fmt.Errorf("postgres: end a transaction: %w", err)
	}
	select {
	case <-time.After(appliedPoll):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Server returns the version of Postgres as the server reports it.
func (a *Archive) Server() string { return a.conn.PgConn().ParameterStatus("server_version") }

// Epoch returns the epoch: at least the number of servers that have used the database.
func (a *Archive) Epoch() uint64 { return a.state.epoch }

// Dump writes the rows of a table to w in COPY's text format, in UTF-8, and returns the number of rows. The
// error says why they could not be read, or is w's.
func (a *Archive) Dump(ctx context.Context, t Table, w io.Writer) (rows int64, err error) {
	tag, err := a.conn.PgConn().CopyTo(ctx, w, "COPY "+a.conn.in(t.sql(named(t.Name)))+" TO STDOUT (ENCODING 'UTF8')")
	if err != nil {
		return 0, fmt.Errorf("postgres: copy %s: %w", t.Name, err)
	}
	return tag.RowsAffected(), nil
}

// sql returns the table's name as given, with its columns, for use in a statement.
func (t Table) sql(name string) string {
	quoted := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		quoted[i] = pgx.Identifier{c}.Sanitize()
	}
	return name + " (" + strings.Join(quoted, ", ") + ")"
}

// State returns the state in the tables, audited, as of Position. The executed shares of an open order are
// summed in its first execution. An order that may be unfinished also gets the right number of executions;
// those after the first are empty. The error says why the state could not be read, or what is inconsistent.
func (a *Archive) State(ctx context.Context) (*exchange.State, error) {
	snap, err := a.Tables(ctx)
	if err != nil {
		return nil, err
	}
	sumExecutions(snap)
	if err := a.countExecutions(ctx, snap); err != nil {
		return nil, err
	}
	return snap.Restore()
}

// sumExecutions gives each order one execution with all its executed shares.
func sumExecutions(snap *exchange.Snapshot) {
	for i := range snap.Orders {
		o := &snap.Orders[i]
		executed := o.Shares - o.Open
		if o.Lineage != nil {
			executed -= o.Lineage.Reduced
		}
		if executed != 0 {
			o.Executions = []exchange.Execution{{Shares: executed, Price: o.Limit}}
		}
	}
}

// countExecutions pads the newest open order of each symbol to the number of executions that it had as taker.
// Only that order can be unfinished, and its next part states how many executions came before.
func (a *Archive) countExecutions(ctx context.Context, snap *exchange.Snapshot) error {
	next := 0 // both lists are sorted by id
	var id exchange.OrderID
	var n int
	sql := `SELECT id, (SELECT count(*) FROM outcry.execution_log WHERE order_id = id)
		FROM (SELECT max(id) AS id FROM outcry.resting_orders WHERE open < abs(amount) GROUP BY sym) newest ORDER BY id`
	return load(ctx, a.tx, sql, []any{&id, &n}, func() error {
		for snap.Orders[next].ID != id {
			next++
		}
		o := &snap.Orders[next]
		for len(o.Executions) < n {
			o.Executions = append(o.Executions, exchange.Execution{Price: o.Limit})
		}
		return nil
	})
}
