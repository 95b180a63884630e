package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// Archive reads a database as of one moment, for programs that check or back it up. It writes nothing, takes
// no lock, and does not see later changes. Not safe for concurrent use.
type Archive struct {
	conn  *session
	tx    pgx.Tx
	state stateRow

	numbers []numbers // numbers of the fills of the event that History passes to its callback
}

// RowError names a row that is wrong regardless of the journal.
type RowError struct {
	Table, Key, Reason string
}

// Error names the table, the row and the reason.
func (e *RowError) Error() string { return fmt.Sprintf("%s, %s: %s", e.Table, e.Key, e.Reason) }

// OpenArchive connects to the database that url names. The Archive shows the database as of this call. The
// caller must call Close. The error says why the database could not be reached, or that it is not a database
// of this version of the program; Unusable reports true for the latter.
func OpenArchive(ctx context.Context, url string) (*Archive, error) {
	a, err := connectArchive(ctx, url, "outcry verify")
	if err != nil {
		return nil, err
	}
	if err := a.begin(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// connectArchive connects with an application_name that pg_stat_activity shows.
func connectArchive(ctx context.Context, url, name string) (*Archive, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", errUnusable, WithoutURL(err))
	}
	setUp(config, name, map[string]string{"default_transaction_read_only": "on"})
	a := &Archive{}
	if a.conn, err = openSession(ctx, config); err != nil {
		return nil, err
	}
	return a, nil
}

// begin opens the transaction for all reads and reads the position of the projection. It takes at most
// reconnectMax.
func (a *Archive) begin(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reconnectMax)
	defer cancel()
	if a.tx, err = a.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err != nil {
		return fmt.Errorf("postgres: begin: %w", err)
	}
	if err := a.checkVersion(ctx); err != nil {
		return err
	}
	a.state, err = readState(ctx, a.tx)
	return err
}

// checkVersion returns an error if the schema's version is not this program's.
func (a *Archive) checkVersion(ctx context.Context) error {
	if err := a.conn.find(ctx, a.tx); err != nil {
		return fmt.Errorf("postgres: find the exchange: %w", err)
	}
	newest, version := SchemaVersion(), a.conn.version
	switch {
	case !a.conn.noted:
		return fmt.Errorf("postgres: %w: %q holds no exchange", errUnusable, a.conn.Config().Database)
	case version < newest:
		return fmt.Errorf("postgres: %w: its schema has version %d, this program needs %d; a start of outcryd brings it "+
			"there", errUnusable, version, newest)
	case version > newest:
		return fmt.Errorf("postgres: %w: its schema has version %d, this program knows up to %d",
			errUnusable, version, newest)
	}
	return nil
}

// Close closes the connection.
func (a *Archive) Close() { (&Store{conn: a.conn}).Close() }

// Position returns the position of the projection.
func (a *Archive) Position() Position { return a.state.Position }

// HistoryAfter returns the record after which history begins: 0, or the last record that was applied before
// the schema kept a row for each record.
func (a *Archive) HistoryAfter() uint64 { return a.state.historyAfter }

// ExactAfter returns the record after which times have nanoseconds; it is 0 unless an older schema was
// upgraded.
func (a *Archive) ExactAfter() uint64 { return a.state.exactAfter }

// Opening returns the state at which history begins, as of HistoryAfter. Each order's executions up to then
// are summed into one.
func (a *Archive) Opening(ctx context.Context) (*exchange.Snapshot, error) {
	snap := &exchange.Snapshot{Seq: a.state.historyAfter}
	if err := loadTables(ctx, a.tx, opening, snap); err != nil {
		return nil, err
	}
	sumExecutions(snap)
	row := a.tx.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM outcry.order_log WHERE seq IS NULL`)
	if err := row.Scan(&snap.OrderID); err != nil {
		return nil, fmt.Errorf("postgres: read order_log: %w", err)
	}
	return snap, nil
}

// Tables returns the state in the tables, as of Position, without the executions of open orders.
func (a *Archive) Tables(ctx context.Context) (*exchange.Snapshot, error) {
	snap := &exchange.Snapshot{Seq: a.state.Applied, Time: a.state.time}
	if err := loadTables(ctx, a.tx, present, snap); err != nil {
		return nil, err
	}
	if err := loadLineages(ctx, a.tx, snap); err != nil {
		return nil, err
	}
	row := a.tx.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM outcry.order_log`)
	if err := row.Scan(&snap.OrderID); err != nil {
		return nil, fmt.Errorf("postgres: read order_log: %w", err)
	}
	return snap, nil
}

// CheckOrders compares the executed shares of each row of the view orders with the sum of the order's rows in
// the view executions. A *RowError names the first order for which they differ.
func (a *Archive) CheckOrders(ctx context.Context) error {
	var id int64
	var says, sum string
	err := a.tx.QueryRow(ctx, `
		SELECT coalesce(o.id, e.id), coalesce(o.executed::text, 'no order'), coalesce(e.shares, 0)::text
		  FROM people.orders o
		  FULL JOIN (SELECT id, sum(shares) AS shares
		               FROM (SELECT buy_order AS id, shares FROM people.executions
		                     UNION ALL
		                     SELECT sell_order, shares FROM people.executions) both_sides
		              GROUP BY id) e ON e.id = o.id
		 WHERE o.executed IS DISTINCT FROM coalesce(e.shares, 0)
		    OR o.amount IS DISTINCT FROM sign(o.amount) * (o.open + o.executed + o.reduced + o.canceled)
		 ORDER BY 1 LIMIT 1`).Scan(&id, &says, &sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("postgres: compare orders with executions: %w", err)
	}
	return &RowError{"orders", fmt.Sprintf("id %d", id), fmt.Sprintf("executed is %s, its executions sum up to %s", says,
		sum)}
}
