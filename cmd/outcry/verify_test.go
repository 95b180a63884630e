package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

var background = context.Background()

// trade sends frames of random orders and cancels of accounts 1 to 5 in A and B.
func trade(t *testing.T, p *exchangetest.Process, r *rand.Rand, frames int) {
	t.Helper()
	c := &cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}
	var ids []string
	for range frames {
		tx := wire.NewTransactions(fmt.Sprint(1 + r.IntN(5)))
		for range 50 {
			if len(ids) > 0 && r.IntN(5) == 0 {
				tx.Cancel(ids[len(ids)-1-r.IntN(min(len(ids), 30))])
				continue
			}
			amount := fmt.Sprintf("%s%d.%08d", []string{"", "-"}[r.IntN(2)], r.IntN(5), 1+r.IntN(1e8-1))
			tx.OrderRef([]string{"A", "B"}[r.IntN(2)], amount, fmt.Sprintf("%d.%08d", 95+r.IntN(10), r.IntN(1e8)), anyRef(r))
		}
		reply, err := exchangeXML(c, tx.Append(nil))
		require.NoError(t, err)
		answers, err := wire.ParseReply(reply)
		require.NoError(t, err)
		for _, a := range answers {
			if a.Kind == "opened" {
				ids = append(ids, a.ID)
			}
		}
	}
}

// anyRef returns a new ref or "", each with a chance of one half.
func anyRef(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", r.Uint64())
}

// life is the data directory and database of a stopped exchange.
type life struct {
	data, database string
	last           exchangetest.LogLine
	r              *rand.Rand
}

// cancelOne opens an account, places an order and cancels it, so that there is at least one cancel.
func cancelOne(t *testing.T, p *exchangetest.Process, account string) {
	t.Helper()
	c := &cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}
	do := func(xml []byte) wire.Answer {
		reply, err := exchangeXML(c, xml)
		require.NoError(t, err)
		answers, err := wire.ParseReply(reply)
		require.NoError(t, err)
		require.Len(t, answers, 1)
		require.Empty(t, answers[0].Error)
		return answers[0]
	}
	do(new(wire.Create).Account(wire.Account{ID: account, Balance: "1"}).Append(nil))
	opened := do(wire.NewTransactions(account).Order("A", "1", "0.01").Append(nil))
	do(wire.NewTransactions(account).Cancel(opened.ID).Append(nil))
}

// live runs an exchange until it has deleted its journal's oldest segment, and stops it.
func live(t *testing.T) *life {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &life{data: t.TempDir(), database: exchangetest.NewTables(t), r: rand.New(rand.NewPCG(seed, 1))}
	p := exchangetest.Start(t, l.data, l.database)
	c := &cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}
	create := new(wire.Create)
	for id := range 5 {
		create.Account(wire.Account{ID: fmt.Sprint(id + 1), Balance: "100000.00000001", Ref: fmt.Sprint("open", id%2)})
	}
	for _, sym := range []string{"A", "B"} {
		for id := range 5 {
			create.Symbol(sym, wire.Placement{Account: fmt.Sprint(id + 1), Shares: "1000.00000001", Ref: sym})
		}
	}
	_, err := exchangeXML(c, create.Append(nil))
	require.NoError(t, err)
	trade(t, p, l.r, 36) // ends well inside a segment, so that the next records delete none
	l.last = p.Stop()
	return l
}

// tables are all tables that hold the state of an exchange.
var tables = []string{"exchange_state", "accounts", "symbols", "positions", "placement_log", "order_log",
	"execution_log", "part_log", "cancel_log", "halt_log", "resting_orders", "market", "refs", "fill_log", "amend_log",
	"hold_log", "cause_log", "account_log", "symbol_log", "switch_log", "placed_log", "candles",
	"opening_accounts", "opening_symbols", "opening_positions", "opening_resting_orders"}

// allTables connects to a database so that internal tables are found without their schema's name.
func allTables(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	config.RuntimeParams["search_path"] = "public, outcry"
	conn, err := pgx.ConnectConfig(background, config)
	require.NoError(t, err)
	return conn
}

