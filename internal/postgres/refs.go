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

// usesOf selects the uses of refs; two arrays list their accounts and the refs. The account is looked up with
// the collation of its table's primary key: with the collation of refs, each ref would cost a scan of all
// accounts.
var usesOf = `
	SELECT ` + refTable.list("f") + `, ` + usedOrder.list("o") + `, ` + amendLog.list("m") + `, p.sym, p.shares, a.opened
	  FROM unnest($1::text[], $2::text[]) AS wanted (account, ref)
	  JOIN outcry.refs f ON f.account = wanted.account COLLATE "C" AND f.ref = wanted.ref COLLATE "C"
	  LEFT JOIN outcry.order_log o ON o.id = f.order_id
	  LEFT JOIN outcry.amend_log m ON m.seq = f.seq AND m.order_id = f.order_id
	  LEFT JOIN outcry.placement_log p ON p.seq = f.seq
	  LEFT JOIN people.accounts a ON f.order_id IS NULL AND a.id = f.account COLLATE "default" AND a.seq = f.seq`

// usedOrder has the columns with which a repeated request for an order is compared.
var usedOrder = orderLog.pick("sym", "amount", "limit_price", "instructions")

// Refs returns the uses of those of the given refs that the tables have. The error says why the tables could
// not be read, or names a ref whose record has no row.
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

// querier is a connection, a pool of connections, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readRefs runs usesOf for keys.
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

// refRow is a row that usesOf selects. Only the fields of the table that has the ref's record are set.
type refRow struct {
	ref, order     record
	amend          record // row of amend_log; seq is 0 if no amend used the ref
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

// use returns the ref's use. It returns an error if the ref's record has no row.
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

// EachRef calls f for every ref in the tables, in no particular order, until f returns false. The error says
// why not all could be read.
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

// wrongRefs selects the first ref whose record has no row, or a row of another account. It collects all wrong refs
// before it picks one: with a LIMIT alone, the planner expects to stop at the first row, because it assumes that every
// row is wrong, and would read the other tables once per row.
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

// CheckRefs compares each row of refs with its record's row, as of Position, and returns the number of refs. A
// *RowError names the first ref whose record has no row, or one of another account. The table's key ensures
// that an account uses a ref once, and Archive.History checks that a record has one ref.
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

// Refs returns the uses of those of the given refs that the tables have. The error says why the tables could
// not be read.
func (a *Archive) Refs(ctx context.Context, keys []exchange.RefKey) (map[exchange.RefKey]exchange.RefUse, error) {
	uses, err := readRefs(ctx, a.tx, usesOf, keys)
	if err != nil {
		return nil, fmt.Errorf("postgres: read %d refs: %w", len(keys), err)
	}
	return uses, nil
}
