-- What the trades of a symbol come to, so that market data goes on after a restart
-- without reading history. A symbol that was never traded has no row.
CREATE TABLE market (
    sym        text PRIMARY KEY,
    trades     bigint  NOT NULL CHECK (trades > 0),
    shares     numeric NOT NULL CHECK (shares > 0),   -- of all trades
    notional   numeric NOT NULL CHECK (notional > 0), -- shares × price of all trades, in dollars
    last_price numeric NOT NULL, -- of the newest trade
    last_time  bigint  NOT NULL
) WITH (fillfactor = 70);

-- What was traded before. Order ids rise within a symbol, so the newest trade is the
-- last one of the highest aggressing order.
INSERT INTO market (sym, trades, shares, notional, last_price, last_time)
SELECT t.sym, t.trades, trim_scale(t.shares * 0.00000001), trim_scale(t.notional * 0.0000000000000001),
       trim_scale(e.price * 0.00000001), e.time
  FROM (SELECT sym, count(*) AS trades, sum(shares) AS shares, sum(shares::numeric * price) AS notional, max(order_id) AS newest
          FROM execution_log GROUP BY sym) t
 CROSS JOIN LATERAL (SELECT price, time FROM execution_log WHERE order_id = t.newest ORDER BY n DESC LIMIT 1) e;
