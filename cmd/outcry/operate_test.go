package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
	"outcry/internal/testing/exchangetest"
)

// TestAnOperatorsNight operates an exchange from the shell, and then prints and verifies the stopped
// exchange's data.
func TestAnOperatorsNight(t *testing.T) {
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database, "--http=127.0.0.1:0")
	t.Setenv("OUTCRY_ADDR", p.Addr)
	t.Setenv("OUTCRY_HTTP_ADDR", p.Http)
	for _, step := range []struct {
		args   string
		want   string
		status int
	}{
		{"account 1 20000", "account 1 opened\n", 0},
		{"place SPY 1 500", "500 SPY placed with account 1\n", 0},
		{"place QQQ 1 500", "500 QQQ placed with account 1\n", 0},
		{"sell 1 SPY 100 123.45", "order 1 sells 100 SPY at 123.45\n", 0},
		{"sell 1 SPY 0.5 124", "order 2 sells 0.5 SPY at 124\n", 0},
		{"buy 1 QQQ 3 7", "order 3 buys 3 QQQ at 7\n", 0},
		{"halt SPY news is out", "symbol SPY is halted since T: news is out\n", 0},
		{"halt SPY other news", "symbol SPY was halted before, since T: news is out\n", 0},
		{"halt NONE", "error: there is no symbol NONE\n", 1},
		{"halt --json NONE", "{\n  \"error\": \"there is no symbol NONE\"\n}\n", 1},
		{"buy 1 SPY 1 1",
			"error: symbol SPY is halted since T and accepts no orders; cancel and query work: news is out\n", 1},
		{"cancel-all 1 QQQ", "1 order of account 1 canceled\n  QQQ      1 order, 3 shares\n", 0},
		{"cancel-all 1", "2 orders of account 1 canceled\n  SPY      2 orders, 100.5 shares\n", 0},
		{"cancel-all 1", "account 1 had no open orders\n", 0},
		{"cancel-all 9", "error: there is no account 9\n", 1},
		{"query 1 1", "order 1\n  canceled  100  T\n", 0},
		{"halt QQQ", "symbol QQQ is halted since T\n", 0},
		{"resume QQQ", "symbol QQQ accepts orders again; it was halted since T\n", 0},
		{"resume QQQ", "symbol QQQ was not halted\n", 0},
		{"resume --json QQQ", "{\n  \"sym\": \"QQQ\",\n  \"changed\": false\n}\n", 0},
	} {
		got, stderr, status := outcry("", strings.Fields(step.args)...)
		require.Equal(t, step.want, got, "%s: %s", step.args, stderr)
		require.Equal(t, step.status, status, step.args)
	}
	got, stderr, status := outcry("", "status")
	require.Equal(t, cli.ExitOK, status, stderr)
	for _, line := range []string{`ready +yes, for \S+`, `version +\S.*`,
		`journal +13 records, 13 of them synced; \d+ segments?, ready for \S+ KiB more`,
		`postgres +up, at record \d+, behind by \d+ records?, \S+`, `books +1 account, 2 symbols, 0 orders open`,
		`halted +1 symbol`, ` +SPY since T: news is out`,
		`disk +\S+ .iB of \S+ .iB free`, `memory +\S+ MiB`} {
		require.Regexp(t, regexp.MustCompile(`(?m)^`+line+`$`), got)
	}
	require.Less(t, strings.Count(got, "\n"), 25, "one screen")
	p.Stop()
	_, stderr, status = outcry("", "status")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "is the exchange running, with an HTTP side at "+p.Http+"?")

	got, _, _ = outcry("", "journal", data)
	require.Contains(t, got, `9 T symbol SPY halted: news is out
10 T all orders of account 1 canceled; order 3, 3 QQQ were open
11 T all orders of account 1 canceled; order 1, 100 SPY were open; order 2, 0.5 SPY were open
12 T symbol QQQ halted: 
13 T symbol QQQ resumed
`)
	got, stderr, status = outcry("", "verify", "--database-url="+database, data)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, got,
		"13 records replayed: 3 orders with 0 executions, 3 cancels; open at the end: 0 orders; 6 refs, each of one "+
			"record: ok")
	for damage, want := range map[string]string{
		`UPDATE symbols SET halted_at = NULL, halt_reason = NULL`: `symbol SPY has 500 placed; ` +
			`it should have 500 placed, halted since`,
		`UPDATE symbols SET halt_reason = 'x' WHERE sym = 'SPY'`:     `symbol SPY has 500 placed, halted since`,
		`UPDATE halt_log SET reason = 'x' WHERE seq = 9`:             `it should have 500 placed, halted since`,
		`UPDATE halt_log SET time = time - 1 WHERE seq = 12`:         `halt_log, seq 12: it says symbol QQQ halted`,
		`UPDATE cancel_log SET shares = 99000000 WHERE order_id = 2`: `order 2`,
	} {
		t.Run(damage, func(t *testing.T) {
			execute(t, database,
				`CREATE TABLE kept_symbols AS TABLE symbols; CREATE TABLE kept_halts AS TABLE halt_log; `+
					`CREATE TABLE kept_cancels AS TABLE cancel_log; `+damage)
			_, stderr, status := outcry("", "verify", "--database-url="+database, data)
			execute(t, database, `TRUNCATE symbols, halt_log, cancel_log;
				INSERT INTO symbols TABLE kept_symbols; INSERT INTO halt_log TABLE kept_halts;
				INSERT INTO cancel_log TABLE kept_cancels; DROP TABLE kept_symbols, kept_halts, kept_cancels`)
			require.Equal(t, cli.ExitError, status, stderr)
			require.Contains(t, stderr, want)
		})
	}
}

func TestWrongOperationsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"halt":                "halt: SYM is missing",
		"resume A B":          "resume takes 1 argument, not 2",
		"status now":          "status takes no arguments, not 1",
		"halt SPY --jsn":      "unknown flag --jsn; is --json meant?",
		"cancel-all --nope 1": "unknown flag --nope",
	} {
		_, stderr, status := outcry("", strings.Fields(args)...)
		require.Equal(t, cli.ExitUsage, status, args)
		require.Contains(t, stderr, want, args)
	}
	_, stderr, status := outcry("", "cancel-all", "1", "")
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "without one everything is canceled")
	stdout, _, status := outcry("", "cancel-all", "--help")
	require.Equal(t, cli.ExitOK, status)
	require.Contains(t, stdout, "Usage: outcry cancel-all [flags] ACCOUNT [SYM]")
}

// TestAnExchangeInTroubleSaysSo prints the statuses of an exchange that is not healthy.
func TestAnExchangeInTroubleSaysSo(t *testing.T) {
	var b strings.Builder
	o := &operator{stdout: &b}
	o.printStatus(&remote.Status{Version: "v", Why: "its disk is full", MemoryBytes: 3 << 30,
		Disk: &remote.Disk{Available: 100, Size: 2 << 40},
		Exchange: &remote.Exchange{
			Journal: remote.Journal{Appended: 1_000_007, Synced: 1_000_000, Segments: 2, RoomBytes: 1536,
				NoRoom: "no space left"},
			Postgres: remote.Postgres{Applied: 7, LagRecords: 1_000_000, LagSeconds: 754.2},
			Load: &remote.Load{OrdersPerSecond: 1234.4, RequestsPerSecond: 99.6, P50Seconds: 0.00123, P99Seconds: 1.5,
				Connections: 3, Limits: []remote.LimitHit{{Limit: "memory", Count: 7, Last: o.now.Unix() - 90}}},
			Accounts: 1, Symbols: 1, OpenOrders: 1, HaltedSymbols: 102, Halted: []remote.HaltedSymbol{{Sym: "A"}},
			MarketData: "it has failed"}})
	require.Equal(t, `ready     NO: its disk is full
version   v
journal   1000007 records, 1000000 of them synced; 2 segments, ready for 1.5 KiB more
          NO ROOM: no space left
postgres  DOWN, at record 7, behind by 1000000 records, 13m0s
load      1234 orders/s, 100 requests/s, 3 connections, p50 1.23ms, p99 1.5s
limit     memory was hit 7 times, the last time 1m30s ago
books     1 account, 1 symbol, 1 order open
halted    102 symbols
          A since 1970-01-01T00:00:00Z
          and 101 more
market    NO DATA: it has failed
disk      100 B of 2 TiB free
memory    3 GiB
`, b.String())
}
