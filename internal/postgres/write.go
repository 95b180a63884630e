package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// write applies a batch in one transaction that also moves applied_seq from the
// record before it to its last one. It returns the number of rows written.
// ErrTaken means that this server may write no more; after any other error it
// is not known whether the transaction was committed, and reconnect tells.
func (s *Store) write(ctx context.Context, b *batch) (rows int64, err error) {
	if s.conn == nil {
		return 0, errors.New("postgres: not connected")
	}
	err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE exchange_state SET applied_seq = $1 WHERE epoch = $2 AND applied_seq = $3`,
			int64(b.last), s.epoch, int64(b.first-1))
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return ErrTaken
		}
		w := &writer{rows: 1}
		w.accounts(b)
		w.symbols(b)
		w.positions(b)
		w.logs(b)
		w.resting(b)
		if err := tx.SendBatch(ctx, &w.queue).Close(); err != nil {
			return err
		}
		rows = w.rows
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: write records %d to %d: %w", b.first, b.last, err)
	}
	return rows, nil
}

// writer gathers the statements of one batch, which travel together.
type writer struct {
	queue pgx.Batch
	rows  int64
}

// add queues a statement that must touch n rows. Any other number means that the
// tables do not hold what the journal says they hold.
func (w *writer) add(n int, sql string, columns ...any) {
	w.queue.Queue(sql, columns...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(n) {
			return fmt.Errorf("%d rows changed instead of %d by %q", tag.RowsAffected(), n, sql)
		}
		w.rows += int64(n)
		return nil
	})
}

// accounts inserts the accounts that are new and changes the others.
func (w *writer) accounts(b *batch) {
	var fresh, old struct {
		ids                   []string
		opened, balance, held []pgtype.Numeric
		seqs                  []int64
	}
	for id, c := range b.accounts {
		to := &old
		if opened, ok := b.opened[id]; ok {
			to = &fresh
			to.opened = append(to.opened, cashNumeric(opened.balance))
			to.seqs = append(to.seqs, int64(opened.seq))
		}
		to.ids = append(to.ids, string(id))
		to.balance = append(to.balance, cashNumeric(c.balance))
		to.held = append(to.held, cashNumeric(c.held))
	}
	if len(fresh.ids) > 0 {
		w.add(len(fresh.ids), `INSERT INTO accounts (id, opened, balance, held, seq)
			SELECT * FROM unnest($1::text[], $2::numeric[], $3::numeric[], $4::numeric[], $5::bigint[])`,
			fresh.ids, fresh.opened, fresh.balance, fresh.held, fresh.seqs)
	}
	if len(old.ids) > 0 {
		w.add(len(old.ids), `UPDATE accounts a
			SET balance = trim_scale(a.balance + d.balance), held = trim_scale(a.held + d.held)
			FROM unnest($1::text[], $2::numeric[], $3::numeric[]) AS d (id, balance, held)
			WHERE a.id = d.id`,
			old.ids, old.balance, old.held)
	}
}

// symbols inserts the symbols that are new and adds to the others. Only the new
// ones have a seq; the others' is in their row.
func (w *writer) symbols(b *batch) {
	var symbols []string
	var placed []pgtype.Numeric
	var seqs []int64
	for s, p := range b.placed {
		symbols = append(symbols, string(s))
		placed = append(placed, sharesNumeric(p))
		seqs = append(seqs, int64(b.made[s]))
	}
	if len(symbols) > 0 {
		w.add(len(symbols), `INSERT INTO symbols AS s (sym, placed, seq)
			SELECT * FROM unnest($1::text[], $2::numeric[], $3::bigint[])
			ON CONFLICT (sym) DO UPDATE SET placed = trim_scale(s.placed + excluded.placed)`,
			symbols, placed, seqs)
	}
}

// positions changes positions. One that loses shares or holds is there; any
// other may be new. The two are told apart because a row is checked for being
// negative before Postgres looks whether it is there.
func (w *writer) positions(b *batch) {
	var gain, lose struct {
		symbols, accounts []string
		shares, held      []pgtype.Numeric
	}
	for key, c := range b.positions {
		to := &gain
		if c.shares.Sign() < 0 || c.held.Sign() < 0 {
			to = &lose
		}
		to.symbols = append(to.symbols, string(key.symbol))
		to.accounts = append(to.accounts, string(key.account))
		to.shares = append(to.shares, sharesNumeric(c.shares))
		to.held = append(to.held, sharesNumeric(c.held))
	}
	if len(gain.symbols) > 0 {
		w.add(len(gain.symbols), `INSERT INTO positions AS p (sym, account, shares, held)
			SELECT * FROM unnest($1::text[], $2::text[], $3::numeric[], $4::numeric[])
			ON CONFLICT (sym, account) DO UPDATE
			SET shares = trim_scale(p.shares + excluded.shares), held = trim_scale(p.held + excluded.held)`,
			gain.symbols, gain.accounts, gain.shares, gain.held)
	}
	if len(lose.symbols) > 0 {
		w.add(len(lose.symbols), `UPDATE positions p
			SET shares = trim_scale(p.shares + d.shares), held = trim_scale(p.held + d.held)
			FROM unnest($1::text[], $2::text[], $3::numeric[], $4::numeric[]) AS d (sym, account, shares, held)
			WHERE p.sym = d.sym AND p.account = d.account`,
			lose.symbols, lose.accounts, lose.shares, lose.held)
	}
}

// logs appends to the logs of placements, orders, executions and cancels.
func (w *writer) logs(b *batch) {
	if n := len(b.placements); n > 0 {
		seqs, symbols, accounts, shares := make([]int64, n), make([]string, n), make([]string, n), make([]pgtype.Numeric, n)
		for i, p := range b.placements {
			seqs[i], symbols[i], accounts[i], shares[i] = int64(p.seq), string(p.symbol), string(p.account), sharesNumeric(p.shares)
		}
		w.add(n, `INSERT INTO placement_log (seq, sym, account, shares)
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::numeric[])`,
			seqs, symbols, accounts, shares)
	}
	if len(b.orders) > 0 {
		c := newOrderColumns(b.orders, func(*orderRow) bool { return true })
		w.add(len(c.ids), `INSERT INTO order_log (id, account, sym, amount, limit_price, time, seq)
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])`,
			c.ids, c.accounts, c.symbols, c.amounts, c.limits, c.times, c.seqs)
	}
	if n := len(b.executions); n > 0 {
		orders, resting, ns := make([]int64, n), make([]int64, n), make([]int32, n)
		symbols, buys := make([]string, n), make([]bool, n)
		shares, prices, times := make([]int64, n), make([]int64, n), make([]int64, n)
		for i, e := range b.executions {
			orders[i], resting[i], ns[i] = int64(e.order), int64(e.resting), e.n
			symbols[i], buys[i] = string(e.symbol), e.buys
			shares[i], prices[i], times[i] = int64(e.shares), int64(e.price), e.time
		}
		w.add(n, `INSERT INTO execution_log (order_id, resting_id, n, sym, buys, shares, price, time)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::bool[], $6::bigint[], $7::bigint[], $8::bigint[])`,
			orders, resting, ns, symbols, buys, shares, prices, times)
	}
	if n := len(b.cancels); n > 0 {
		orders, shares, times, seqs := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		for i, c := range b.cancels {
			orders[i], shares[i], times[i], seqs[i] = int64(c.order), int64(c.shares), c.time, int64(c.seq)
		}
		w.add(n, `INSERT INTO cancel_log (order_id, shares, time, seq)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])`,
			orders, shares, times, seqs)
	}
}

// resting keeps resting_orders: what is open at the end of the batch.
func (w *writer) resting(b *batch) {
	if c := newOrderColumns(b.orders, func(o *orderRow) bool { return o.open > 0 }); len(c.ids) > 0 {
		w.add(len(c.ids), `INSERT INTO resting_orders (id, account, sym, amount, limit_price, open)
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])`,
			c.ids, c.accounts, c.symbols, c.amounts, c.limits, c.open)
	}
	if len(b.taken) > 0 {
		var ids, shares []int64
		for id, s := range b.taken {
			ids, shares = append(ids, int64(id)), append(shares, int64(s))
		}
		w.add(len(ids), `UPDATE resting_orders r SET open = r.open - d.shares
			FROM unnest($1::bigint[], $2::bigint[]) AS d (id, shares) WHERE r.id = d.id`, ids, shares)
		w.queue.Queue(`DELETE FROM resting_orders WHERE id = ANY ($1) AND open = 0`, ids)
	}
	if len(b.removed) > 0 {
		ids := make([]int64, len(b.removed))
		for i, id := range b.removed {
			ids[i] = int64(id)
		}
		w.add(len(ids), `DELETE FROM resting_orders WHERE id = ANY ($1)`, ids)
	}
}

// orderColumns are rows of orders, turned into arrays.
type orderColumns struct {
	ids, amounts, limits, times, open, seqs []int64
	accounts, symbols                       []string
}

func newOrderColumns(rows []orderRow, keep func(*orderRow) bool) (c orderColumns) {
	for i := range rows {
		o := &rows[i]
		if !keep(o) {
			continue
		}
		amount := int64(o.shares)
		if o.side == exchange.Sell {
			amount = -amount
		}
		c.ids = append(c.ids, int64(o.id))
		c.accounts = append(c.accounts, string(o.account))
		c.symbols = append(c.symbols, string(o.symbol))
		c.amounts = append(c.amounts, amount)
		c.limits = append(c.limits, int64(o.limit))
		c.times = append(c.times, o.time)
		c.open = append(c.open, int64(o.open))
		c.seqs = append(c.seqs, int64(o.seq))
	}
	return c
}

func cashNumeric(c exchange.Cash) pgtype.Numeric { return numeric(exchange.Int128(c), scaleCash) }

func sharesNumeric(p exchange.Position) pgtype.Numeric {
	return numeric(exchange.Int128(p), scaleShares)
}
