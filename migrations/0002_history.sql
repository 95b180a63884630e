-- Every journal record makes exactly one row in accounts, symbols, placement_log,
-- order_log or cancel_log, and that row now knows the record's seq. The rows
-- together are the journal again, in its order: `outcry verify` does all of it
-- once more and compares what comes out with the tables.
ALTER TABLE accounts   ADD COLUMN seq bigint;
ALTER TABLE symbols    ADD COLUMN seq bigint;
ALTER TABLE order_log  ADD COLUMN seq bigint;
ALTER TABLE cancel_log ADD COLUMN seq bigint;

CREATE TABLE placement_log (
    seq     bigint PRIMARY KEY,
    sym     text    NOT NULL,
    account text    NOT NULL,
    shares  numeric NOT NULL
);

-- The rows of a database from before this file know no seq, and its placements
-- are lost. Its history begins with a copy of the tables as they stand now: after
-- record history_after. In a new database all of this is 0 and empty.
ALTER TABLE exchange_state ADD COLUMN history_after bigint NOT NULL DEFAULT 0;
UPDATE exchange_state SET history_after = applied_seq;

CREATE TABLE opening_accounts       AS SELECT id, opened, balance, held FROM accounts;
CREATE TABLE opening_symbols        AS SELECT sym, placed FROM symbols;
CREATE TABLE opening_positions      AS SELECT sym, account, shares, held FROM positions;
CREATE TABLE opening_resting_orders AS SELECT id, account, sym, amount, limit_price, open FROM resting_orders;
