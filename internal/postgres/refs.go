package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// usesOf is what the refs were used for that two arrays name, of accounts and of their
// refs. Accounts are found by the collation of their primary key: by that of refs all
// of them would be read for each ref.
var usesOf = `
	SELECT ` + refTable.list("f") + `, ` + usedOrder.list("o") + `, ` + amendLog.list("m") + `, p.sym, p.shares, a.opened
	  FROM unnest($1::text[], $2::text[]) AS wanted (account, ref)
	  JOIN outcry.refs f ON f.account = wanted.account COLLATE "C" AND f.ref = wanted.ref COLLATE "C"
	  LEFT JOIN outcry.order_log o ON o.id = f.order_id
	  LEFT JOIN outcry.amend_log m ON m.seq = f.seq AND m.order_id = f.order_id
	  LEFT JOIN outcry.placement_log p ON p.seq = f.seq
	  LEFT JOIN people.accounts a ON f.order_id IS NULL AND a.id = f.account COLLATE "default" AND a.seq = f.seq`

// usedOrder is what a repeated request for an order is compared with.
var usedOrder = orderLog.pick("sym", "amount", "limit_price", "instructions")

// Refs returns what those of the given refs were used for that the tables have. The
// error says why they could not be asked, or names a ref whose record has no row.
func (h *History) Refs(ctx context.Context, keys []exchange.RefKey) (
	uses map[exchange.RefKey]exchange.RefUse, err error,
) {
	err = h.ask(ctx, func(ctx context.Context) error {
		exchange, err := h.exchange(ctx)
		if err == nil {
			uses, err = readRefs(ctx, h.pool, exchange.in(usesOf), keys)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: read %d refs: %w", len(keys), err)
	}
	return uses, nil
}

// querier is a connection, a pool of them, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readRefs asks with usesOf.
func readRefs(
	ctx context.Context, q querier, sql string, keys []exchange.RefKey,
) (map[exchange.RefKey]exchange.RefUse, error) {
	accounts, refs := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		accounts[i], refs[i] = string(key.Account), string(key.Ref)
	}
	rows, err := q.Query(ctx, sql, accounts, refs)
	if err != nil {
		return nil, err
	}
	uses := make(map[exchange.RefKey]exchange.RefUse)
	var row refRow
	_, err = pgx.ForEachRow(rows, row.into(), func() error {
		use, err := row.use()
		if err != nil {
			return fmt.Errorf("ref %s of account %s: %w", row.ref.Ref, row.ref.Account, err)
		}
		uses[row.key()] = use
		return nil
	})
	return uses, err
}

// refRow is a row of usesOf. What the ref's record is not has no values.
type refRow struct {
	ref, order     record
	amend          record // of amend_log; without a seq if the ref is of no amend
	placedIn       pgtype.Text
	placed, opened pgtype.Numeric
}

func (r *refRow) into() []any {
	return slices.Concat(refTable.into(&r.ref), usedOrder.into(&r.order), amendLog.into(&r.amend),
		[]any{&r.placedIn, &r.placed, &r.opened})
}

func (r *refRow) key() exchange.RefKey {
	return exchange.RefKey{Account: r.ref.Account, Ref: r.ref.Ref}
}

// use returns what the ref was used for. The error says that its record has no row.
func (r *refRow) use() (u exchange.RefUse, err error) {
	madeOrder := r.ref.Order != 0
	switch o := &r.order; {
	case madeOrder && o.Shares != 0 && r.amend.seq != 0:
		e := r.amend.Event
		e.Kind, e.Terms, e.Symbol = exchange.OrderReduced, o.Terms, o.Symbol
		if e.Amend.Old.Order != 0 {
			e.Kind = exchange.OrderReplaced
		}
		u = e.Use()
	case madeOrder && o.Shares != 0:
		e := o.Event
		e.Kind, e.Order = exchange.OrderAccepted, r.ref.Order
		u = e.Use()
	case !madeOrder && r.placed.Valid:
		u = exchange.RefUse{Kind: exchange.DepositShares, Symbol: exchange.Symbol(r.placedIn.String)}
		u.Quantity, err = int128(r.placed, scaleShares)
	case !madeOrder && r.opened.Valid:
		u.Kind = exchange.OpenAccount
		u.Quantity, err = int128(r.opened, scaleCash)
	default:
		return u, errors.New("no table has its record")
	}
	return u, err
}

// EachRef calls f for every ref that the tables have, in any order, until it returns
// false. The error says why they could not be read to the end.
func (h *History) EachRef(ctx context.Context, f func(exchange.RefKey) bool) error {
	rows, err := h.pool.Query(ctx, `SELECT account, ref FROM outcry.refs`)
	if err != nil {
		return fmt.Errorf("postgres: read refs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		values := rows.RawValues()
		if !f(exchange.RefKey{Account: exchange.AccountID(values[0]), Ref: exchange.Ref(values[1])}) {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("postgres: read refs: %w", err)
	}
	return nil
}

// wrongRefs is a row of refs whose record has no row, or another account's: the first one.
// All are looked for before one is chosen. With its LIMIT the planner, who takes all rows for
// wrong, would read the other tables again for each of them, to stop at the first.
const wrongRefs = `
	WITH wrong AS MATERIALIZED (
		SELECT f.account, f.ref, f.seq, format('it is of record %s and of order %s; that of account %s is record %s', f.seq,
		         coalesce(f.order_id::text, 'none'), coalesce(o.account, p.account, a.id, 'none'),
		         coalesce(m.seq, o.seq, p.seq, a.seq, 0)) AS says
		  FROM outcry.refs f
		  LEFT JOIN outcry.order_log o ON o.id = f.order_id
		  LEFT JOIN outcry.amend_log m ON m.seq = f.seq AND m.order_id = f.order_id
		  LEFT JOIN outcry.placement_log p ON p.seq = f.seq AND f.order_id IS NULL
		  LEFT JOIN people.accounts a ON a.id = f.account AND a.seq = f.seq AND f.order_id IS NULL
		 WHERE (f.account, f.seq) IS DISTINCT FROM
		       (coalesce(o.account, p.account, a.id), coalesce(m.seq, o.seq, p.seq, a.seq)))
	SELECT account, ref, says FROM wrong ORDER BY seq, account, ref LIMIT 1`

// CheckRefs compares each row of refs with its record's row, as of Position. A *RowError
// names the first one that has none, or another account's. That an account has a ref
// once, the table's key sees to; that a record has one, Archive.History.
func (a *Archive) CheckRefs(ctx context.Context) (refs int64, err error) {
	var account, ref, says string
	err = a.tx.QueryRow(ctx, wrongRefs).Scan(&account, &ref, &says)
	switch {
	case err == nil:
		return 0, &RowError{"refs", fmt.Sprintf("account %s, ref %s", account, ref), says}
	case !errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("postgres: compare refs with records: %w", err)
	}
	if err := a.tx.QueryRow(ctx, `SELECT count(*) FROM outcry.refs`).Scan(&refs); err != nil {
		return 0, fmt.Errorf("postgres: count refs: %w", err)
	}
	return refs, nil
}

// Refs returns what those of the given refs were used for that the tables have. The
// error says why they could not be read.
func (a *Archive) Refs(ctx context.Context, keys []exchange.RefKey) (map[exchange.RefKey]exchange.RefUse, error) {
	uses, err := readRefs(ctx, a.tx, usesOf, keys)
	if err != nil {
		return nil, fmt.Errorf("postgres: read %d refs: %w", len(keys), err)
	}
	return uses, nil
}
