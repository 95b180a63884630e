-- People read seven relations: accounts, symbols, positions, market, orders, executions
-- and exchange_state. They stay in the schema where they are, which statements call
-- people from here on. All other tables move to the schema outcry. Nothing is copied: a
-- table that moves keeps its rows, indexes and grants, however large it is.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'outcry') THEN
        CREATE SCHEMA outcry;
    END IF;
    IF pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = 'outcry'), 'USAGE') THEN -- else it is not ours to comment on
        COMMENT ON SCHEMA outcry IS 'Internal tables of Outcry, the exchange. People read the relations that outcry.schema_version names the schema of.';
    END IF;
END $$;

-- An exchange that was made in a schema of that name has all of it there already.
DO $$ DECLARE place name; moves name; BEGIN
    SELECT n.nspname INTO place FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = $people$people.exchange_state$people$::regclass;
    FOREACH moves IN ARRAY ARRAY['placement_log', 'order_log', 'execution_log', 'part_log', 'cancel_log', 'halt_log',
        'refs', 'resting_orders', 'opening_accounts', 'opening_symbols', 'opening_positions', 'opening_resting_orders',
        'outcry_schema_version']
    LOOP
        IF place <> 'outcry' THEN
            EXECUTE format('ALTER TABLE %I.%I SET SCHEMA outcry', place, moves);
        END IF;
    END LOOP;
END $$;

-- Where people read is noted, so that no search_path decides it.
ALTER TABLE outcry.outcry_schema_version RENAME TO schema_version;
ALTER TABLE outcry.schema_version ADD COLUMN people text;
UPDATE outcry.schema_version SET people =
    (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.oid = $people$people.exchange_state$people$::regclass);
ALTER TABLE outcry.schema_version ALTER COLUMN people SET NOT NULL;

-- A program of an older version looks for its table of this name, finds a type, and ends.
-- Without it that would take the database for an empty one.
CREATE TYPE people.outcry_schema_version AS (see_outcry_schema_version int);
COMMENT ON TYPE people.outcry_schema_version IS 'Keeps programs of older versions of Outcry from this database.';

-- Roles that may read internal tables still do.
DO $$ DECLARE reader text; BEGIN
    FOR reader IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
          FROM (SELECT relowner, relacl AS acl FROM pg_class WHERE relnamespace = 'outcry'::regnamespace
                UNION ALL
                SELECT c.relowner, t.attacl FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid
                 WHERE c.relnamespace = 'outcry'::regnamespace) tables
         CROSS JOIN LATERAL aclexplode(tables.acl) a
         WHERE a.grantee <> tables.relowner
    LOOP
        EXECUTE 'GRANT USAGE ON SCHEMA outcry TO ' || reader;
    END LOOP;
END $$;

COMMENT ON TABLE  people.exchange_state IS 'One row: how far the tables follow the journal, and who may write them.';
COMMENT ON COLUMN people.exchange_state.one IS 'Always true: there is one row.';
COMMENT ON COLUMN people.exchange_state.applied_seq IS 'The last journal record that the tables include.';
COMMENT ON COLUMN people.exchange_state.epoch IS 'Raised by each server that starts; an older one can write no more.';
COMMENT ON COLUMN people.exchange_state.journal_id IS 'The journal that applied_seq counts in.';
COMMENT ON COLUMN people.exchange_state.ack IS 'What replies wait for: journal, or postgres as well.';
COMMENT ON COLUMN people.exchange_state.history_after IS 'The record after which the tables have all history; 0 unless the first schema was upgraded.';
COMMENT ON COLUMN people.exchange_state.orders_after IS 'Order ids go on above this one; 0 except after a restore or a lost journal.';

COMMENT ON TABLE  people.accounts IS 'Accounts and their cash, in dollars.';
COMMENT ON COLUMN people.accounts.id IS 'The id that a client chose.';
COMMENT ON COLUMN people.accounts.opened IS 'The balance that the account was opened with.';
COMMENT ON COLUMN people.accounts.balance IS 'Cash that is free to spend.';
COMMENT ON COLUMN people.accounts.held IS 'Cash that is set aside for open buys.';
COMMENT ON COLUMN people.accounts.seq IS 'The journal record that opened the account.';

COMMENT ON TABLE  people.symbols IS 'Symbols, and which are halted.';
COMMENT ON COLUMN people.symbols.sym IS 'The symbol.';
COMMENT ON COLUMN people.symbols.placed IS 'All shares ever deposited.';
COMMENT ON COLUMN people.symbols.seq IS 'The journal record that made the symbol.';
COMMENT ON COLUMN people.symbols.halted_at IS 'Since when the symbol is halted, in seconds since the Unix epoch; NULL if it is not.';
COMMENT ON COLUMN people.symbols.halt_reason IS 'Why the symbol is halted; NULL if it is not.';

COMMENT ON TABLE  people.positions IS 'The shares that each account has of each symbol.';
COMMENT ON COLUMN people.positions.sym IS 'The symbol.';
COMMENT ON COLUMN people.positions.account IS 'The account.';
COMMENT ON COLUMN people.positions.shares IS 'Shares that are free to sell.';
COMMENT ON COLUMN people.positions.held IS 'Shares that are set aside for open sells.';

