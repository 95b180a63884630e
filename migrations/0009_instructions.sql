-- Orders with instructions (times in force, market orders, posts, self-trade prevention, amends), what an
-- operator sets for accounts and symbols, and times in nanoseconds. No table is written anew: new columns of large
-- ones have a constant or NULL. What few orders have is in tables of its own.

-- Rows of the records up to this one have times in whole seconds, and of their executions no
-- fill_log. In a new database it is 0.
ALTER TABLE people.exchange_state ADD COLUMN exact_after bigint NOT NULL DEFAULT 0;
UPDATE people.exchange_state SET exact_after = applied_seq;

ALTER TABLE outcry.order_log      ADD COLUMN nanos integer, ADD COLUMN instructions smallint NOT NULL DEFAULT 0;
ALTER TABLE outcry.execution_log  ADD COLUMN nanos integer;
ALTER TABLE outcry.part_log       ADD COLUMN nanos integer;
ALTER TABLE outcry.cancel_log     ADD COLUMN nanos integer;
ALTER TABLE outcry.halt_log       ADD COLUMN nanos integer;
ALTER TABLE outcry.resting_orders ADD COLUMN instructions smallint NOT NULL DEFAULT 0;
ALTER TABLE people.market         ADD COLUMN last_nanos integer;

ALTER TABLE people.symbols
    ADD COLUMN halted_nanos integer,
    ADD COLUMN tick numeric, ADD COLUMN lot numeric, ADD COLUMN protect numeric, ADD COLUMN band numeric;

ALTER TABLE people.accounts
    ADD COLUMN fills bigint NOT NULL DEFAULT 0,
    ADD COLUMN blocked_at bigint, ADD COLUMN blocked_nanos integer, ADD COLUMN block_reason text,
    ADD COLUMN stp text, ADD COLUMN shares_max numeric, ADD COLUMN notional_max numeric, ADD COLUMN open_max bigint,
    ADD COLUMN cancel_at_ns bigint;

-- The executions of each account are numbered from its first one on, on every node of a cluster alike,
-- whenever it was upgraded.
UPDATE people.accounts a SET fills = f.n
  FROM (SELECT o.account, sum(x.n)::bigint AS n
          FROM (SELECT id, count(*) AS n
                  FROM (SELECT order_id AS id FROM outcry.execution_log
                        UNION ALL
                        SELECT resting_id FROM outcry.execution_log) sides
                 GROUP BY id) x
          JOIN outcry.order_log o ON o.id = x.id
         GROUP BY o.account) f
 WHERE a.id = f.account;

-- The executions of an account in the order of their numbers: a row for each batch that has some. Each
-- takes twice its order's distance from the one before as taker, 1 more where the account was the taker's, and n,
-- as varints (internal/postgres/fills.go).
CREATE TABLE outcry.fill_log (
    account text COLLATE "C" NOT NULL,
    last    bigint NOT NULL,
    count   integer NOT NULL,
    fills   bytea  NOT NULL,
    PRIMARY KEY (account, last)
);

CREATE TABLE outcry.amend_log (
    seq         bigint PRIMARY KEY,
    order_id    bigint NOT NULL,
    old_id      bigint,
    first_id    bigint NOT NULL,
    amount      bigint NOT NULL,
    limit_price bigint NOT NULL,
    executed    bigint NOT NULL,
    open        bigint NOT NULL,
    reduced     bigint NOT NULL,
    time_ns     bigint NOT NULL
);
CREATE INDEX amend_log_order ON outcry.amend_log (order_id, seq);
CREATE INDEX amend_log_first ON outcry.amend_log (first_id, order_id);

CREATE TABLE outcry.hold_log (
    seq  bigint PRIMARY KEY,
    hold numeric NOT NULL
);

CREATE TABLE outcry.cause_log (
    seq     bigint PRIMARY KEY,
    account text     NOT NULL,
    cause   smallint NOT NULL,
    time_ns bigint   NOT NULL
);

