-- Symbols that are halted: since when, in seconds since the Unix epoch, and why. Both
-- are NULL while the symbol takes orders.
ALTER TABLE symbols ADD COLUMN halted_at bigint, ADD COLUMN halt_reason text;
ALTER TABLE symbols ADD CHECK ((halted_at IS NULL) = (halt_reason IS NULL));
ALTER TABLE opening_symbols ADD COLUMN halted_at bigint, ADD COLUMN halt_reason text;

-- The rows of the journal's records that halt a symbol or let it take orders again.
CREATE TABLE halt_log (
    seq    bigint PRIMARY KEY,
    sym    text    NOT NULL,
    halted boolean NOT NULL,
    reason text    NOT NULL, -- empty where orders are taken again
    time   bigint  NOT NULL
);

-- A record that cancels all that an account has open makes a row for each order, all
-- with its seq: n is 1, 2, 3 … in the order of the record, NULL where an order was
-- canceled by itself.
ALTER TABLE cancel_log ADD COLUMN n int;