// kept copies the tables and the view orders; restore brings the copies back.
func kept(t *testing.T, database string) (restore func()) {
	t.Helper()
	save, back := "CREATE SCHEMA kept;", "BEGIN;"
	for _, table := range tables {
		save += fmt.Sprintf("CREATE TABLE kept.%[1]s AS TABLE %[1]s;", table)
		back += fmt.Sprintf("TRUNCATE %[1]s; INSERT INTO %[1]s TABLE kept.%[1]s;", table)
	}
	execute(t, database, save)
	conn, err := pgx.Connect(background, database)
	require.NoError(t, err)
	defer conn.Close(background)
	var view string
	require.NoError(t, conn.QueryRow(background, `SELECT pg_get_viewdef('orders')`).Scan(&view))
	return func() { execute(t, database, back+"CREATE OR REPLACE VIEW orders AS "+view+"COMMIT") }
}

// execute runs statements, and returns how many rows they changed.
func execute(t *testing.T, database, sql string) (rows int64) {
	t.Helper()
	conn := allTables(t, database)
	defer conn.Close(background)
	results, err := conn.PgConn().Exec(background, sql).ReadAll()
	require.NoError(t, err)
	for _, r := range results {
		if tag := r.CommandTag; tag.Update() || tag.Delete() || tag.Insert() {
			rows += tag.RowsAffected()
		}
	}
	return rows
}

// verified runs `outcry verify` on the stopped exchange.
func (l *life) verified() (stdout, stderr string, status int) {
	return outcry("", "verify", "--database-url="+l.database, l.data)
}

