package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// Load reads the state in the tables, as of their applied_seq. Its cost depends on the number of open orders,
// not on history. The error names what could not be read.
func (s *Store) Load(ctx context.Context) (*exchange.Snapshot, error) {
	snap := &exchange.Snapshot{}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.conn, options, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, `SELECT applied_seq, time_ns, (SELECT coalesce(max(id), 0) FROM outcry.order_log)
			FROM people.exchange_state`)
		if err := row.Scan(&snap.Seq, &snap.Time, &snap.OrderID); err != nil {
			return fmt.Errorf("postgres: load exchange_state: %w", err)
		}
		if err := loadTables(ctx, tx, present, snap); err != nil {
			return err
		}
		// The planner must use indexes: it must not scan the history to find the open orders.
		_, err := tx.Exec(ctx, `SET LOCAL enable_hashjoin = off;
			SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off`)
		if err != nil {
			return fmt.Errorf("postgres: load executions: %w", err)
		}
		if err := loadLineages(ctx, tx, snap); err != nil {
			return err
		}
		if err := loadAccepted(ctx, tx, snap); err != nil {
			return err
		}
		return loadExecutions(ctx, tx, snap)
	})
	return snap, err
}

// loadTables reads accounts, symbols, positions and open orders, the orders sorted by id. It does not read the
// orders' executions, nor which orders they replace.
func loadTables(ctx context.Context, tx pgx.Tx, from holdings, snap *exchange.Snapshot) error {
	err := each(ctx, tx, from.accounts, "", func(a *accountRow) { snap.Accounts = append(snap.Accounts, a.state()) })
	if err == nil {
		err = each(ctx, tx, from.symbols, "", func(s *symbolRow) { snap.Symbols = append(snap.Symbols, s.SymbolState) })
	}
	if err == nil {
		err = loadLast(ctx, tx, from.last, snap)
	}
	if err == nil {
		err = each(ctx, tx, from.positions, "", func(p *exchange.PositionState) {
			snap.Positions = append(snap.Positions, *p)
		})
	}
	if err == nil {
		err = each(ctx, tx, from.orders, " ORDER BY id", func(o *restingRow) {
			snap.Orders = append(snap.Orders, o.state())
		})
	}
	return err
}

// each calls f for every row of a table. clauses, such as ORDER BY, follow the table's name. The row is valid
// until f returns.
func each[R any](ctx context.Context, tx pgx.Tx, t *table[R], clauses string, f func(*R)) error {
	var row R
	return load(ctx, tx, t.query(clauses), t.into(&row), func() error {
		f(&row)
		return nil
	})
}

// load runs a query and calls f for every row, after scanning its columns into into.
func load(ctx context.Context, tx pgx.Tx, sql string, into []any, f func() error) error {
	rows, err := tx.Query(ctx, sql)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, f)
	}
	if err != nil {
		return fmt.Errorf("postgres: load by %q: %w", sql, err)
	}
	return nil
}

// executionsOf selects every execution of the orders whose ids are in the column id of a relation named wanted.
// Executions as the taker come first, in the order of matching; then those as the resting order, sorted by the taker's
// id.
var executionsOf = `
	SELECT wanted.id, ` + executionSeen.list("e") + `, 0 AS part, e.n::bigint AS place
	  FROM wanted CROSS JOIN LATERAL (SELECT * FROM outcry.execution_log WHERE order_id = wanted.id) e
	UNION ALL
	SELECT wanted.id, ` + executionSeen.list("e") + `, 1 AS part, e.order_id AS place
	  FROM wanted CROSS JOIN LATERAL (SELECT * FROM outcry.execution_log WHERE resting_id = wanted.id) e
	 ORDER BY id, part, place`