COMMENT ON TABLE  people.market IS 'What the trades of each symbol come to. A symbol without trades has no row.';
COMMENT ON COLUMN people.market.sym IS 'The symbol.';
COMMENT ON COLUMN people.market.trades IS 'How many trades there were.';
COMMENT ON COLUMN people.market.shares IS 'The volume: shares of all trades.';
COMMENT ON COLUMN people.market.notional IS 'Shares times price of all trades, in dollars.';
COMMENT ON COLUMN people.market.last_price IS 'The price of the newest trade.';
COMMENT ON COLUMN people.market.last_time IS 'The time of the newest trade, in seconds since the Unix epoch.';

COMMENT ON VIEW   people.orders IS 'All orders ever accepted, open or closed. |amount| = open + executed + canceled.';
COMMENT ON COLUMN people.orders.id IS 'The id that the exchange gave the order.';
COMMENT ON COLUMN people.orders.account IS 'The account that placed the order.';
COMMENT ON COLUMN people.orders.sym IS 'The symbol.';
COMMENT ON COLUMN people.orders.amount IS 'Shares that the order buys; negative if it sells.';
COMMENT ON COLUMN people.orders.limit_price IS 'The worst price that the order accepts.';
COMMENT ON COLUMN people.orders.open IS 'Shares that are still in the book.';
COMMENT ON COLUMN people.orders.executed IS 'Shares that were traded.';
COMMENT ON COLUMN people.orders.canceled IS 'Shares that were canceled.';
COMMENT ON COLUMN people.orders.time IS 'When the order was accepted, in seconds since the Unix epoch.';
COMMENT ON COLUMN people.orders.canceled_at IS 'When the rest was canceled, in seconds since the Unix epoch; NULL if it was not.';

COMMENT ON VIEW   people.executions IS 'All trades: one row for each match of a taker with a resting order.';
COMMENT ON COLUMN people.executions.sym IS 'The symbol.';
COMMENT ON COLUMN people.executions.buy_order IS 'The order that bought.';
COMMENT ON COLUMN people.executions.sell_order IS 'The order that sold.';
COMMENT ON COLUMN people.executions.shares IS 'Shares that were traded.';
COMMENT ON COLUMN people.executions.price IS 'The price: the limit of the resting order.';
COMMENT ON COLUMN people.executions.time IS 'When, in seconds since the Unix epoch.';
COMMENT ON COLUMN people.executions.aggressing_order IS 'The taker: the order that arrived last.';
COMMENT ON COLUMN people.executions.n IS 'Which of the taker''s executions this is: 1, 2, 3 and so on.';

COMMENT ON TABLE  outcry.schema_version IS 'One row: which version the schema has, and where people read.';
COMMENT ON COLUMN outcry.schema_version.version IS 'How many of the migrations the schema has.';
COMMENT ON COLUMN outcry.schema_version.people IS 'The schema of the relations that people read.';

COMMENT ON TABLE  outcry.placement_log IS 'A row for each record of a deposit.';
COMMENT ON COLUMN outcry.placement_log.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.placement_log.sym IS 'The symbol.';
COMMENT ON COLUMN outcry.placement_log.account IS 'Who got the shares.';
COMMENT ON COLUMN outcry.placement_log.shares IS 'How many shares.';

COMMENT ON TABLE  outcry.order_log IS 'A row for each order, as it was accepted; the view orders adds what became of it.';
COMMENT ON COLUMN outcry.order_log.id IS 'The order.';
COMMENT ON COLUMN outcry.order_log.account IS 'Who placed it.';
COMMENT ON COLUMN outcry.order_log.sym IS 'The symbol.';
COMMENT ON COLUMN outcry.order_log.amount IS 'Shares, in 10^-8; negative sells.';
COMMENT ON COLUMN outcry.order_log.limit_price IS 'The limit, in 10^-8 dollars.';
COMMENT ON COLUMN outcry.order_log.time IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN outcry.order_log.seq IS 'The journal record; NULL from before the second schema.';

COMMENT ON TABLE  outcry.execution_log IS 'A row for each fill of an order; the view executions shows them as decimals.';
COMMENT ON COLUMN outcry.execution_log.order_id IS 'The taker.';
COMMENT ON COLUMN outcry.execution_log.n IS 'Which of the taker''s executions this is: 1, 2, 3 and so on.';
COMMENT ON COLUMN outcry.execution_log.resting_id IS 'The resting order.';
COMMENT ON COLUMN outcry.execution_log.sym IS 'The symbol.';
COMMENT ON COLUMN outcry.execution_log.buys IS 'Whether the taker buys.';
COMMENT ON COLUMN outcry.execution_log.shares IS 'Shares, in 10^-8.';
COMMENT ON COLUMN outcry.execution_log.price IS 'The price, in 10^-8 dollars.';
COMMENT ON COLUMN outcry.execution_log.time IS 'Seconds since the Unix epoch.';

