-- The projection of the journal. People query accounts, symbols, positions,
-- orders, executions and exchange_state; the other relations are what these are
-- made of. Decimals are exact: dollars and shares as in the protocol's replies.
-- Only the exchange writes here, and what it writes never decides anything.

-- One row: how far the projection has come, and who may write it.
CREATE TABLE exchange_state (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    applied_seq bigint  NOT NULL DEFAULT 0, -- the last journal record that the tables include
    epoch       bigint  NOT NULL DEFAULT 0, -- raised by each server that starts; an older one can write no more
    journal_id  uuid,                       -- the journal that applied_seq counts in
    ack         text    NOT NULL DEFAULT 'journal' CHECK (ack IN ('journal', 'postgres')) -- what answers wait for
);
INSERT INTO exchange_state DEFAULT VALUES;

CREATE TABLE accounts (
    id      text PRIMARY KEY,
    opened  numeric NOT NULL, -- the balance that the account was opened with
    balance numeric NOT NULL CHECK (balance >= 0), -- free to spend
    held    numeric NOT NULL CHECK (held >= 0)     -- set aside for open buys
) WITH (fillfactor = 70);

CREATE TABLE symbols (
    sym    text PRIMARY KEY,
    placed numeric NOT NULL -- all shares ever placed
) WITH (fillfactor = 70);

CREATE TABLE positions (
    sym     text NOT NULL,
    account text NOT NULL,
    shares  numeric NOT NULL CHECK (shares >= 0), -- free to sell
    held    numeric NOT NULL CHECK (held >= 0),   -- set aside for open sells
    PRIMARY KEY (sym, account)
) WITH (fillfactor = 70);

-- The logs only grow. Amounts, limits, shares and prices count 10^-8, so that
-- they are 8 bytes each; the views show them as decimals. Times are seconds
-- since the Unix epoch, as in the protocol.
CREATE TABLE order_log (
    id          bigint PRIMARY KEY,
    account     text   NOT NULL,
    sym         text   NOT NULL,
    amount      bigint NOT NULL, -- negative sells
    limit_price bigint NOT NULL,
    time        bigint NOT NULL
);

CREATE TABLE execution_log (
    order_id   bigint NOT NULL, -- the aggressing order
    n          int    NOT NULL, -- 1, 2, 3 … in the order of its matching
    resting_id bigint NOT NULL,
    sym        text   NOT NULL,
    buys       bool   NOT NULL, -- whether the aggressing order buys
    shares     bigint NOT NULL,
    price      bigint NOT NULL,
    time       bigint NOT NULL,
    PRIMARY KEY (order_id, n)
);
-- An order id rises within a symbol, so this index lists what a resting order
-- executed in the order in which it did.
CREATE INDEX execution_log_resting ON execution_log (resting_id, order_id);

CREATE TABLE cancel_log (
    order_id bigint PRIMARY KEY,
    shares   bigint NOT NULL,
    time     bigint NOT NULL
);

-- The orders that were open at the end of a batch: what a start loads. An order
-- that came and went within one batch never is here.
CREATE TABLE resting_orders (
    id          bigint PRIMARY KEY,
    account     text   NOT NULL,
    sym         text   NOT NULL,
    amount      bigint NOT NULL,
    limit_price bigint NOT NULL,
    open        bigint NOT NULL CHECK (open >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE VIEW orders AS
SELECT o.id,
       o.account,
       o.sym,
       trim_scale(o.amount * 0.00000001)      AS amount,
       trim_scale(o.limit_price * 0.00000001) AS limit_price,
       trim_scale(coalesce(r.open, 0) * 0.00000001) AS open,
       trim_scale((abs(o.amount) - coalesce(r.open, 0) - coalesce(c.shares, 0)) * 0.00000001) AS executed,
       trim_scale(coalesce(c.shares, 0) * 0.00000001) AS canceled,
       o.time,
       c.time AS canceled_at
  FROM order_log o
  LEFT JOIN resting_orders r ON r.id = o.id
  LEFT JOIN cancel_log c ON c.order_id = o.id;

CREATE VIEW executions AS
SELECT sym,
       CASE WHEN buys THEN order_id ELSE resting_id END AS buy_order,
       CASE WHEN buys THEN resting_id ELSE order_id END AS sell_order,
       trim_scale(shares * 0.00000001) AS shares,
       trim_scale(price * 0.00000001)  AS price,
       time,
       order_id AS aggressing_order,
       n
  FROM execution_log;
