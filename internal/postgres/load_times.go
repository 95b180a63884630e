package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// loadTimes reads when the open orders were accepted, which the view of their accounts shows.
func loadTimes(ctx context.Context, tx pgx.Tx, snap *exchange.Snapshot) error {
	next := 0 // both lists are sorted by id
	var r record
	accepted := orderLog.pick("id", "time", "nanos")
	sql := `SELECT ` + accepted.list("l") + ` FROM outcry.resting_orders r
		CROSS JOIN LATERAL (SELECT * FROM outcry.order_log WHERE id = r.id OFFSET 0) l ORDER BY r.id`
	return load(ctx, tx, sql, accepted.into(&r), func() error {
		for snap.Orders[next].ID != r.Order {
			next++
		}
		snap.Orders[next].Time = r.Time
		return nil
	})
}
