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

// layout is every table of the schema but the migrator's, with all columns. A test
// compares it with what the migrations make.
var layout = []Table{
	{"exchange_state", []string{"one", "applied_seq", "epoch", "journal_id", "ack", "history_after", "orders_after"}},
	{"accounts", []string{"id", "opened", "balance", "held", "seq"}},
	{"symbols", []string{"sym", "placed", "seq", "halted_at", "halt_reason"}},
	{"positions", []string{"sym", "account", "shares", "held"}},
	{"market", []string{"sym", "trades", "shares", "notional", "last_price", "last_time"}},
	{"placement_log", []string{"seq", "sym", "account", "shares"}},
	{"order_log", []string{"id", "account", "sym", "amount", "limit_price", "time", "seq"}},
	{"execution_log", []string{"order_id", "n", "resting_id", "sym", "buys", "shares", "price", "time"}},
	{"part_log", []string{"seq", "order_id", "first_n", "last_n", "open", "time"}},
	{"cancel_log", []string{"order_id", "shares", "time", "seq", "n"}},
	{"halt_log", []string{"seq", "sym", "halted", "reason", "time"}},
	{"refs", []string{"account", "ref", "seq", "order_id"}},
	{"resting_orders", []string{"id", "account", "sym", "amount", "limit_price", "open"}},
	{"opening_accounts", []string{"id", "opened", "balance", "held"}},
	{"opening_symbols", []string{"sym", "placed", "halted_at", "halt_reason"}},
	{"opening_positions", []string{"sym", "account", "shares", "held"}},
	{"opening_resting_orders", []string{"id", "account", "sym", "amount", "limit_price", "open"}},
}

// Tables lists every table that a backup of the schema's present version keeps.
func Tables() []Table { return layout }

// appliedPoll is how often applied_seq is looked at while it is waited for.
const appliedPoll = 50 * time.Millisecond

// OpenArchiveAt is OpenArchive as soon as the tables include record seq. Until then it
// calls waiting with what they include, some 20 times a second, which may give up with
// an error; so does ctx.
func OpenArchiveAt(ctx context.Context, url string, seq uint64, waiting func(Position) error) (*Archive, error) {
	a, err := connectArchive(ctx, url, "outcry backup")
	if err != nil {
		return nil, err
	}
	for err == nil {
		if err = a.begin(ctx); err != nil || a.position.Applied >= seq {
			break
		}
		if err = waiting(a.position); err == nil {
			err = a.pause(ctx)
		}
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
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

// Epoch returns how many servers have had the database, or a number above all of
// them. The error says why it could not be read.
func (a *Archive) Epoch(ctx context.Context) (epoch uint64, err error) {
	if err := a.tx.QueryRow(ctx, `SELECT epoch FROM exchange_state`).Scan(&epoch); err != nil {
		return 0, fmt.Errorf("postgres: read exchange_state: %w", err)
	}
	return epoch, nil
}

// Dump writes the rows of a table to w, as COPY writes them as text in UTF-8, and
// returns how many there are. The error says why they could not be read, or is w's.
func (a *Archive) Dump(ctx context.Context, t Table, w io.Writer) (rows int64, err error) {
	tag, err := a.conn.PgConn().CopyTo(ctx, w, "COPY "+t.sql()+" TO STDOUT (ENCODING 'UTF8')")
	if err != nil {
		return 0, fmt.Errorf("postgres: copy %s: %w", t.Name, err)
	}
	return tag.RowsAffected(), nil
}

// sql names the table with its columns.
func (t Table) sql() string {
	quoted := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		quoted[i] = pgx.Identifier{c}.Sanitize()
	}
	return pgx.Identifier{t.Name}.Sanitize() + " (" + strings.Join(quoted, ", ") + ")"
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
		if executed := o.Shares - o.Open; executed != 0 {
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
	sql := `SELECT id, (SELECT count(*) FROM execution_log WHERE order_id = id)
		FROM (SELECT max(id) AS id FROM resting_orders WHERE open < abs(amount) GROUP BY sym) newest ORDER BY id`
	return each(ctx, a.tx, sql, []any{&id, &n}, func() error {
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