// loadExecutions reads the executions of the open orders.
func loadExecutions(ctx context.Context, tx pgx.Tx, snap *exchange.Snapshot) error {
	for i := range snap.Orders {
		snap.Orders[i].Taken = exchange.Took(0)
	}
	next, taken := 0, 0 // both lists are sorted by id
	var id exchange.OrderID
	var x execution
	var part int
	into := append(append([]any{&id}, executionSeen.into(&x)...), &part, nil)
	sql := `WITH wanted AS (SELECT id FROM outcry.resting_orders WHERE open < abs(amount))` + executionsOf
	return load(ctx, tx, sql, into, func() error {
		for ; snap.Orders[next].ID != id; next++ {
			taken = 0
		}
		o := &snap.Orders[next]
		o.Executions = append(o.Executions, x.Execution)
		if part == 0 {
			taken++
			o.Taken = exchange.Took(taken)
		}
		return nil
	})
}

// loadLineages reads which orders the amended open orders replace, and the ref of each one's newest amend. It
// reads two amends per order, however many there are: the oldest, which made the order if it replaced another,
// and the newest. The conditions are written so that only the index by order and record gives the rows in
// order.
func loadLineages(ctx context.Context, tx pgx.Tx, snap *exchange.Snapshot) error {
	next := 0 // both lists are sorted by id
	var r record
	oldest := amendLog.pick("order_id", "old_id", "first_id", "executed")
	sql := `SELECT ` + oldest.list("m") + `, l.ref FROM outcry.resting_orders r
		CROSS JOIN LATERAL (SELECT * FROM outcry.amend_log WHERE order_id >= r.id ORDER BY order_id, seq LIMIT 1) m
		CROSS JOIN LATERAL (SELECT order_id, ref FROM outcry.amend_log WHERE order_id <= r.id
			ORDER BY order_id DESC, seq DESC LIMIT 1) l
		WHERE r.instructions & 1536 <> 0 AND m.order_id = r.id AND l.order_id = r.id ORDER BY r.id`
	return load(ctx, tx, sql, append(oldest.into(&r), &r.called), func() error {
		for snap.Orders[next].ID != r.Order {
			next++
		}
		o := &snap.Orders[next]
		if o.NewRef = r.called; o.Lineage != nil { // without a lineage the amend only set the ref
			o.Lineage.First = r.Amend.First
			if r.Amend.Old.Order != 0 {
				o.Lineage.Replaces, o.Lineage.Executed = r.Amend.Old.Order, r.Amend.Executed
			}
		}
		return nil
	})
}

// loadLast reads the price of each symbol's newest trade and the number of its trades.
func loadLast(ctx context.Context, tx pgx.Tx, sql string, snap *exchange.Snapshot) error {
	last := make(map[exchange.Symbol]exchange.Traded)
	var sym exchange.Symbol
	var price priceColumn
	var trades uint64
	err := load(ctx, tx, sql, []any{&sym, &price, &trades}, func() error {
		last[sym] = exchange.Traded{Last: exchange.Price(price), Trades: trades}
		return nil
	})
	for i := range snap.Symbols {
		s := &snap.Symbols[i]
		s.Last, s.Trades = last[s.Symbol].Last, last[s.Symbol].Trades
	}
	return err
}

// loadAccepted reads what accounts see of their open orders besides the state: time of acceptance, ref, and
// which terms the client left out.
func loadAccepted(ctx context.Context, tx pgx.Tx, snap *exchange.Snapshot) error {
	next := 0 // both lists are sorted by id
	var r record
	accepted := orderLog.pick("id", "time", "nanos", "instructions", "ref")
	sql := `SELECT ` + accepted.list("l") + ` FROM outcry.resting_orders r
		CROSS JOIN LATERAL (SELECT * FROM outcry.order_log WHERE id = r.id OFFSET 0) l ORDER BY r.id`
	return load(ctx, tx, sql, accepted.into(&r), func() error {
		for snap.Orders[next].ID != r.Order {
			next++
		}
		o := &snap.Orders[next]
		o.Time, o.Ref, o.Unsent = r.Time, r.called, r.Unsent
		return nil
	})
}
