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

// Table is a table of the exchange, and the columns of it that a backup keeps.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
}

// Tables lists every table that a backup of the schema's present version keeps: all but
// the one with the version.
func Tables() (all []Table) {
	for _, t := range allTables {
		d, _, _ := t.describe()
		all = append(all, d)
	}
	return all
}

// appliedPoll is how often applied_seq is looked at while it is waited for.
const appliedPoll = 50 * time.Millisecond

// OpenArchiveAt is OpenArchive as soon as the tables include record seq. Until then it
// calls waiting some 20 times a second, with what they include and whether a server has
// the database, which alone brings them further. waiting may give up with an error; so
// does ctx.
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

// served reports whether a session has the lock of the server that writes.
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

// pause ends the transaction and waits for a moment.
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

// Server returns the version of Postgres, in its own words.
func (a *Archive) Server() string { return a.conn.PgConn().ParameterStatus("server_version") }

// Epoch returns how many servers have had the database, or a number above all of them.
func (a *Archive) Epoch() uint64 { return a.state.epoch }

// Dump writes the rows of a table to w, as COPY writes them as text in UTF-8, and
// returns how many there are. The error says why they could not be read, or is w's.
func (a *Archive) Dump(ctx context.Context, t Table, w io.Writer) (rows int64, err error) {
	tag, err := a.conn.PgConn().CopyTo(ctx, w, "COPY "+a.conn.in(t.sql(named(t.Name)))+" TO STDOUT (ENCODING 'UTF8')")
	if err != nil {
		return 0, fmt.Errorf("postgres: copy %s: %w", t.Name, err)
	}
	return tag.RowsAffected(), nil
}

// sql names the table, which has the given name in statements, with its columns.
func (t Table) sql(name string) string {
	quoted := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		quoted[i] = pgx.Identifier{c}.Sanitize()
	}
	return name + " (" + strings.Join(quoted, ", ") + ")"
}

// State returns the state that the tables hold, audited, as of Position. What an open
// order has executed is given in the first of its executions, of which there are as many
// as there were only where the order may be unfinished. The error says why it could not be
// read, or names what does not add up.
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

// sumExecutions gives what each order has executed as one execution.
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

// countExecutions gives the newest open order of each symbol as many executions as it had
// when it came. An unfinished order is such a one, and its next part says after how many it
// goes on.
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