COMMENT ON TABLE  outcry.part_log IS 'A row for each further part of an order that met very many resting orders.';
COMMENT ON COLUMN outcry.part_log.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.part_log.order_id IS 'The order.';
COMMENT ON COLUMN outcry.part_log.first_n IS 'The first of the part''s executions, as n in execution_log.';
COMMENT ON COLUMN outcry.part_log.last_n IS 'The last of the part''s executions, as n in execution_log.';
COMMENT ON COLUMN outcry.part_log.open IS 'What the order had open before this part, in 10^-8 shares.';
COMMENT ON COLUMN outcry.part_log.time IS 'Seconds since the Unix epoch.';

COMMENT ON TABLE  outcry.cancel_log IS 'A row for each order that was canceled.';
COMMENT ON COLUMN outcry.cancel_log.order_id IS 'The order.';
COMMENT ON COLUMN outcry.cancel_log.shares IS 'Shares that were canceled, in 10^-8.';
COMMENT ON COLUMN outcry.cancel_log.time IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN outcry.cancel_log.seq IS 'The journal record; NULL from before the second schema.';
COMMENT ON COLUMN outcry.cancel_log.n IS 'The order''s place in a cancel of all: 1, 2, 3 and so on; NULL if it was canceled by itself.';

COMMENT ON TABLE  outcry.halt_log IS 'A row for each record that halts or resumes a symbol.';
COMMENT ON COLUMN outcry.halt_log.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.halt_log.sym IS 'The symbol.';
COMMENT ON COLUMN outcry.halt_log.halted IS 'Whether it is halted; it is resumed otherwise.';
COMMENT ON COLUMN outcry.halt_log.reason IS 'Why it is halted; empty if it is resumed.';
COMMENT ON COLUMN outcry.halt_log.time IS 'Seconds since the Unix epoch.';

COMMENT ON TABLE  outcry.refs IS 'Client order ids that were used, and the record that used each.';
COMMENT ON COLUMN outcry.refs.account IS 'The account that used the ref.';
COMMENT ON COLUMN outcry.refs.ref IS 'The client order id.';
COMMENT ON COLUMN outcry.refs.seq IS 'The journal record.';
COMMENT ON COLUMN outcry.refs.order_id IS 'The order that the record made; NULL if it made none.';

COMMENT ON TABLE  outcry.resting_orders IS 'The orders that were open at the end of a batch: what a start loads.';
COMMENT ON COLUMN outcry.resting_orders.id IS 'The order.';
COMMENT ON COLUMN outcry.resting_orders.account IS 'Who placed it.';
COMMENT ON COLUMN outcry.resting_orders.sym IS 'The symbol.';
COMMENT ON COLUMN outcry.resting_orders.amount IS 'Shares of the whole order, in 10^-8; negative sells.';
COMMENT ON COLUMN outcry.resting_orders.limit_price IS 'The limit, in 10^-8 dollars.';
COMMENT ON COLUMN outcry.resting_orders.open IS 'Shares that are still in the book, in 10^-8.';

COMMENT ON TABLE  outcry.opening_accounts IS 'Accounts as history begins, after record history_after of exchange_state.';
COMMENT ON COLUMN outcry.opening_accounts.id IS 'As in accounts.';
COMMENT ON COLUMN outcry.opening_accounts.opened IS 'As in accounts.';
COMMENT ON COLUMN outcry.opening_accounts.balance IS 'As in accounts.';
COMMENT ON COLUMN outcry.opening_accounts.held IS 'As in accounts.';

COMMENT ON TABLE  outcry.opening_symbols IS 'Symbols as history begins.';
COMMENT ON COLUMN outcry.opening_symbols.sym IS 'As in symbols.';
COMMENT ON COLUMN outcry.opening_symbols.placed IS 'As in symbols.';
COMMENT ON COLUMN outcry.opening_symbols.halted_at IS 'As in symbols.';
COMMENT ON COLUMN outcry.opening_symbols.halt_reason IS 'As in symbols.';

COMMENT ON TABLE  outcry.opening_positions IS 'Positions as history begins.';
COMMENT ON COLUMN outcry.opening_positions.sym IS 'As in positions.';
COMMENT ON COLUMN outcry.opening_positions.account IS 'As in positions.';
COMMENT ON COLUMN outcry.opening_positions.shares IS 'As in positions.';
COMMENT ON COLUMN outcry.opening_positions.held IS 'As in positions.';

COMMENT ON TABLE  outcry.opening_resting_orders IS 'Open orders as history begins.';
COMMENT ON COLUMN outcry.opening_resting_orders.id IS 'As in resting_orders.';
COMMENT ON COLUMN outcry.opening_resting_orders.account IS 'As in resting_orders.';
COMMENT ON COLUMN outcry.opening_resting_orders.sym IS 'As in resting_orders.';
COMMENT ON COLUMN outcry.opening_resting_orders.amount IS 'As in resting_orders.';
COMMENT ON COLUMN outcry.opening_resting_orders.limit_price IS 'As in resting_orders.';
COMMENT ON COLUMN outcry.opening_resting_orders.open IS 'As in resting_orders.';
