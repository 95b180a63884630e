package postgres

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
)

// placedCheck compares the rows of placed_log with order_log, some at a time.
type placedCheck struct {
	archive *Archive
	count   int // number of orders in all rows so far
	account exchange.AccountID
	newest  map[exchange.Symbol]int64 // the account's newest order so far, by symbol

	// The rows that the next query compares; and for each of their orders its id, the index of its row, and its
	// symbol.
	rows   []placedRow
	have   []int // number of orders in each row
	ids    []int64
	places []int64
	syms   []string
}

// placedTogether is the number of collected orders at which a query compares them.
const placedTogether = 2000

// CheckPlaced compares placed_log with order_log. A *RowError names a row that differs.
func (a *Archive) CheckPlaced(ctx context.Context) error {
	c := &placedCheck{archive: a, newest: make(map[exchange.Symbol]int64)}
	var row placedRow
	read := &source[placedRow]{tx: a.tx, cursor: "placed_rows", into: placedLog.into(&row),
		made: func() placedRow { return row }}
	if err := read.open(ctx, placedLog.query(` ORDER BY account, seq`)); err != nil {
		return fmt.Errorf("postgres: read placed_log: %w", err)
	}
	defer read.close(ctx)
	for {
		r, err := read.head(ctx)
		if err != nil {
			return fmt.Errorf("postgres: read placed_log: %w", err)
		}
		if r == nil {
			break
		}
		if err := c.add(r); err != nil {
			return err
		}
		if read.consume(); len(c.ids) >= placedTogether {
			if err := c.compare(ctx); err != nil {
				return err
			}
		}
	}
	if err := c.compare(ctx); err != nil {
		return err
	}
	var orders int
	if err := a.tx.QueryRow(ctx, `SELECT count(*) FROM outcry.order_log`).Scan(&orders); err != nil {
		return fmt.Errorf("postgres: count orders: %w", err)
	}
	if c.count != orders {
		return &RowError{"placed_log", "all rows", fmt.Sprintf("they have %d orders, but order_log has %d", c.count, orders)}
	}
	return nil
}

// add adds the next row. It returns a *RowError if the row's ids do not rise above those of the rows before;
// so no order is listed twice.
func (c *placedCheck) add(r *placedRow) error {
	if r.account != c.account {
		c.account = r.account
		clear(c.newest)
	}
	before, rising := len(c.ids), true
	err := r.eachPlaced(func(sym exchange.Symbol, ids []int64) {
		for _, id := range ids {
			rising = rising && id > c.newest[sym]
			c.newest[sym] = id
			c.ids, c.places, c.syms = append(c.ids, id), append(c.places, int64(len(c.rows))), append(c.syms, string(sym))
		}
	})
	n := len(c.ids) - before
	if err != nil || !rising || n == 0 {
		return r.error("its orders cannot be read, or do not follow those of the rows before")
	}
	c.rows, c.have, c.count = append(c.rows, *r), append(c.have, n), c.count+n
	return nil
}

// compare checks the collected rows: each order belongs to the account and the symbol, and the row's seq is
// that of its newest order.
func (c *placedCheck) compare(ctx context.Context) error {
	accounts := make([]string, len(c.ids))
	for i, place := range c.places {
		accounts[i] = string(c.rows[place].account)
	}
	// The OFFSET makes the planner look up each order by its key, no matter how many there are.
	rows, err := c.archive.tx.Query(ctx, `SELECT place, count(*), max(coalesce(o.seq, o.id - 4611686018427387904))
		FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) w (wanted, place, named, owner)
		CROSS JOIN LATERAL (SELECT id, seq FROM outcry.order_log
			WHERE id = wanted AND sym = named AND account = owner OFFSET 0) o
		GROUP BY place`, c.ids, c.places, c.syms, accounts)
	if err != nil {
		return fmt.Errorf("postgres: compare placed_log with orders: %w", err)
	}
	type comes struct {
		orders int
		seq    int64
	}
	found := make([]comes, len(c.rows))
	var place int
	var one comes
	for rows.Next() {
		if err = rows.Scan(&place, &one.orders, &one.seq); err != nil {
			break
		}
		found[place] = one
	}
	if rows.Close(); err == nil {
		err = rows.Err()
	}
	if err != nil {
		return fmt.Errorf("postgres: compare placed_log with orders: %w", err)
	}
	for i := range c.rows {
		if r := &c.rows[i]; found[i] != (comes{c.have[i], r.seq}) {
			return r.error("it has %d orders, of which %d are the account's and of the symbol; the newest is of record %d",
				c.have[i], found[i].orders, found[i].seq)
		}
	}
	c.rows, c.have, c.ids, c.places, c.syms = c.rows[:0], c.have[:0], c.ids[:0], c.places[:0], c.syms[:0]
	return nil
}

// error returns a *RowError for the row.
func (r *placedRow) error(format string, args ...any) error {
	return &RowError{"placed_log", fmt.Sprintf("account %s, seq %d", r.account, r.seq), fmt.Sprintf(format, args...)}
}
