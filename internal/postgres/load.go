package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// Load reads the state that the tables hold, as of their applied_seq. It reads
// what is open, not history. The error names what could not be read.
func (s *Store) Load(ctx context.Context) (*exchange.Snapshot, error) {
	snap := &exchange.Snapshot{}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.conn, options, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, `SELECT applied_seq, (SELECT coalesce(max(id), 0) FROM order_log) FROM exchange_state`)
		if err := row.Scan(&snap.Seq, &snap.OrderID); err != nil {
			return fmt.Errorf("postgres: load exchange_state: %w", err)
		}
		if err := loadTables(ctx, tx, "", snap); err != nil {
			return err
		}
		return loadExecutions(ctx, tx, snap)
	})
	return snap, err
}

// loadTables reads what accounts, symbols, positions and open orders there are,
// without what these have executed, from the tables with a prefix to their name.
func loadTables(ctx context.Context, tx pgx.Tx, prefix string, snap *exchange.Snapshot) error {
	for _, load := range []func(context.Context, pgx.Tx, string, *exchange.Snapshot) error{
		loadAccounts, loadSymbols, loadPositions, loadOrders,
	} {
		if err := load(ctx, tx, prefix, snap); err != nil {
			return err
		}
	}
	return nil
}

// each runs a query and calls f for every row, with the columns in into.
func each(ctx context.Context, tx pgx.Tx, sql string, into []any, f func() error) error {
	rows, err := tx.Query(ctx, sql)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, f)
	}
	if err != nil {
		return fmt.Errorf("postgres: load by %q: %w", sql, err)
	}
	return nil
}

// cashColumn and sharesColumn scan a numeric column into exact units.
type (
	cashColumn   exchange.Cash
	sharesColumn exchange.Position
)

// ScanNumeric implements pgtype.NumericScanner.
func (c *cashColumn) ScanNumeric(n pgtype.Numeric) (err error) {
	*(*exchange.Int128)(c), err = int128(n, scaleCash)
	return err
}

// ScanNumeric implements pgtype.NumericScanner.
func (c *sharesColumn) ScanNumeric(n pgtype.Numeric) (err error) {
	*(*exchange.Int128)(c), err = int128(n, scaleShares)
	return err
}

func loadAccounts(ctx context.Context, tx pgx.Tx, prefix string, snap *exchange.Snapshot) error {
	var a exchange.AccountState
	into := []any{(*string)(&a.ID), (*cashColumn)(&a.Opened), (*cashColumn)(&a.Balance), (*cashColumn)(&a.Held)}
	return each(ctx, tx, `SELECT id, opened, balance, held FROM `+prefix+`accounts`, into, func() error {
		snap.Accounts = append(snap.Accounts, a)
		return nil
	})
}

func loadSymbols(ctx context.Context, tx pgx.Tx, prefix string, snap *exchange.Snapshot) error {
	var sym exchange.SymbolState
	var halt exchange.Halt
	var halted bool
	into := []any{(*string)(&sym.Symbol), (*sharesColumn)(&sym.Deposited), &halted, &halt.Since, &halt.Reason}
	sql := `SELECT sym, placed, halted_at IS NOT NULL, coalesce(halted_at, 0), coalesce(halt_reason, '') FROM ` + prefix + `symbols`
	return each(ctx, tx, sql, into, func() error {
		sym.Halt = nil
		if halted {
			sym.Halt = &exchange.Halt{Since: halt.Since * exchange.Second, Reason: halt.Reason}
		}
		snap.Symbols = append(snap.Symbols, sym)
		return nil
	})
}

func loadPositions(ctx context.Context, tx pgx.Tx, prefix string, snap *exchange.Snapshot) error {
	var p exchange.PositionState
	into := []any{(*string)(&p.Symbol), (*string)(&p.Account), (*sharesColumn)(&p.Shares), (*sharesColumn)(&p.Held)}
	return each(ctx, tx, `SELECT sym, account, shares, held FROM `+prefix+`positions`, into, func() error {
		snap.Positions = append(snap.Positions, p)
		return nil
	})
}

func loadOrders(ctx context.Context, tx pgx.Tx, prefix string, snap *exchange.Snapshot) error {
	var o exchange.OrderState
	var amount int64
	into := []any{&o.ID, (*string)(&o.Account), (*string)(&o.Symbol), &amount, &o.Limit, &o.Open}
	return each(ctx, tx, `SELECT id, account, sym, amount, limit_price, open FROM `+prefix+`resting_orders ORDER BY id`, into, func() error {
		o.Side, o.Shares = sideOf(amount)
		snap.Orders = append(snap.Orders, o)
		return nil
	})
}

// sideOf splits an amount: a negative one sells.
func sideOf(amount int64) (exchange.Side, exchange.Shares) {
	if amount < 0 {
		return exchange.Sell, exchange.Shares(-amount)
	}
	return exchange.Buy, exchange.Shares(amount)
}

// executionsOf is every execution of the orders that a relation "wanted" names in
// its column id: those as aggressing order in the order of matching, then those
// as resting order in the order of the ids that took from it.
const executionsOf = `
	SELECT wanted.id, e.shares, e.price, e.time, 0 AS part, e.n::bigint AS place
	  FROM wanted CROSS JOIN LATERAL (SELECT * FROM execution_log WHERE order_id = wanted.id) e
	UNION ALL
	SELECT wanted.id, e.shares, e.price, e.time, 1 AS part, e.order_id AS place
	  FROM wanted CROSS JOIN LATERAL (SELECT * FROM execution_log WHERE resting_id = wanted.id) e
	 ORDER BY id, part, place`

// loadExecutions reads what the open orders have executed so far. The planner is
// kept to the indexes: it must not read through history for what is open.
func loadExecutions(ctx context.Context, tx pgx.Tx, snap *exchange.Snapshot) error {
	_, err := tx.Exec(ctx, `SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off`)
	if err != nil {
		return fmt.Errorf("postgres: load executions: %w", err)
	}
	next := 0 // both lists are sorted by id
	var id exchange.OrderID
	var e exchange.Execution
	var part, place int64
	into := []any{&id, &e.Shares, &e.Price, &e.Time, &part, &place}
	sql := `WITH wanted AS (SELECT id FROM resting_orders WHERE open < abs(amount))` + executionsOf
	return each(ctx, tx, sql, into, func() error {
		for snap.Orders[next].ID != id {
			next++
		}
		e.Time *= exchange.Second
		snap.Orders[next].Executions = append(snap.Orders[next].Executions, e)
		return nil
	})
}
