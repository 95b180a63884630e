-- What doors other than XML tell accounts and everybody: numbers of events, of executions and of trades, why an order was
-- canceled, what it was called, an account's closed orders, candles. No large table is written anew: new columns
-- have a constant or NULL.

-- Of the records up to this one executions have no numbers, and most cancels no reason. In a new database it is 0.
ALTER TABLE people.exchange_state ADD COLUMN numbered_after bigint NOT NULL DEFAULT 0;
UPDATE people.exchange_state SET numbered_after = applied_seq;

-- The latest time of the records: after a start none is before it. It is the latest that a row has; of rows in whole
-- seconds their second, which is all that was told of them. Executions have the time of their row in order_log or
-- part_log.
ALTER TABLE people.exchange_state ADD COLUMN time_ns bigint NOT NULL DEFAULT 0;
UPDATE people.exchange_state SET time_ns = (
    SELECT coalesce(greatest(0, max(ns)), 0)
      FROM (SELECT max(time * 1000000000 + coalesce(nanos, 0)) AS ns FROM outcry.order_log
            UNION ALL
            SELECT max(time * 1000000000 + coalesce(nanos, 0)) FROM outcry.part_log
            UNION ALL
            SELECT max(time * 1000000000 + coalesce(nanos, 0)) FROM outcry.cancel_log
            UNION ALL
            SELECT max(time * 1000000000 + coalesce(nanos, 0)) FROM outcry.halt_log
            UNION ALL
            SELECT max(time_ns) FROM outcry.amend_log
            UNION ALL
            SELECT max(time_ns) FROM outcry.cause_log
            UNION ALL
            SELECT max(time_ns) FROM outcry.account_log
            UNION ALL
            SELECT max(time_ns) FROM outcry.symbol_log
            UNION ALL
            SELECT max(time_ns) FROM outcry.switch_log) logs);

ALTER TABLE people.accounts       ADD COLUMN n bigint NOT NULL DEFAULT 0;
ALTER TABLE outcry.order_log      ADD COLUMN ref text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE outcry.amend_log      ADD COLUMN ref text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE outcry.execution_log  ADD COLUMN trade bigint, ADD COLUMN taker_fill bigint, ADD COLUMN resting_fill bigint;
ALTER TABLE outcry.cancel_log     ADD COLUMN why smallint;

-- The orders of each account, open and closed: a row for each batch that has some, which costs the writer far less than
-- an index of order_log would. For each symbol in turn it has how long its name is (a byte), the name, how many orders
-- there are (2 bytes), and their ids (8 bytes each), all big-endian (internal/postgres/account_orders.go).
CREATE TABLE outcry.placed_log (
    account text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    orders  bytea  NOT NULL,
    PRIMARY KEY (account, seq)
);
INSERT INTO outcry.placed_log
SELECT account, max(coalesce(seq, id - 4611686018427387904)),
       set_byte('\x00', 0, octet_length(sym)) || convert_to(sym, 'UTF8') || int2send(count(*)::smallint) ||
           string_agg(int8send(id), '' ORDER BY id)
  FROM (SELECT account, sym, id, seq, (row_number() OVER (PARTITION BY account, sym ORDER BY id) - 1) / 500 AS chunk
          FROM outcry.order_log) o
 GROUP BY account, sym, chunk;

-- The events of each account are numbered from its opening on, on every node of a cluster alike, whenever it was
-- upgraded: one for each record that changes what the account sees of itself. Records that rows do not know, of the first
-- schema, do not count.
UPDATE people.accounts a SET n = e.n
  FROM (SELECT account, sum(n)::bigint AS n
          FROM (SELECT id AS account, 1 AS n FROM people.accounts
                UNION ALL
                SELECT account, count(*) FROM outcry.placement_log GROUP BY account
                UNION ALL
                SELECT account, count(*) FROM outcry.order_log WHERE seq IS NOT NULL GROUP BY account
                UNION ALL
                SELECT o.account, count(*)
                  FROM outcry.part_log p JOIN outcry.order_log o ON o.id = p.order_id GROUP BY o.account
                UNION ALL
                SELECT o.account, count(*)
                  FROM outcry.amend_log m JOIN outcry.order_log o ON o.id = m.order_id
                 WHERE m.reduced > 0 GROUP BY o.account
                UNION ALL -- cancels, except in the record of an order
                SELECT o.account, count(DISTINCT c.seq)
                  FROM outcry.cancel_log c JOIN outcry.order_log o ON o.id = c.order_id
                 WHERE c.seq IS NOT NULL
                   AND NOT EXISTS (SELECT FROM outcry.order_log x WHERE x.seq = c.seq)
                   AND NOT EXISTS (SELECT FROM outcry.part_log p WHERE p.seq = c.seq)
                 GROUP BY o.account
                UNION ALL -- the accounts that a record fills resting orders of
                SELECT account, count(*)
                  FROM (SELECT DISTINCT r.account, coalesce(p.seq, t.seq) AS seq
                          FROM outcry.execution_log x
                          JOIN outcry.order_log t ON t.id = x.order_id
                          JOIN outcry.order_log r ON r.id = x.resting_id
                          LEFT JOIN outcry.part_log p ON p.order_id = x.order_id AND x.n BETWEEN p.first_n AND p.last_n
                         WHERE t.seq IS NOT NULL AND r.account <> t.account) filled
                 GROUP BY account) counts
         GROUP BY account) e
 WHERE a.id = e.account;

