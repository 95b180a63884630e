package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"outcry/internal/exchange"
)

const (
	// historyConnectionsMax bounds the number of concurrent queries.
	historyConnectionsMax = 4

	// historyTimeout bounds a query, including the wait for a connection.
	historyTimeout = 5 * time.Second
)

// History answers questions about orders, executions, refs and candles from the tables. Safe for concurrent
// use.
type History struct {
	pool *pgxpool.Pool
	// found has the schema that people read. It is nil until the first query.
	found atomic.Pointer[session]
}

// OpenHistory prepares a pool of connections to the database that url names. number is that of the server's
// data directory, or "". The first query connects. The error says what is wrong with url.
func OpenHistory(ctx context.Context, url, number string) (*History, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", errUnusable, WithoutURL(err))
	}
	config.MaxConns = historyConnectionsMax
	setUp(config.ConnConfig, sessionName(historyName, number), ownLimits())
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	config.ConnConfig.RuntimeParams["search_path"] = strictPath
	// All queries find rows by keys. Without these settings the planner may read whole tables when their
	// statistics are poor.
	for _, plan := range []string{"enable_hashjoin", "enable_mergejoin", "enable_seqscan"} {
		config.ConnConfig.RuntimeParams[plan] = "off"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: history: %w", err)
	}
	return &History{pool: pool}, nil
}

// Close closes the connections.
func (h *History) Close() { h.pool.Close() }

// Order returns a closed order with up to most of its executions, after skipping the first after. found is
// false if the tables have no order of that id. The error says why they could not be read.
func (h *History) Order(ctx context.Context, id exchange.OrderID, after, most int) (
	o exchange.ClosedOrder, found bool, err error,
) {
	return h.askOrder(ctx, id, func(ctx context.Context, tx pgx.Tx) (exchange.ClosedOrder, error) {
		return order(ctx, tx, id, after, most)
	})
}

// OrderAtFirst returns an order as of the end of its own record and its further parts, without later changes,
// with up to most of the executions that it had as taker, oldest first. found is false if the tables have no
// order of that id. The error says why they could not be read.
func (h *History) OrderAtFirst(ctx context.Context, id exchange.OrderID, most int) (
	o exchange.ClosedOrder, found bool, err error,
) {
	return h.askOrder(ctx, id, func(ctx context.Context, tx pgx.Tx) (exchange.ClosedOrder, error) {
		return orderAtFirst(ctx, tx, id, most)
	})
}