CREATE TABLE outcry.account_log (
    seq          bigint PRIMARY KEY,
    account      text     NOT NULL,
    blocked_ns   bigint,
    block_reason text,
    stp          smallint NOT NULL,
    shares_max   bigint   NOT NULL,
    notional_max numeric  NOT NULL,
    open_max     bigint   NOT NULL,
    time_ns      bigint   NOT NULL
);

CREATE TABLE outcry.symbol_log (
    seq     bigint PRIMARY KEY,
    sym     text   NOT NULL,
    tick    bigint NOT NULL,
    lot     bigint NOT NULL,
    protect bigint NOT NULL,
    band    bigint NOT NULL,
    time_ns bigint NOT NULL
);

CREATE TABLE outcry.switch_log (
    seq     bigint PRIMARY KEY,
    account text   NOT NULL,
    due_ns  bigint NOT NULL,
    time_ns bigint NOT NULL
);

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
       c.time * 1000000000 + c.nanos AS canceled_at_ns
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
       time * 1000000000 + nanos AS time_ns
  FROM outcry.execution_log;

COMMENT ON COLUMN people.exchange_state.exact_after IS 'The record after which the tables have times in nanoseconds, and the executions of each account; 0 unless an older schema was upgraded.';

COMMENT ON COLUMN people.accounts.fills IS 'How many executions the account had: one between two of its orders counts twice.';
COMMENT ON COLUMN people.accounts.blocked_at IS 'Since when the account may place no orders, in seconds since the Unix epoch; NULL if it may.';
COMMENT ON COLUMN people.accounts.blocked_nanos IS 'Nanoseconds of blocked_at.';
COMMENT ON COLUMN people.accounts.block_reason IS 'Why the account is blocked; NULL if it is not.';
COMMENT ON COLUMN people.accounts.stp IS 'Self-trade prevention of orders that do not say it: newest, oldest or both; NULL is none.';
COMMENT ON COLUMN people.accounts.shares_max IS 'The most shares that an order may have; NULL is no limit.';
COMMENT ON COLUMN people.accounts.notional_max IS 'The most dollars that an order may be worth; NULL is no limit.';
COMMENT ON COLUMN people.accounts.open_max IS 'The most orders that the account may have open; NULL is no limit.';
COMMENT ON COLUMN people.accounts.cancel_at_ns IS 'When the dead man''s switch cancels all open orders, in nanoseconds since the Unix epoch; NULL if it is off.';

COMMENT ON COLUMN people.symbols.halted_nanos IS 'Nanoseconds of halted_at; NULL if it is not halted, or was by an older program.';
COMMENT ON COLUMN people.symbols.tick IS 'Limits are multiples of it, in dollars; NULL is 0.00000001.';
COMMENT ON COLUMN people.symbols.lot IS 'Amounts are multiples of it, in shares; NULL is 0.00000001.';
COMMENT ON COLUMN people.symbols.protect IS 'How far behind the best price a market order may execute, as a part of it; NULL is 0.1.';
COMMENT ON COLUMN people.symbols.band IS 'How far from the last trade''s price a limit may be, as a part of it; NULL is any.';

COMMENT ON COLUMN people.market.last_nanos IS 'Nanoseconds of last_time; NULL from an older program.';