-- What few cancels have: they were canceled with others. Of the rest the rows themselves say why.
UPDATE outcry.cancel_log c
   SET why = CASE WHEN EXISTS (SELECT FROM outcry.order_log x WHERE x.seq = c.seq) OR
                       EXISTS (SELECT FROM outcry.part_log p WHERE p.seq = c.seq) THEN 2
                  ELSE CASE (SELECT cause FROM outcry.cause_log WHERE seq = c.seq)
                           WHEN 1 THEN 6 WHEN 2 THEN 3 WHEN 3 THEN 4 ELSE 5 END END
 WHERE c.n IS NOT NULL;

-- What open orders, and those that were amended, are called.
UPDATE outcry.amend_log m SET ref = f.ref FROM outcry.refs f WHERE f.seq = m.seq;
UPDATE outcry.order_log o SET ref = f.ref
  FROM outcry.resting_orders r JOIN outcry.refs f ON f.order_id = r.id
 WHERE o.id = r.id AND f.seq = o.seq AND NOT EXISTS (SELECT FROM outcry.amend_log m WHERE m.seq = o.seq);
UPDATE outcry.resting_orders r SET instructions = instructions | 1024
 WHERE EXISTS (SELECT FROM outcry.amend_log m WHERE m.order_id = r.id AND m.old_id IS NULL AND m.reduced = 0);

-- What amends took off an open order: a start must not read all of them. For orders that nothing was taken off, NULL.
ALTER TABLE outcry.resting_orders ADD COLUMN reduced bigint, ADD COLUMN reduced_at_ns bigint;
UPDATE outcry.resting_orders r SET reduced = d.reduced, reduced_at_ns = d.at
  FROM (SELECT m.order_id, sum(m.reduced)::bigint AS reduced, (array_agg(m.time_ns ORDER BY m.seq DESC))[1] AS at
          FROM outcry.resting_orders r JOIN outcry.amend_log m ON m.order_id = r.id
         WHERE r.instructions & 512 <> 0 AND m.reduced > 0
         GROUP BY m.order_id) d
 WHERE r.id = d.order_id;

CREATE TABLE people.candles (
    sym          text    NOT NULL,
    seconds      integer NOT NULL,
    start        bigint  NOT NULL,
    open         numeric NOT NULL,
    high         numeric NOT NULL,
    low          numeric NOT NULL,
    close        numeric NOT NULL,
    shares       numeric NOT NULL CHECK (shares > 0),
    notional     numeric NOT NULL CHECK (notional > 0),
    taker_bought numeric NOT NULL CHECK (taker_bought BETWEEN 0 AND shares),
    taker_paid   numeric NOT NULL CHECK (taker_paid BETWEEN 0 AND notional),
    first_trade  bigint  NOT NULL,
    trades       bigint  NOT NULL CHECK (trades > 0),
    PRIMARY KEY (sym, seconds, start)
) WITH (fillfactor = 80);

-- Roles that may read what trades come to may read this too.
DO $$ DECLARE reader text; BEGIN
    FOR reader IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
          FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
         WHERE c.oid = $people$people.market$people$::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO %s', $people$people.candles$people$::regclass, reader);
    END LOOP;
END $$;

