package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
	err = h.ask(ctx, func(ctx context.Context) error {
		o, found, err = h.try(ctx, id, after, most)
		return err
	})
	return o, found, err
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

// try is Order over one connection.
func (h *History) try(ctx context.Context, id exchange.OrderID, after, most int) (
	o exchange.ClosedOrder, found bool, err error,
) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, h.pool, options, func(tx pgx.Tx) error {
		o, err = order(ctx, tx, id, after, most)
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

// closedOrder is an order with what became of it.
var closedOrder = `SELECT ` + orderLog.list("o") + `, coalesce(r.open, 0), coalesce(c.shares, 0), coalesce(c.time, 0)
	  FROM outcry.order_log o
	  LEFT JOIN outcry.resting_orders r ON r.id = o.id
	  LEFT JOIN outcry.cancel_log c ON c.order_id = o.id
	 WHERE o.id = $1`

// order reads one order, or returns pgx.ErrNoRows.
func order(ctx context.Context, tx pgx.Tx, id exchange.OrderID, after, most int) (o exchange.ClosedOrder, err error) {
	var r record
	into := append(orderLog.into(&r), &o.Status.Open, &o.Status.Canceled, &o.Status.CanceledAt)
	if err = tx.QueryRow(ctx, closedOrder, id).Scan(into...); err != nil {
		return o, err
	}
	o.Account, o.Symbol, o.Terms, o.Shares, o.Seq = r.Account, r.Symbol, r.Terms, r.Shares, r.seq
	o.Status.CanceledAt *= exchange.Second
	o.Status.Executions, err = executions(ctx, tx, id, after, most)
	return o, err
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