// segments lists the journal's files, oldest first.
func (l *life) segments(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(l.data, "journal", "*.seg"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

// edit changes the content of a file.
func edit(t *testing.T, path string, change func([]byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	change(b)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// harms are damages to a database, with the check that must find each and its message. Those with the check
// "records" are found only with a journal that still has the record.
var harms = []struct{ name, sql, check, want string }{
	{"an execution's price",
		`UPDATE execution_log SET price = price + 1 WHERE (order_id, n) = (SELECT order_id, n FROM execution_log ` +
			`ORDER BY 1, 2 LIMIT 1)`,
		"history", `execution_log, order_id \d+, n 1: the row has .+ at .+, but the book fills .+ at`},
	{"an execution's shares",
		`UPDATE execution_log SET shares = shares - 1 WHERE (order_id, n) = (SELECT order_id, n FROM execution_log ` +
			`ORDER BY 1 DESC, 2 LIMIT 1)`,
		"history", `execution_log, order_id \d+, n 1: the row has`},
	{"an execution gone",
		`DELETE FROM execution_log WHERE (order_id, n) = (SELECT order_id, max(n) FROM execution_log GROUP BY 1 ` +
			`ORDER BY 1 LIMIT 1)`,
		"history", `execution_log, order_id \d+, n \d+: the row has nothing, but the book fills`},
	{"an execution in the middle gone",
		`DELETE FROM execution_log WHERE (order_id, n) = (SELECT order_id, 1 FROM execution_log WHERE n = 2 ` +
			`ORDER BY 1 LIMIT 1)`,
		"history", `execution_log, order_id \d+, n 2: the order's execution 1 is missing`},
	{"an execution too many",
		`INSERT INTO execution_log SELECT order_id, n + 1, resting_id, sym, buys, 1, price, time, nanos FROM execution_log ` +
			`ORDER BY order_id, n DESC LIMIT 1`,
		"history", `(execution_log, order_id \d+, n \d+: the row has|order_log, id \d+: .* fill of)`},
	{"an execution of the other side",
		`UPDATE execution_log SET buys = NOT buys WHERE order_id = (SELECT max(order_id) FROM execution_log)`,
		"history", `execution_log, order_id \d+, n 1: buys is`},
	{"an execution's symbol",
		`UPDATE execution_log SET sym = 'C' WHERE order_id = (SELECT max(order_id) FROM execution_log)`, "history",
		`execution_log, order_id \d+, n 1: sym is C, the order's is [AB]`},
	{"an execution's time",
		`UPDATE execution_log SET time = 7 WHERE order_id = (SELECT max(order_id) FROM execution_log)`, "history",
		`execution_log, order_id \d+, n 1: time is 7\.\d+, the order's is`},
	{"an execution with no order",
		`UPDATE execution_log SET resting_id = 999999 WHERE order_id = (SELECT max(order_id) FROM execution_log)`,
		"history", `execution_log, order_id \d+, n 1: there is no resting order 999999`},
	{"a cancel of no order", `INSERT INTO cancel_log VALUES (999999, 1, 1, NULL)`, "history",
		`cancel_log, order_id 999999: there is no order 999999`},
	{"an execution of no order",
		`INSERT INTO execution_log SELECT 999999, 1, resting_id, sym, buys, shares, price, time, nanos ` +
			`FROM execution_log LIMIT 1`,
		"history", `execution_log, order_id 999999, n 1: there is no order 999999`},
	{"an order twice",
		`INSERT INTO order_log SELECT id + 100000, account, sym, amount, limit_price, time, seq FROM order_log ` +
			`ORDER BY id LIMIT 1`,
		"history", `order_log, id 100001: it is of record \d+, which another row has too`},
	{"an order without a record",
		`INSERT INTO order_log SELECT id + 100000, account, sym, amount, limit_price, time FROM order_log ` +
			`ORDER BY id LIMIT 1`,
		"history", `order_log, id 100001: it has no record`},
	{"an order gone", `DELETE FROM order_log WHERE id = 7`,
		"history", `(execution_log, order_id \d+, n \d+: there is no|_log, .*no row is of record)`},
	{"an order's amount of nothing", `UPDATE order_log SET amount = 0 WHERE id = 1`, "history",
		`order_log, id 1: .*order 1: buy 0 at`},
	{"an account gone", `DELETE FROM accounts WHERE id = '5'`, "history", `it is of record 6, but no row is of record 5`},
	{"a cancel gone", `DELETE FROM cancel_log WHERE order_id = (SELECT min(order_id) FROM cancel_log)`, "history",
		`it is of record \d+, but no row is of record \d+`},
	{"a cancel's shares",
		`UPDATE cancel_log SET shares = shares + 1 WHERE order_id = (SELECT min(order_id) FROM cancel_log)`, "history",
		`cancel_log, order_id \d+: .* were canceled`},
	{"the last record's row gone", `DELETE FROM execution_log WHERE order_id =
		(SELECT id FROM order_log WHERE seq = (SELECT applied_seq FROM exchange_state));
		DELETE FROM order_log WHERE seq = (SELECT applied_seq FROM exchange_state);
		DELETE FROM cancel_log WHERE seq = (SELECT applied_seq FROM exchange_state)`,
		"history", `exchange_state, applied_seq: it is \d+, but no table has a row of record \d+`},
	{"the newest time", `UPDATE exchange_state SET time_ns = time_ns - 1000000000`, "history",
		`exchange_state, time_ns: it is \d+, but record \d+ has the time \d+`},
	{"a row of a record that is not applied", `UPDATE exchange_state SET applied_seq = applied_seq - 1`, "history",
		`it is of record \d+, but the tables include only those up to`},
	{"an open order gone", `DELETE FROM resting_orders WHERE id = (SELECT min(id) FROM resting_orders)`, "history",
		`resting_orders: .*order \d+ is missing: it should have account`},
	{"an open order's shares",
		`UPDATE resting_orders SET open = open + 1 WHERE id = (SELECT max(id) FROM resting_orders)`, "history",
		`resting_orders: .*order \d+ has .* open; it should have`},
	{"a closed order open",
		`INSERT INTO resting_orders SELECT id, account, sym, amount, limit_price, 1 FROM order_log WHERE id NOT IN ` +
			`(SELECT id FROM resting_orders) LIMIT 1`,
		"history", `resting_orders: .*order \d+ should not exist`},
	{"the view of orders",
		`CREATE OR REPLACE VIEW orders AS ` +
			`SELECT id, account, sym, 1.0 AS amount, 1.0 AS limit_price, 0.0 AS open, 1.0 AS executed, 0.0 AS canceled, time, ` +
			`time AS canceled_at, 'limit' AS type, 'GTC' AS tif, false AS post, NULL AS stp, false AS cod, ` +
			`NULL::bigint AS replaces, id AS first_id, 0.0 AS reduced, time AS time_ns, time AS canceled_at_ns, ` +
			`NULL COLLATE "C" AS ref, NULL AS why FROM order_log`,
		"history", `orders, id \d+: executed is 1.0, its executions sum up to`},
	{"an account's events", `UPDATE accounts SET n = n + 1 WHERE id = '2'`, "history",
		`accounts, id 2: n is \d+, but the account has \d+ events`},
	{"a trade's number", `UPDATE execution_log SET trade = trade + 1
		WHERE (order_id, n) = (SELECT order_id, n FROM execution_log ORDER BY order_id DESC LIMIT 1)`, "history",
		`execution_log, order_id \d+, n \d+: trade, taker_fill and resting_fill are \d+, \d+ and \d+; counted are`},
	{"why it was canceled", `UPDATE cancel_log SET why = 4 WHERE seq = (SELECT max(seq) FROM cancel_log)`, "history",
		`cancel_log, order_id \d+: order \d+ is canceled for reason`},
	{"a candle", `UPDATE candles SET high = high + 1 WHERE ctid = (SELECT max(ctid) FROM candles)`, "history",
		`candles, sym [AB], seconds \d+, start \d+: it has .*; its executions sum up to`},
	{"an account's orders", `DELETE FROM placed_log WHERE ctid = (SELECT max(ctid) FROM placed_log)`, "history",
		`placed_log, all rows: they have \d+ orders, but order_log has \d+`},
	{"what was traded", `UPDATE market SET shares = shares + 0.00000001 WHERE sym = 'A'`, "history",
		`market, sym A: it has \d+ trades of .*; its executions sum up to \d+ trades of`},
	{"the last price", `UPDATE market SET last_price = last_price + 1 WHERE sym = 'B'`, "history",
		`market, sym B: it has`},
	{"a symbol that was never traded", `INSERT INTO market VALUES ('C', 1, 1, 1, 1, 1)`, "history",
		`market, sym C: it has 1 trades of .*; its executions sum up to nothing`},
	{"a ref of no order", `UPDATE refs SET order_id = 999999 WHERE seq = (SELECT max(seq) FROM refs)`, "history",
		`refs, account \d, ref \S+: it is of record \d+ and of order 999999; that of account none is record 0`},
	{"a ref of another order",
		`UPDATE refs SET order_id = (SELECT min(id) FROM order_log) WHERE seq = (SELECT max(seq) FROM refs)`, "history",
		`refs, account \d, ref \S+: .*; that of account \d is record \d+`},
	{"a ref of another account", `UPDATE refs SET account = '6' WHERE account = '5' AND ref = 'A'`, "history",
		`refs, account 6, ref A: it is of record \d+ and of order none; that of account 5 is record \d+`},
	{"two refs of one record",
		`INSERT INTO refs SELECT account, 'more', seq, order_id FROM refs WHERE ref = 'B' AND account = '1'`, "history",
		`placement_log, seq \d+: it is of record \d+, which another row has too`},
	{"a balance", `UPDATE accounts SET balance = balance + 0.0000000000000001 WHERE id = '3'`, "money",
		`account 3 has (\S+) free, \S+ held; it should have`},
	{"two balances that still add up",
		`UPDATE accounts SET balance = balance + CASE id WHEN '1' THEN 1 ELSE -1 END WHERE id IN ('1', '2')`, "money",
		`account 1 has`},
	{"a position gone", `DELETE FROM positions WHERE account = '4' AND sym = 'B'`, "money",
		`position of account 4 in B is missing`},
	{"a position", `UPDATE positions SET shares = shares - 0.00000001 WHERE account = '2' AND sym = 'A'`, "money",
		`position of account 2 in A has`},
	{"a placement", `UPDATE placement_log SET shares = shares + 1 WHERE seq = (SELECT min(seq) FROM placement_log)`,
		"money", `symbol A has|position of account`},
	{"the sum of placements", `UPDATE symbols SET placed = placed + 1 WHERE sym = 'B'`, "money",
		`symbol B has 5001\.00000005 placed; it should have 5000\.00000005 placed`},
	{"how many executions an account has", `UPDATE accounts SET fills = fills + 1 WHERE id = '2'`, "history",
		`accounts, id 2: fills is \d+, but the account has \d+ executions`},
	{"the executions of an account", `UPDATE fill_log SET fills = set_byte(fills, 1, get_byte(fills, 1) # 2)
		WHERE (account, last) = (SELECT account, max(last) FROM fill_log WHERE account = '2' GROUP BY 1)`, "history",
		`fill_log, account 2: its rows end`},
	{"executions gone", `DELETE FROM fill_log
		WHERE (account, last) = (SELECT account, max(last) FROM fill_log WHERE account = '3' GROUP BY 1)`, "history",
		`fill_log, account 3: its rows end`},
	{"another ref than the order's", `UPDATE refs SET ref = 'x' WHERE seq = (SELECT max(seq) FROM refs)`, "history",
		`order_log, id \d+: its ref is "\w{16}", but that of its record is "x"`},
	{"a ref gone that the order has", `DELETE FROM refs WHERE seq = (SELECT max(seq) FROM refs)`, "history",
		`order_log, id \d+: its ref is "\w{16}", but that of its record is ""`},
	{"another ref", `UPDATE order_log SET ref = 'x' WHERE seq = (SELECT max(seq) FROM refs);
		UPDATE refs SET ref = 'x' WHERE seq = (SELECT max(seq) FROM refs)`, "records",
		`order_log, id \d+: it says .*; ref x \(time [\d.]+\); journal record \d+ says .*; ref \w{16} \(time`},
	{"a ref gone", `UPDATE order_log SET ref = '' WHERE seq = (SELECT max(seq) FROM refs);
		DELETE FROM refs WHERE seq = (SELECT max(seq) FROM refs)`, "records",
		`order_log, id \d+: it says [^;]*(; filled [^;]*)* \(time [\d.]+\); journal record \d+ says .*; ref \w{16} \(time`},
	{"nanoseconds",
		`UPDATE order_log SET nanos = abs(nanos - 1) WHERE seq = (SELECT max(seq) FROM order_log o WHERE NOT EXISTS ` +
			`(SELECT FROM execution_log WHERE order_id = o.id))`,
		"records", `order_log, id \d+: it says .*\(time [\d.]+\); journal record \d+ says`},
	{"instructions",
		`UPDATE order_log SET instructions = 48 WHERE id = (SELECT max(id) FROM order_log o WHERE NOT EXISTS ` +
			`(SELECT FROM resting_orders WHERE id = o.id) AND NOT EXISTS (SELECT FROM cancel_log WHERE order_id = o.id))`,
		"(history|records)", `\w+_log, (order_)?id \d+`},
	{"a time",
		`UPDATE order_log SET time = time - 1 WHERE seq = (SELECT max(seq) FROM order_log o WHERE NOT EXISTS (SELECT ` +
			`FROM execution_log WHERE order_id = o.id))`,
		"records", `order_log, id \d+: it says .*\(time [\d.]+\); journal record \d+ says`},
}

func TestVerifyNamesWhatIsWrongFirst(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	whole := live(t)
	require.NotEqual(t, "00000000000000000001.seg", filepath.Base(whole.segments(t)[0]), "the journal has let history go")
	stdout, stderr, status := whole.verified()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, fmt.Sprintf("state    seq %d, digest %s\n", whole.last.Seq, whole.last.Digest))
	require.Equal(t, 5, strings.Count(stdout, ": ok\n"), stdout)
	again, _, _ := whole.verified()
	require.Equal(t, stdout, again, "it changes nothing")
	restore := kept(t, whole.database)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, harm := range budget.Sample(seed, harms) {
		t.Run(harm.name, func(t *testing.T) {
			execute(t, whole.database, harm.sql)
			defer restore()
			stdout, stderr, status := whole.verified()
			require.Equal(t, cli.ExitError, status, stdout+stderr)
			require.Regexp(t, "(?m)^"+harm.check+" +not ok$", stdout)
			require.Regexp(t, "^outcry: "+harm.check+": .*"+harm.want, stderr)
		})
	}
	_, stderr, status = whole.verified()
	require.Equal(t, cli.ExitOK, status, "all harm is undone: %s", stderr)
}