-- What was traded before. Order ids rise within a symbol. A time that lies before that of the trade before counts as that.
INSERT INTO people.candles
SELECT sym, 1, second, (array_agg(price ORDER BY trade))[1], max(price), min(price), (array_agg(price ORDER BY trade DESC))[1],
       trim_scale(sum(shares)), trim_scale(sum(shares * price)),
       trim_scale(coalesce(sum(shares) FILTER (WHERE buys), 0)),
       trim_scale(coalesce(sum(shares * price) FILTER (WHERE buys), 0)), min(trade), count(*)
  FROM (SELECT sym, buys, trim_scale(price * 0.00000001) AS price, shares * 0.00000001 AS shares,
               row_number() OVER trades AS trade, max(time) OVER trades AS second
          FROM outcry.execution_log WINDOW trades AS (PARTITION BY sym ORDER BY order_id, n)) t
 GROUP BY sym, second;
INSERT INTO people.candles
SELECT sym, length, start - (start % length + length) % length AS begin, (array_agg(open ORDER BY start))[1], max(high), min(low),
       (array_agg(close ORDER BY start DESC))[1], trim_scale(sum(shares)), trim_scale(sum(notional)),
       trim_scale(sum(taker_bought)), trim_scale(sum(taker_paid)), min(first_trade), sum(trades)::bigint
  FROM people.candles CROSS JOIN (VALUES (60), (300), (3600), (86400)) i (length)
 WHERE seconds = 1
 GROUP BY sym, length, begin;

CREATE OR REPLACE VIEW people.orders AS
SELECT o.id,
       o.account,
       o.sym,
       trim_scale(o.amount * 0.00000001)      AS amount,
       trim_scale(o.limit_price * 0.00000001) AS limit_price,
       trim_scale(coalesce(r.open, 0) * 0.00000001) AS open,
       trim_scale((abs(o.amount) - coalesce(r.open, 0) - coalesce(c.shares, 0) - coalesce(d.reduced, 0)) * 0.00000001)
           AS executed,
       trim_scale(coalesce(c.shares, 0) * 0.00000001) AS canceled,
       o.time,
       c.time AS canceled_at,
       CASE WHEN o.instructions & 8 <> 0 THEN 'market' ELSE 'limit' END AS type,
       CASE o.instructions & 3 WHEN 0 THEN 'GTC' WHEN 1 THEN 'IOC' ELSE 'FOK' END AS tif,
       o.instructions & 4 <> 0 AS post,
       CASE o.instructions >> 4 & 3 WHEN 1 THEN 'newest' WHEN 2 THEN 'oldest' WHEN 3 THEN 'both' END AS stp,
       o.instructions & 256 <> 0 AS cod,
       m.old_id AS replaces,
       coalesce(m.first_id, o.id) AS first_id,
       trim_scale(coalesce(d.reduced, 0) * 0.00000001) AS reduced,
       o.time * 1000000000 + o.nanos AS time_ns,
       c.time * 1000000000 + c.nanos AS canceled_at_ns,
       nullif(o.ref, '') AS ref,
       CASE c.why WHEN 1 THEN 'rest' WHEN 2 THEN 'stp' WHEN 3 THEN 'disconnect' WHEN 4 THEN 'timer'
           WHEN 5 THEN 'operator' WHEN 6 THEN 'cancel' END AS why
  FROM outcry.order_log o
  LEFT JOIN outcry.resting_orders r ON r.id = o.id
  LEFT JOIN outcry.cancel_log c ON c.order_id = o.id
  LEFT JOIN outcry.amend_log m ON m.seq = o.seq
  LEFT JOIN (SELECT order_id, sum(reduced) AS reduced FROM outcry.amend_log GROUP BY order_id) d ON d.order_id = o.id;

CREATE OR REPLACE VIEW people.executions AS
SELECT sym,
       CASE WHEN buys THEN order_id ELSE resting_id END AS buy_order,
       CASE WHEN buys THEN resting_id ELSE order_id END AS sell_order,
       trim_scale(shares * 0.00000001) AS shares,
       trim_scale(price * 0.00000001)  AS price,
       time,
       order_id AS aggressing_order,
       n,
       time * 1000000000 + nanos AS time_ns,
       trade,
       CASE WHEN buys THEN taker_fill ELSE resting_fill END AS buy_fill,
       CASE WHEN buys THEN resting_fill ELSE taker_fill END AS sell_fill
  FROM outcry.execution_log;

