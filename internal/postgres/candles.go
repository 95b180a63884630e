package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// Candles returns up to limit candles of a symbol, oldest first, as of the last batch. If from is not 0, it
// returns the first candles that start at from or later; else the newest. If to is not 0, all start before to.
// Times are nanoseconds since the Unix epoch. The error says why the tables could not be read.
func (h *History) Candles(
	ctx context.Context, sym exchange.Symbol, interval exchange.Interval, from, to int64, limit int,
) (all []exchange.Candle, err error) {
	direction, least, most := "DESC", int64(math.MinInt64), int64(math.MaxInt64)
	if from != 0 {
		direction, least = "ASC", secondsUp(from)
	}
	if to != 0 {
		most = secondsUp(to)
	}
	err = h.ask(ctx, func(ctx context.Context) error {
		place, err := h.exchange(ctx)
		if err != nil {
			return err
		}
		rows, err := h.pool.Query(ctx, place.in(candleTable.query(` WHERE sym = $1 AND seconds = $2 AND start >= $3
			AND start < $4 ORDER BY start `+direction+` LIMIT $5`)),
			sym, exchange.Seconds(interval.Length()), least, most, limit)
		if err != nil {
			return err
		}
		var c exchange.CandleState
		all = nil
		_, err = pgx.ForEachRow(rows, candleTable.into(&c), func() error {
			all = append(all, c.Candle)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: candles of %s: %w", sym, err)
	}
	if from == 0 {
		slices.Reverse(all)
	}
	return all, nil
}

// secondsUp rounds a time up to a whole second.
func secondsUp(at int64) int64 { return exchange.Seconds(at + exchange.Second - 1) }

// wrongCandles selects the first candle that is missing or differs from the sum of its executions. Candles of
// one second are compared with executions, longer ones with those of one second.
const wrongCandles = `
	WITH trades AS (
		SELECT sym, buys, trim_scale(price * 0.00000001) AS price, shares * 0.00000001 AS shares,
		       row_number() OVER trades AS trade, max(time) OVER trades AS second
		  FROM outcry.execution_log WINDOW trades AS (PARTITION BY sym ORDER BY order_id, n)),
	one AS (
		SELECT sym, 1 AS seconds, second AS start, (array_agg(price ORDER BY trade))[1] AS open, max(price) AS high,
		       min(price) AS low, (array_agg(price ORDER BY trade DESC))[1] AS close, sum(shares) AS shares,
		       sum(shares * price) AS notional, coalesce(sum(shares) FILTER (WHERE buys), 0) AS taker_bought,
		       coalesce(sum(shares * price) FILTER (WHERE buys), 0) AS taker_paid, min(trade) AS first_trade,
		       count(*) AS trades
		  FROM trades GROUP BY sym, second),
	longer AS (
		SELECT sym, length AS seconds, start - (start % length + length) % length AS begin,
		       (array_agg(open ORDER BY start))[1], max(high), min(low), (array_agg(close ORDER BY start DESC))[1],
		       sum(shares), sum(notional), sum(taker_bought), sum(taker_paid), min(first_trade), sum(trades)::bigint
		  FROM people.candles CROSS JOIN (VALUES (60), (300), (3600), (86400)) i (length)
		 WHERE seconds = 1 GROUP BY sym, length, begin),
	wanted AS (SELECT * FROM one UNION ALL SELECT * FROM longer)
	SELECT coalesce(c.sym, w.sym), coalesce(c.seconds, w.seconds), coalesce(c.start, w.start),
	       coalesce(c::text, 'nothing'), coalesce(w::text, 'nothing')
	  FROM people.candles c
	  FULL JOIN wanted w ON w.sym = c.sym AND w.seconds = c.seconds AND w.start = c.start
	 WHERE (c.open, c.high, c.low, c.close, c.shares, c.notional, c.taker_bought, c.taker_paid, c.first_trade, c.trades)
	       IS DISTINCT FROM
	       (w.open, w.high, w.low, w.close, w.shares, w.notional, w.taker_bought, w.taker_paid, w.first_trade, w.trades)
	 ORDER BY 2, 1, 3 LIMIT 1`

// CheckCandles compares each candle with the sum of its symbol's executions. A *RowError names the first one
// that differs.
func (a *Archive) CheckCandles(ctx context.Context) error {
	var sym, says, sum string
	var length, start int64
	err := a.tx.QueryRow(ctx, wrongCandles).Scan(&sym, &length, &start, &says, &sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("postgres: compare candles with executions: %w", err)
	}
	return &RowError{"candles", fmt.Sprintf("sym %s, seconds %d, start %d", sym, length, start),
		fmt.Sprintf("it has %s; its executions sum up to %s", says, sum)}
}