// Newest returns the newest order in the chain of replacements that begins with first; it is first itself if
// no order replaced it. The error says why the tables could not be read.
func (h *History) Newest(ctx context.Context, first exchange.OrderID) (newest exchange.OrderID, err error) {
	err = h.ask(ctx, func(ctx context.Context) error {
		return h.pool.QueryRow(ctx, `SELECT coalesce(max(order_id), $1) FROM outcry.amend_log WHERE first_id = $1`,
			first).Scan(&newest)
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: newest order of the chain of order %d: %w", first, err)
	}
	return newest, nil
}

// exchange returns a session that knows the schema that people read, but has no connection.
func (h *History) exchange(ctx context.Context) (*session, error) {
	if s := h.found.Load(); s != nil {
		return s, nil
	}
	s := new(session)
	if err := s.find(ctx, h.pool); err != nil {
		return nil, fmt.Errorf("find the exchange: %w", err)
	}
	if !s.noted {
		return nil, errors.New("the database holds no exchange")
	}
	h.found.Store(s)
	return s, nil
}

// ask calls try until it succeeds, at most once per pooled connection and once more, within historyTimeout.
func (h *History) ask(ctx context.Context, try func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	// After a restart of Postgres each pooled connection fails at its next use and is then discarded.
	for range historyConnectionsMax + 1 {
		if err = try(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// askOrder calls read for one order. found is false if the tables have no order of that id.
func (h *History) askOrder(
	ctx context.Context, id exchange.OrderID, read func(context.Context, pgx.Tx) (exchange.ClosedOrder, error),
) (o exchange.ClosedOrder, found bool, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = h.ask(ctx, func(ctx context.Context) error {
		err := pgx.BeginTxFunc(ctx, h.pool, options, func(tx pgx.Tx) (err error) {
			o, err = read(ctx, tx)
			return err
		})
		if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			o, err = exchange.ClosedOrder{}, nil
		}
		return err
	})
	if err != nil {
		return exchange.ClosedOrder{}, false, fmt.Errorf("postgres: history of order %d: %w", id, err)
	}
	return o, found, nil
}

// closedOrder selects order $1 with its cancel, reductions and replacement.
var closedOrder = `SELECT ` + orderLog.list("o") + `, coalesce(r.open, 0), coalesce(c.shares, 0),
	       coalesce(c.time, 0), coalesce(c.nanos, 0),
	       c.seq = o.seq OR EXISTS (SELECT FROM outcry.part_log p WHERE p.seq = c.seq AND p.order_id = o.id),
	       coalesce(d.reduced, 0), coalesce(d.at, 0),
	       coalesce((SELECT order_id FROM outcry.amend_log
	                  WHERE first_id = coalesce(m.first_id, o.id) AND order_id > o.id ORDER BY order_id LIMIT 1), 0)
	  FROM outcry.order_log o
	  LEFT JOIN outcry.resting_orders r ON r.id = o.id
	  LEFT JOIN outcry.cancel_log c ON c.order_id = o.id
	  LEFT JOIN outcry.amend_log m ON m.seq = o.seq
	 CROSS JOIN LATERAL (SELECT sum(reduced)::bigint AS reduced, max(time_ns) FILTER (WHERE reduced > 0) AS at
	                       FROM outcry.amend_log WHERE order_id = o.id) d
	 WHERE o.id = $1`

// closed is a row that closedOrder selects.
type closed struct {
	record
	status          exchange.Status
	changes         exchange.Changes
	seconds, nanos  int64
	canceledAtFirst pgtype.Bool // whether the order's own records canceled it
}

// readClosed reads an order without its executions. It returns pgx.ErrNoRows if there is no such order.
func readClosed(ctx context.Context, tx pgx.Tx, id exchange.OrderID) (c closed, err error) {
	into := append(orderLog.into(&c.record), &c.status.Open, &c.status.Canceled, &c.seconds, &c.nanos, &c.canceledAtFirst,
		&c.changes.Reduced, &c.changes.ReducedAt, &c.changes.Replaced)
	if err = tx.QueryRow(ctx, closedOrder, id).Scan(into...); err != nil {
		return c, err
	}
	c.status.CanceledAt = c.seconds*exchange.Second + c.nanos
	if c.changes != (exchange.Changes{}) {
		c.status.Changes = &c.changes
	}
	return c, nil
}

// order returns the order with the given status.
func (c *closed) order(s exchange.Status) (o exchange.ClosedOrder) {
	o.Account, o.Symbol, o.Terms, o.Shares, o.Seq = c.Account, c.Symbol, c.Terms, c.Shares, c.seq
	o.Status = s
	return o
}

// order reads an order with a page of its executions. It returns pgx.ErrNoRows if there is no such order.
func order(ctx context.Context, tx pgx.Tx, id exchange.OrderID, after, most int) (o exchange.ClosedOrder, err error) {
	c, err := readClosed(ctx, tx, id)
	if err == nil {
		c.status.Executions, err = executions(ctx, tx, id, after, most)
	}
	return c.order(c.status), err
}

// orderAtFirst implements OrderAtFirst. It returns pgx.ErrNoRows if there is no such order.
func orderAtFirst(ctx context.Context, tx pgx.Tx, id exchange.OrderID, most int) (o exchange.ClosedOrder, err error) {
	c, err := readClosed(ctx, tx, id)
	if err != nil {
		return o, err
	}
	var took exchange.Shares
	sum := `SELECT coalesce(sum(shares), 0)::bigint FROM outcry.execution_log WHERE order_id = $1`
	if err := tx.QueryRow(ctx, sum, id).Scan(&took); err != nil {
		return o, err
	}
	s := exchange.Status{Open: c.Shares - took}
	if c.canceledAtFirst.Bool {
		s.Open, s.Canceled, s.CanceledAt = 0, c.status.Canceled, c.status.CanceledAt
	}
	var x execution
	rows, err := tx.Query(ctx, executionSeen.query(" WHERE order_id = $1 ORDER BY n LIMIT $2"), id, most)
	if err == nil {
		_, err = pgx.ForEachRow(rows, executionSeen.into(&x), func() error {
			s.Executions = append(s.Executions, x.Execution)
			return nil
		})
	}
	return c.order(s), err
}

// executions reads up to most executions of an order, after skipping the first after: first those as taker,
// then those as resting order, sorted as in executionsOf. Each part is read along its index, so a page needs
// no sort of all executions.
func executions(ctx context.Context, tx pgx.Tx, id exchange.OrderID, after, most int) (
	all []exchange.Execution, err error,
) {
	for _, part := range []struct{ key, place string }{{"order_id", "n"}, {"resting_id", "order_id"}} {
		if most == 0 {
			return all, nil
		}
		page := executionSeen.query(" WHERE " + part.key + " = $1 ORDER BY " + part.place + " OFFSET $2 LIMIT $3")
		rows, err := tx.Query(ctx, page, id, after, most)
		if err != nil {
			return nil, err
		}
		var x execution
		found := 0
		_, err = pgx.ForEachRow(rows, executionSeen.into(&x), func() error {
			all = append(all, x.Execution)
			found++
			return nil
		})
		if err != nil {
			return nil, err
		}
		most -= found
		switch {
		case most == 0 || after == 0:
		case found > 0:
			after = 0
		default:
			var before int
			count := `SELECT count(*) FROM outcry.execution_log WHERE ` + part.key + ` = $1`
			if err := tx.QueryRow(ctx, count, id).Scan(&before); err != nil {
				return nil, err
			}
			after -= before
		}
	}
	return all, nil
}