COMMENT ON VIEW   people.orders IS 'All orders ever accepted, open or closed. |amount| = open + executed + reduced + canceled.';
COMMENT ON COLUMN people.orders.limit_price IS 'The worst price that the order accepts: of a market order its protection price.';
COMMENT ON COLUMN people.orders.canceled IS 'Shares that were canceled, also by a rule of the order, or since another order replaced it.';
COMMENT ON COLUMN people.orders.type IS 'limit or market.';
COMMENT ON COLUMN people.orders.tif IS 'How long the order may stay: GTC, IOC or FOK.';
COMMENT ON COLUMN people.orders.post IS 'Whether the order was to be refused if it executed at once.';
COMMENT ON COLUMN people.orders.stp IS 'Self-trade prevention in effect: newest, oldest or both; NULL is none.';
COMMENT ON COLUMN people.orders.cod IS 'Whether the order is canceled when its connection ends.';
COMMENT ON COLUMN people.orders.replaces IS 'The order that this one replaced by an amend; NULL if none.';
COMMENT ON COLUMN people.orders.first_id IS 'The first order of the chain of those that replaced one another; of most orders its own id.';
COMMENT ON COLUMN people.orders.reduced IS 'Shares that amends took off without replacing the order.';
COMMENT ON COLUMN people.orders.time_ns IS 'When the order was accepted, in nanoseconds since the Unix epoch; NULL in rows of older programs.';
COMMENT ON COLUMN people.orders.canceled_at_ns IS 'When the rest was canceled, in nanoseconds; NULL if it was not, or by an older program.';

COMMENT ON COLUMN people.executions.time_ns IS 'When, in nanoseconds since the Unix epoch; NULL in rows of older programs.';

COMMENT ON COLUMN outcry.order_log.nanos IS 'Nanoseconds of the time; NULL from before the ninth schema.';
COMMENT ON COLUMN outcry.order_log.instructions IS 'tif 3, post 4, market 8, stp 48, not sent: limit 64, stp 128; cod 256; what the view orders shows.';
COMMENT ON COLUMN outcry.execution_log.nanos IS 'Nanoseconds of the time; NULL from before the ninth schema.';
COMMENT ON COLUMN outcry.part_log.nanos IS 'Nanoseconds of the time; NULL from before the ninth schema.';
COMMENT ON COLUMN outcry.cancel_log.nanos IS 'Nanoseconds of the time; NULL from before the ninth schema.';
COMMENT ON COLUMN outcry.halt_log.nanos IS 'Nanoseconds of the time; NULL from before the ninth schema.';
COMMENT ON COLUMN outcry.resting_orders.instructions IS 'As in order_log; 512 more if amend_log has rows of the order.';
COMMENT ON COLUMN outcry.cancel_log.n IS 'The order''s place in a cancel of all, or among those that self-trade prevention canceled: 1, 2, 3 and so on; NULL if it was canceled by itself.';
COMMENT ON COLUMN outcry.refs.order_id IS 'The order that the record made, or left after an amend; NULL if it made none.';

COMMENT ON TABLE  outcry.fill_log IS 'The executions of each account in the order of their numbers, a row for each batch of records.';
COMMENT ON COLUMN outcry.fill_log.account IS 'The account.';
COMMENT ON COLUMN outcry.fill_log.last IS 'The number of the row''s last execution.';
COMMENT ON COLUMN outcry.fill_log.count IS 'How many executions the row has.';
COMMENT ON COLUMN outcry.fill_log.fills IS 'Which executions, and the account''s side of each.';

COMMENT ON TABLE  outcry.amend_log IS 'A row for each record of an amend.';
COMMENT ON COLUMN outcry.amend_log.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.amend_log.order_id IS 'The order that the amend left: the same one, or the one that replaced it.';
COMMENT ON COLUMN outcry.amend_log.old_id IS 'The order that was replaced; NULL if it kept its place.';
COMMENT ON COLUMN outcry.amend_log.first_id IS 'The first order of the chain.';
COMMENT ON COLUMN outcry.amend_log.amount IS 'The new total as sent, in 10^-8 shares; 0 if none was.';
COMMENT ON COLUMN outcry.amend_log.limit_price IS 'The new limit as sent, in 10^-8 dollars; 0 if none was.';
COMMENT ON COLUMN outcry.amend_log.executed IS 'What the chain had executed before, in 10^-8 shares.';
COMMENT ON COLUMN outcry.amend_log.open IS 'What is open of an order that kept its place, in 10^-8 shares; 0 if it was replaced.';
COMMENT ON COLUMN outcry.amend_log.reduced IS 'What was taken off an order that kept its place, in 10^-8 shares.';
COMMENT ON COLUMN outcry.amend_log.time_ns IS 'Nanoseconds since the Unix epoch.';

