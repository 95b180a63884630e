package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CheckTables reads the new rows of the exchange's tables, checks that they follow from what was sent, and compares
// balances and positions. Postgres must have every record, and no client may be trading. The tables for people are
// in the schema public.
func (s *Session) CheckTables(ctx context.Context, db *pgx.Conn) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	defer tx.Rollback(ctx)
	if err := s.compareAccounts(ctx, tx); err != nil {
		return err
	}
	found, err := s.truth.read(ctx, tx)
	if err != nil {
		return err
	}
	if err := s.truth.advance(found); err != nil {
		return err
	}
	if err := s.truth.compare(ctx, tx); err != nil {
		return err
	}
	if err := s.truth.countRows(ctx, tx); err != nil {
		return err
	}
	return s.history.match(s.truth)
}

// compareAccounts compares accounts and deposits with the sent commands.
func (s *Session) compareAccounts(ctx context.Context, tx pgx.Tx) error {
	var opened, placed []string
	err := collect(ctx, tx, &opened,
		`SELECT id || ' ' || trim_scale(opened) FROM public.accounts WHERE id LIKE '9_________'`)
	if err == nil {
		err = collect(ctx, tx, &placed,
			`SELECT account || ' ' || sym || ' ' || trim_scale(shares + held) FROM public.positions
				WHERE account LIKE '9_________'`)
	}
	if err != nil {
		return err
	}
	return s.history.matchAccounts(s.truth, opened, placed)
}

