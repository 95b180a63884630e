package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Totals are the totals of an exchange's tables.
type Totals struct {
	Orders, Cancels uint64
	Created         uint64 // accounts and deposits
	Bytes           int64  // size of the database
}

// ReadTotals counts what the tables hold, leaving out the account except. Postgres must have every record and no
// client may be sending. It returns an error if balances, positions or orders do not add up, or if a query fails.
func ReadTotals(ctx context.Context, url, except string) (t Totals, err error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return t, fmt.Errorf("check: %w", err)
	}
	defer db.Close(ctx)
	var cash, shares, filled bool
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM outcry.order_log), (SELECT count(*) FROM outcry.cancel_log),
		(SELECT count(*) FROM public.accounts WHERE id <> $1) + (SELECT count(*) FROM outcry.placement_log),
		pg_database_size(current_database()),
		(SELECT coalesce(sum(balance + held) = sum(opened), true) FROM public.accounts),
		NOT EXISTS (SELECT FROM public.symbols s
			WHERE s.placed <> (SELECT coalesce(sum(p.shares + p.held), 0) FROM public.positions p WHERE p.sym = s.sym)),
		NOT EXISTS (SELECT FROM outcry.resting_orders WHERE open > abs(amount))`, except).
		Scan(&t.Orders, &t.Cancels, &t.Created, &t.Bytes, &cash, &shares, &filled)
	switch {
	case err != nil:
		return t, fmt.Errorf("check: %w", err)
	case !cash:
		return t, errors.New("the tables' balances do not add up to what accounts were opened with")
	case !shares:
		return t, errors.New("the tables' positions do not add up to what was placed")
	case !filled:
		return t, errors.New("an order has more open shares than it was placed with")
	}
	return t, nil
}
