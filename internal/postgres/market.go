package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// recentTradesMax is how many trades LoadMarket reads: enough to show recent trading after a start, and few
// enough to read quickly.
const recentTradesMax = 10_000

// LoadMarket reads the totals of each symbol's trades, and the newest trades of all symbols together, oldest first.
// Each symbol's trades have no gap up to its last one. Everything is as of applied_seq. The error names what could not
// be read.
func (s *Store) LoadMarket(ctx context.Context) (
	traded []exchange.TradedState, trades []exchange.TradeState, err error,
) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.conn, options, func(tx pgx.Tx) error {
		if traded, err = loadTraded(ctx, tx); err != nil {
			return err
		}
		trades, err = loadRecentTrades(ctx, tx)
		return err
	})
	return traded, trades, err
}

func loadTraded(ctx context.Context, tx pgx.Tx) (all []exchange.TradedState, err error) {
	err = each(ctx, tx, marketTable, "", func(t *exchange.TradedState) { all = append(all, *t) })
	return all, err
}

// loadRecentTrades reads the newest trades by the log's key. An order's id is above those of all earlier
// orders of its symbol, so each symbol's trades are in order.
func loadRecentTrades(ctx context.Context, tx pgx.Tx) (all []exchange.TradeState, err error) {
	newest := fmt.Sprintf(" ORDER BY order_id DESC, n DESC LIMIT %d", recentTradesMax)
	err = each(ctx, tx, executionLog, newest, func(x *execution) {
		t := exchange.TradeState{Symbol: x.symbol,
			Trade: exchange.Trade{Shares: x.Shares, Price: x.Price, Time: x.Time, Buy: x.order, Sell: x.resting}}
		if !x.buys {
			t.Buy, t.Sell = x.resting, x.order
		}
		all = append(all, t)
	})
	slices.Reverse(all)
	return all, err
}

// CheckMarket compares each row of market with the sum of the symbol's executions. A *RowError names the first
// symbol for which they differ.
func (a *Archive) CheckMarket(ctx context.Context) error {
	var sym, says, sum string
	err := a.tx.QueryRow(ctx, `
		WITH newest AS (SELECT sym, max(aggressing_order) AS aggressing_order FROM people.executions GROUP BY sym),
		     sums AS (SELECT e.sym, count(*) AS trades, sum(e.shares) AS shares, sum(e.shares * e.price) AS notional,
		                     (array_agg(e.price ORDER BY e.n DESC)
		                         FILTER (WHERE e.aggressing_order = w.aggressing_order))[1] AS last_price,
		                     (array_agg(e.time ORDER BY e.n DESC)
		                         FILTER (WHERE e.aggressing_order = w.aggressing_order))[1] AS last_time,
		                     (array_agg(e.time_ns ORDER BY e.n DESC)
		                         FILTER (WHERE e.aggressing_order = w.aggressing_order))[1] AS last_ns
		                FROM people.executions e JOIN newest w USING (sym) GROUP BY e.sym)
		SELECT coalesce(m.sym, s.sym),
		       CASE WHEN m.sym IS NULL THEN 'nothing'
		            ELSE format(figures, m.trades, m.shares, m.notional, m.last_price, m.last_time, m.last_nanos) END,
		       CASE WHEN s.sym IS NULL THEN 'nothing'
		            ELSE format(figures, s.trades, trim_scale(s.shares), trim_scale(s.notional),
		                        s.last_price, s.last_time, s.last_ns - s.last_time * 1000000000) END
		  FROM people.market m FULL JOIN sums s ON s.sym = m.sym
		 CROSS JOIN (VALUES ('%s trades of %s shares for %s dollars, the last at %s, time %s, nanos %s')) f (figures)
		 WHERE (m.trades, m.shares, m.notional, m.last_price, m.last_time * 1000000000 + m.last_nanos, m.last_time)
		       IS DISTINCT FROM (s.trades, s.shares, s.notional, s.last_price, s.last_ns, s.last_time)
		 ORDER BY 1 LIMIT 1`).Scan(&sym, &says, &sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("postgres: compare market with executions: %w", err)
	}
	return &RowError{"market", "sym " + sym, fmt.Sprintf("it has %s; its executions sum up to %s", says, sum)}
}

// openingHours is how many hours of one-hour candles LoadCandles reads before the newest one. The figures of
// the last day need them.
const openingHours = 25

// LoadCandles reads, for each symbol that has traded, the newest candle of each interval, and the one-hour
// candles that start within openingHours of the newest. They are sorted by symbol, interval and start, and as
// of applied_seq. The error names what could not be read.
func (s *Store) LoadCandles(ctx context.Context) (all []exchange.CandleState, err error) {
	var c exchange.CandleState
	sql := fmt.Sprintf(`SELECT %s FROM people.market m
		CROSS JOIN (VALUES (1), (60), (300), (3600), (86400)) i (seconds)
		CROSS JOIN LATERAL (SELECT start FROM people.candles WHERE sym = m.sym AND seconds = i.seconds
			ORDER BY start DESC LIMIT 1) newest
		JOIN people.candles c ON c.sym = m.sym AND c.seconds = i.seconds
		 AND c.start >= newest.start - CASE i.seconds WHEN 3600 THEN %d ELSE 0 END
		ORDER BY c.sym, c.seconds, c.start`, candleTable.list("c"), openingHours*3600)
	err = pgx.BeginTxFunc(ctx, s.conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return load(ctx, tx, sql, candleTable.into(&c), func() error {
			all = append(all, c)
			return nil
		})
	})
	return all, err
}