COMMENT ON COLUMN people.exchange_state.numbered_after IS 'The record after which executions have numbers, and cancels a reason; 0 unless an older schema was upgraded.';
COMMENT ON COLUMN people.exchange_state.time_ns IS 'The latest time of the records up to applied_seq, in nanoseconds since the Unix epoch; 0 if there is none.';

COMMENT ON COLUMN people.accounts.n IS 'How many events the account had: records that changed what it sees of itself.';

COMMENT ON COLUMN people.orders.ref IS 'The client order id that it was placed with; NULL if there was none, or it was closed under an older program.';
COMMENT ON COLUMN people.orders.why IS 'Why the rest was canceled: rest (in its own record), stp, disconnect, timer, operator or cancel (by its owner); NULL if it was not, if the order was replaced, or by an older program.';

COMMENT ON COLUMN people.executions.trade IS 'The number of the trade: 1, 2, 3 and so on for each symbol; NULL in rows of older programs.';
COMMENT ON COLUMN people.executions.buy_fill IS 'The number of the buyer''s execution: 1, 2, 3 and so on for each account; NULL in rows of older programs.';
COMMENT ON COLUMN people.executions.sell_fill IS 'The number of the seller''s execution; NULL in rows of older programs.';

COMMENT ON TABLE  people.candles IS 'What the trades of each symbol came to in each second, minute, five minutes, hour and day, in UTC. Those without a trade have no row.';
COMMENT ON COLUMN people.candles.sym IS 'The symbol.';
COMMENT ON COLUMN people.candles.seconds IS 'How long the candle is: 1, 60, 300, 3600 or 86400 seconds.';
COMMENT ON COLUMN people.candles.start IS 'When it begins, in seconds since the Unix epoch.';
COMMENT ON COLUMN people.candles.open IS 'The first price, in dollars.';
COMMENT ON COLUMN people.candles.high IS 'The highest price.';
COMMENT ON COLUMN people.candles.low IS 'The lowest price.';
COMMENT ON COLUMN people.candles.close IS 'The last price.';
COMMENT ON COLUMN people.candles.shares IS 'Shares that were traded: the volume.';
COMMENT ON COLUMN people.candles.notional IS 'Shares times price, in dollars.';
COMMENT ON COLUMN people.candles.taker_bought IS 'Of the shares, those that a taker bought.';
COMMENT ON COLUMN people.candles.taker_paid IS 'Of the notional, what a taker paid.';
COMMENT ON COLUMN people.candles.first_trade IS 'The number of the first trade, counted for each symbol.';
COMMENT ON COLUMN people.candles.trades IS 'How many trades.';

COMMENT ON TABLE  outcry.placed_log IS 'The orders of each account, a row for each batch of records.';
COMMENT ON COLUMN outcry.placed_log.account IS 'The account.';
COMMENT ON COLUMN outcry.placed_log.seq IS 'The journal record of the newest order of the row; below 0 from before the second schema.';
COMMENT ON COLUMN outcry.placed_log.orders IS 'The orders, by symbol.';

COMMENT ON COLUMN outcry.order_log.ref IS 'The client order id, empty if there was none; also of orders that were closed before the tenth schema.';
COMMENT ON COLUMN outcry.amend_log.ref IS 'The client order id of the amend, empty if there was none.';
COMMENT ON COLUMN outcry.execution_log.trade IS 'The number of the trade for its symbol; NULL from before the tenth schema.';
COMMENT ON COLUMN outcry.execution_log.taker_fill IS 'The number of the execution for the taker''s account; NULL from before the tenth schema.';
COMMENT ON COLUMN outcry.execution_log.resting_fill IS 'The number of the execution for the resting order''s account; NULL from before the tenth schema.';
COMMENT ON COLUMN outcry.cancel_log.why IS '1 rest of its own record, 2 self-trade prevention, 3 its connection ended, 4 dead man''s switch, 5 operator, 6 its owner; NULL if it was replaced, and in most rows from before the tenth schema.';
COMMENT ON COLUMN outcry.resting_orders.instructions IS 'As in order_log; 512 more if an amend changed it, 1024 if one only gave it a ref.';
COMMENT ON COLUMN outcry.resting_orders.reduced IS 'What amends took off it in all, in units of 10^-8 shares; NULL for nothing.';
COMMENT ON COLUMN outcry.resting_orders.reduced_at_ns IS 'When the last of them did, in nanoseconds since the Unix epoch; NULL if none did.';
COMMENT ON COLUMN outcry.fill_log.fills IS 'Which executions, of which symbols, and the account''s side of each.';
