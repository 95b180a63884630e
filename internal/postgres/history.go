package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outcry/internal/exchange"
)

const (
	// historyConnectionsMax bounds how many queries of old orders run at once.
	historyConnectionsMax = 4

	// historyTimeout bounds one of them, the wait for a connection included.
	historyTimeout = 5 * time.Second
)

// History answers for closed orders from the tables. Its methods may be called
// from any goroutine.
type History struct {
	pool *pgxpool.Pool
}

// OpenHistory prepares connections to the database that url names; it connects
// when it is first asked. The error says what is wrong with url.
func OpenHistory(ctx context.Context, url string) (*History, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", errUnusable, WithoutURL(err))
	}
	config.MaxConns = historyConnectionsMax
	config.ConnConfig.RuntimeParams["application_name"] = "outcryd history"
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
	// All that is asked for is found by keys: where the planner knows a table badly, it
	// must not read all of it.
	for _, plan := range []string{"enable_hashjoin", "enable_mergejoin", "enable_seqscan"} {
		config.ConnConfig.RuntimeParams[plan] = "off"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: history: %w", err)
	}
	return &History{pool: pool}, nil
}

// Close ends the connections.
func (h *History) Close() { h.pool.Close() }

// Order returns a closed order; found is false where the tables have no order of
// that id. The error says why they could not be asked.
func (h *History) Order(ctx context.Context, id exchange.OrderID) (o exchange.ClosedOrder, found bool, err error) {
	err = h.ask(ctx, func(ctx context.Context) error {
		o, found, err = h.try(ctx, id)
		return err
	})
	return o, found, err
}

// ask tries for some time to ask over one connection or another.
func (h *History) ask(ctx context.Context, try func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	// After a restart of Postgres every connection that is kept turns out to be broken
	// when it is used, and is thrown away then: one try more than there are.
	for range historyConnectionsMax + 1 {
		if err = try(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// try is Order over one connection.
func (h *History) try(ctx context.Context, id exchange.OrderID) (o exchange.ClosedOrder, found bool, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, h.pool, options, func(tx pgx.Tx) error {
		o, err = order(ctx, tx, id)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return o, false, nil
	}
	if err != nil {
		return o, false, fmt.Errorf("postgres: history of order %d: %w", id, err)
	}
	return o, true, nil
}

// order reads one order, or returns pgx.ErrNoRows.
func order(ctx context.Context, tx pgx.Tx, id exchange.OrderID) (o exchange.ClosedOrder, err error) {
	row := tx.QueryRow(ctx, `
		SELECT o.account, o.sym, o.amount, o.limit_price, coalesce(r.open, 0), coalesce(c.shares, 0), coalesce(c.time, 0)
		  FROM order_log o
		  LEFT JOIN resting_orders r ON r.id = o.id
		  LEFT JOIN cancel_log c ON c.order_id = o.id
		 WHERE o.id = $1`, id)
	var amount int64
	err = row.Scan((*string)(&o.Account), (*string)(&o.Symbol), &amount, &o.Limit, &o.Status.Open, &o.Status.Canceled, &o.Status.CanceledAt)
	if err != nil {
		return o, err
	}
	o.Side, o.Shares = sideOf(amount)
	o.Status.CanceledAt *= exchange.Second
	rows, err := tx.Query(ctx, `WITH wanted AS (SELECT $1::bigint AS id)`+executionsOf, id)
	if err != nil {
		return o, err
	}
	var e exchange.Execution
	var skip int64
	_, err = pgx.ForEachRow(rows, []any{&skip, &e.Shares, &e.Price, &e.Time, &skip, &skip}, func() error {
		e.Time *= exchange.Second
		o.Status.Executions = append(o.Status.Executions, e)
		return nil
	})
	return o, err
}
