package growth

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// agree demands that the tables have every order that was answered, and that cash
// and shares add up.
func (r *run) agree(ctx context.Context) error {
	db, err := pgx.Connect(ctx, r.pg.DirectURL())
	if err != nil {
		return fmt.Errorf("growth: %w", err)
	}
	defer db.Close(ctx)
	var orders int64
	var cash, shares bool
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM order_log), (SELECT sum(balance + held) = sum(opened) FROM accounts),
		(SELECT sum(shares + held) FROM positions) = (SELECT sum(placed) FROM symbols)`).Scan(&orders, &cash, &shares)
	switch {
	case err != nil:
		return fmt.Errorf("growth: %w", err)
	case orders < r.done.Load():
		return fmt.Errorf("the tables have %d orders, clients were told of %d", orders, r.done.Load())
	case !cash || !shares:
		return fmt.Errorf("cash adds up: %t, shares: %t", cash, shares)
	}
	return nil
}

func (r *run) databaseBytes(ctx context.Context) (size int64, err error) {
	db, err := pgx.Connect(ctx, r.pg.DirectURL())
	if err != nil {
		return 0, fmt.Errorf("growth: %w", err)
	}
	defer db.Close(ctx)
	if err := db.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&size); err != nil {
		return 0, fmt.Errorf("growth: %w", err)
	}
	return size, nil
}
