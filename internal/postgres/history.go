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
	// historyConnectionsMax bounds how many queries of old orders run at once.
	historyConnectionsMax = 4

	// historyTimeout bounds one of them, the wait for a connection included.
	historyTimeout = 5 * time.Second
)

// History answers for closed orders from the tables. Its methods may be called
// from any goroutine.
type History struct {
	pool *pgxpool.Pool
	// found is the exchange, once it was asked for: where what people read is.
	found atomic.Pointer[session]
}

// OpenHistory prepares connections to the database that url names, for the server of the
// data directory of a number, "" if there is none. It connects when it is first asked.
// The error says what is wrong with url.
func OpenHistory(ctx context.Context, url, number string) (*History, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", errUnusable, WithoutURL(err))
	}
	config.MaxConns = historyConnectionsMax
	setUp(config.ConnConfig, sessionName(historyName, number), ownLimits())
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	config.ConnConfig.RuntimeParams["search_path"] = strictPath
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

// Order returns a closed order, with up to most of its executions, those behind the first
// after; found is false if the tables have no order of that id. The error says why they
// could not be asked.
func (h *History) Order(ctx context.Context, id exchange.OrderID, after, most int) (
	o exchange.ClosedOrder, found bool, err error,
) {
	return h.askOrder(ctx, id, func(ctx context.Context, tx pgx.Tx) (exchange.ClosedOrder, error) {
		return order(ctx, tx, id, after, most)
	})
}

// OrderAtFirst returns an order as it was right after its own record, and the further parts of it, whatever
// became of it later: with up to most of the executions that it took, oldest first. found is as of Order. The error
// says why the tables could not be asked.
func (h *History) OrderAtFirst(ctx context.Context, id exchange.OrderID, most int) (
	o exchange.ClosedOrder, found bool, err error,
) {
	return h.askOrder(ctx, id, func(ctx context.Context, tx pgx.Tx) (exchange.ClosedOrder, error) {
		return orderAtFirst(ctx, tx, id, most)
	})
}

// Newest returns the newest order of the chain that one begins: the order itself if none has replaced it. The error
// says why the tables could not be asked.
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

// exchange returns where the exchange is.
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

// askOrder asks for one order.
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

// closedOrder is an order with what became of it.
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

// closed is a row of closedOrder.
type closed struct {
	record
	status          exchange.Status
	changes         exchange.Changes
	seconds, nanos  int64
	canceledAtFirst pgtype.Bool // by the order's own record
}

// readClosed reads one order without its executions, or returns pgx.ErrNoRows.
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

// closed returns the order with a status.
func (c *closed) order(s exchange.Status) (o exchange.ClosedOrder) {
	o.Account, o.Symbol, o.Terms, o.Shares, o.Seq = c.Account, c.Symbol, c.Terms, c.Shares, c.seq
	o.Status = s
	return o
}

// order reads one order, or returns pgx.ErrNoRows.
func order(ctx context.Context, tx pgx.Tx, id exchange.OrderID, after, most int) (o exchange.ClosedOrder, err error) {
	c, err := readClosed(ctx, tx, id)
	if err == nil {
		c.status.Executions, err = executions(ctx, tx, id, after, most)
	}
	return c.order(c.status), err
}

// orderAtFirst reads one order as it was after its own record, or returns pgx.ErrNoRows.
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

// executions reads up to most executions of an order, those behind the first after: first
// as taker, then as resting order, as executionsOf has them. Each part is read
// along its index, from its begin: a page needs no sort of all.
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