COMMENT ON TABLE  outcry.hold_log IS 'A row for each market order to buy that went on in a further part.';
COMMENT ON COLUMN outcry.hold_log.seq IS 'The journal record of the order.';
COMMENT ON COLUMN outcry.hold_log.hold IS 'What the further parts would cost, in dollars.';

COMMENT ON TABLE  outcry.cause_log IS 'A row for each record that canceled several orders otherwise than by an operator.';
COMMENT ON COLUMN outcry.cause_log.seq IS 'The journal record; cancel_log has its orders.';
COMMENT ON COLUMN outcry.cause_log.account IS 'Whose orders.';
COMMENT ON COLUMN outcry.cause_log.cause IS '1 the client, 2 its connection ended, 3 its dead man''s switch, 4 the account was blocked.';
COMMENT ON COLUMN outcry.cause_log.time_ns IS 'Nanoseconds since the Unix epoch.';

COMMENT ON TABLE  outcry.account_log IS 'A row for each record of what an operator set for an account: all that held from then on.';
COMMENT ON COLUMN outcry.account_log.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.account_log.account IS 'The account.';
COMMENT ON COLUMN outcry.account_log.blocked_ns IS 'Since when it is blocked, in nanoseconds since the Unix epoch; NULL if it is not.';
COMMENT ON COLUMN outcry.account_log.block_reason IS 'Why it is blocked; NULL if it is not.';
COMMENT ON COLUMN outcry.account_log.stp IS 'Self-trade prevention: 0 none, 1 newest, 2 oldest, 3 both.';
COMMENT ON COLUMN outcry.account_log.shares_max IS 'The most of an order, in 10^-8 shares; 0 is no limit.';
COMMENT ON COLUMN outcry.account_log.notional_max IS 'The most that an order may be worth, in dollars; 0 is no limit.';
COMMENT ON COLUMN outcry.account_log.open_max IS 'The most open orders; 0 is no limit.';
COMMENT ON COLUMN outcry.account_log.time_ns IS 'Nanoseconds since the Unix epoch.';

COMMENT ON TABLE  outcry.symbol_log IS 'A row for each record of what was set for a symbol: all that held from then on.';
COMMENT ON COLUMN outcry.symbol_log.seq IS 'The journal record, also of a symbol that was made with a tick or a lot.';
COMMENT ON COLUMN outcry.symbol_log.sym IS 'The symbol.';
COMMENT ON COLUMN outcry.symbol_log.tick IS 'In 10^-8 dollars; 0 is the least.';
COMMENT ON COLUMN outcry.symbol_log.lot IS 'In 10^-8 shares; 0 is the least.';
COMMENT ON COLUMN outcry.symbol_log.protect IS 'In 10^-8 of the best price; 0 is the standard.';
COMMENT ON COLUMN outcry.symbol_log.band IS 'In 10^-8 of the last trade''s price; 0 is none.';
COMMENT ON COLUMN outcry.symbol_log.time_ns IS 'Nanoseconds since the Unix epoch; 0 of a symbol that was made.';

COMMENT ON TABLE  outcry.switch_log IS 'A row for each record that sets a dead man''s switch.';
COMMENT ON COLUMN outcry.switch_log.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.switch_log.account IS 'Whose switch.';
COMMENT ON COLUMN outcry.switch_log.due_ns IS 'When it cancels all, in nanoseconds since the Unix epoch; 0 turns it off.';
COMMENT ON COLUMN outcry.switch_log.time_ns IS 'Nanoseconds since the Unix epoch.';
