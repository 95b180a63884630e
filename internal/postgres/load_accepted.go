package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

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