func collect(ctx context.Context, tx pgx.Tx, to *[]string, sql string) error {
	rows, err := tx.Query(ctx, sql)
	if err == nil {
		*to, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// countRows returns an error if the tables have rows that should have been read but were not.
func (t *truth) countRows(ctx context.Context, tx pgx.Tx) error {
	var orders, fills, cancels int64
	err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM outcry.order_log), (SELECT count(*) FROM public.executions),
		(SELECT count(*) FROM outcry.cancel_log)`).Scan(&orders, &fills, &cancels)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if orders != t.accepted || fills != t.fills || cancels != t.cancels {
		return fmt.Errorf("the tables have %d orders, %d executions and %d cancels; %d, %d and %d were read one by one",
			orders, fills, cancels, t.accepted, t.fills, t.cancels)
	}
	return nil
}

// rows are the rows of one read of the tables.
type rows struct {
	orders   []*order // new orders by id, with their values in the table
	open     map[uint64]int64
	canceled map[uint64]cancelRow // cancels of new orders and of orders that were already open
	fills    map[uint64][]fill    // by taker
	reduces  map[uint64][]amendRow
}

// read reads the new rows, in one transaction.
func (t *truth) read(ctx context.Context, tx pgx.Tx) (*rows, error) {
	r := &rows{open: map[uint64]int64{}, canceled: map[uint64]cancelRow{}, fills: map[uint64][]fill{},
		reduces: map[uint64][]amendRow{}}
	var was []int64
	for id, o := range t.orders {
		if o.open > 0 {
			was = append(was, int64(id))
		}
	}
	found, err := tx.Query(ctx, `SELECT id, account, sym, (amount * 100000000)::bigint, (limit_price * 100000000)::bigint,
		(open * 100000000)::bigint, canceled::text, coalesce(canceled_at::text, ''),
		(SELECT seq FROM outcry.order_log l WHERE l.id = o.id),
		coalesce((SELECT seq FROM outcry.cancel_log c WHERE c.order_id = o.id), 0),
		CASE type WHEN 'limit' THEN '' ELSE type END, tif, CASE WHEN post THEN 'yes' ELSE '' END, coalesce(stp, ''),
		CASE WHEN cod THEN 'yes' ELSE '' END, coalesce(replaces, 0)
		FROM public.orders o WHERE id > $1 OR id = ANY($2) ORDER BY id`, int64(t.last), was)
	if err != nil {
		return nil, fmt.Errorf("check: orders: %w", err)
	}
	defer found.Close()
	for found.Next() {
		o := new(order)
		var open int64
		var canceled cancelRow
		if err := found.Scan(&o.id, &o.account, &o.sym, &o.amount, &o.limit, &open, &canceled.shares, &canceled.at, &o.seq,
			&canceled.seq, &o.kind, &o.tif, &o.post, &o.stp, &o.cod, &o.replaces); err != nil {
			return nil, fmt.Errorf("check: orders: %w", err)
		}
		r.open[o.id] = open
		if canceled.at != "" {
			r.canceled[o.id] = canceled
		}
		if o.id > t.last {
			r.orders = append(r.orders, o)
		}
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("check: orders: %w", err)
	}
	if err := t.readAmends(ctx, tx, r); err != nil {
		return nil, err
	}
	found, err = tx.Query(ctx, `SELECT aggressing_order,
		CASE WHEN aggressing_order = buy_order THEN sell_order ELSE buy_order END,
		(shares * 100000000)::bigint, (price * 100000000)::bigint, time::text
		FROM public.executions WHERE aggressing_order > $1 ORDER BY aggressing_order, n`, int64(t.last))
	if err != nil {
		return nil, fmt.Errorf("check: executions: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var f fill
		if err := found.Scan(&f.taker, &f.resting, &f.shares, &f.price, &f.time); err != nil {
			return nil, fmt.Errorf("check: executions: %w", err)
		}
		r.fills[f.taker] = append(r.fills[f.taker], f)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("check: executions: %w", err)
	}
	return r, nil
}

// readAmends reads the new amends.
func (t *truth) readAmends(ctx context.Context, tx pgx.Tx, r *rows) error {
	found, err := tx.Query(ctx, `SELECT a.seq, coalesce(a.old_id, a.order_id), a.order_id, a.old_id IS NOT NULL, o.account,
		a.amount, a.limit_price, a.reduced, (a.time_ns / 1000000000)::text
		FROM outcry.amend_log a JOIN outcry.order_log o ON o.id = a.order_id WHERE a.seq > $1 ORDER BY a.seq`, t.newest)
	if err != nil {
		return fmt.Errorf("check: amends: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var a amendRow
		err := found.Scan(&a.seq, &a.about, &a.order, &a.replaces, &a.account, &a.amount, &a.limit, &a.reduced, &a.at)
		if err != nil {
			return fmt.Errorf("check: amends: %w", err)
		}
		if !a.replaces {
			r.reduces[a.order] = append(r.reduces[a.order], a)
		}
		t.amends, t.newest = append(t.amends, a), a.seq
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("check: amends: %w", err)
	}
	return nil
}

// compare checks that the tables' balances and positions equal the computed ones, to the last fraction,
// and that each symbol has as many shares as were deposited.
func (t *truth) compare(ctx context.Context, tx pgx.Tx) error {
	accounts, err := readHoldings(ctx, tx, `SELECT id, '', balance::text, held::text FROM public.accounts`)
	if err != nil {
		return err
	}
	positions, err := readHoldings(ctx, tx, `SELECT sym, account, shares::text, held::text FROM public.positions`)
	if err != nil {
		return err
	}
	cash := map[[2]string]*holding{}
	for id, h := range t.cash {
		cash[[2]string{id}] = h
	}
	if err := compareHoldings("account", accounts, cash, 16); err != nil {
		return err
	}
	if err := compareHoldings("position", positions, t.shares, 8); err != nil {
		return err
	}
	return t.conserved()
}

// readHoldings reads a table with two key columns, the free amount and the held amount.
func readHoldings(ctx context.Context, tx pgx.Tx, sql string) (map[[2]string][2]string, error) {
	found, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("check: holdings: %w", err)
	}
	defer found.Close()
	table := map[[2]string][2]string{}
	for found.Next() {
		var key, have [2]string
		if err := found.Scan(&key[0], &key[1], &have[0], &have[1]); err != nil {
			return nil, fmt.Errorf("check: holdings: %w", err)
		}
		table[key] = have
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("check: holdings: %w", err)
	}
	return table, nil
}
