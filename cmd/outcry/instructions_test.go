package main

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/exchangetest"
)

// TestATradersDay trades from the shell with every instruction that an order can have, and then inspects the
// accounts.
func TestATradersDay(t *testing.T) {
	p := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t), "--http=127.0.0.1:0")
	t.Setenv("OUTCRY_ADDR", p.Addr)
	t.Setenv("OUTCRY_HTTP_ADDR", p.Http)
	steps(t, []step{
		{"account 1 20000", "account 1 opened\n", 0},
		{"account 2 0", "account 2 opened\n", 0},
		{"place 2 SPY 500", "500 SPY placed with account 2\n", 0},
		{"account 1", "account 1 has 20000 free, 0 held\n", 0},
		{"account 9", "error: there is no account 9\n", 1},
		{"buy 1 SPY 10 --market", "error: no sell orders for SPY\n", 1},
		{"sell 2 SPY 100 10 --ref first --post", "order 1 sells 100 SPY at 10\n", 0},
		{"buy 1 SPY 10 10 --post", "error: limit 10 would execute at once: the best sell is 10\n", 1},
		{"buy 1 SPY 10 --market --full", "order 2 buys 10 SPY at market\n  executed  10 at 10  T\n", 0},
		{"buy 1 SPY 10 11 --market", "order 3 buys 10 SPY at 11\n", 0},
		{"buy 1 SPY 101 10 --tif FOK", "error: 101 SPY at 10 cannot be filled at once: 80 could\n", 1},
		{"sell 2 SPY 50 12", "order 4 sells 50 SPY at 12\n", 0},
		{"buy 1 SPY 100 11 --tif IOC --full",
			"order 5 buys 100 SPY at 11\n  canceled  20  T\n  executed  80 at 10  T\n", 0},
		{"sell 2 SPY 30 13 --ref second", "order 6 sells 30 SPY at 13\n", 0},
		{"amend 2 4 --amount -40", "order 4 is amended\n  open      40\n  reduced   10  T\n", 0},
		{"amend 2 --ref second --limit 14 --new-ref third --full", "order 6 is replaced by order 7\n  open      30\n", 0},
		{"amend 2 --ref second --limit 14 --new-ref third --full", "order 6 is replaced by order 7\n  open      30\n", 0},
		{"amend 2 --ref second --limit 15 --new-ref third",
			"error: account 2 has used ref third before, for something else\n", 1},
		{"query 2 6", "order 6\n  canceled  30  T\n  replaced  by order 7\n", 0},
		{"query 2 --ref second", "order 7\n  open      30\n", 0},
		{"amend 2 4 --amount -5 --limit 10.5", "order 4 is replaced by order 8\n", 0},
		{"buy 2 SPY 1 10.5 --stp newest --full", "order 9 buys 1 SPY at 10.5\n  canceled  1  T\n", 0},
		{"orders 2", "order 7 sells 30 SPY at 14, 30 open  T\norder 8 sells 5 SPY at 10.5, 5 open  T\n", 0},
		{"fills 1", "fill 1  order 2 bought 10 SPY at 10  T\nfill 2  order 3 bought 10 SPY at 10  T\n" +
			"fill 3  order 5 bought 80 SPY at 10  T\n", 0},
		{"fills 2 --after 2", "fill 3  order 1 sold 80 SPY at 10  T\n", 0},
		{"account 2", "account 2 has 1000 free, 0 held\n  SPY      365 free, 35 held\n", 0},
		{"cancel-after 2 60", "all orders of account 2 are canceled after 1m0s\n", 0},
		{"cancel-after 2 0", "the dead man's switch of account 2 is off\n", 0},
		{"cancel --all 2 --sym QQQ", "error: there is no symbol QQQ\n", 1},
		{"cancel --all 2", "2 orders of account 2 canceled\n", 0},
		{"orders 2", "", 0},
	})
}

// TestAnOperatorsRules sets rules from the shell, and places orders that break them.
func TestAnOperatorsRules(t *testing.T) {
	p := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t), "--http=127.0.0.1:0")
	t.Setenv("OUTCRY_ADDR", p.Addr)
	t.Setenv("OUTCRY_HTTP_ADDR", p.Http)
	steps(t, []step{
		{"account 1 20000", "account 1 opened\n", 0},
		{"symbol SPY", "symbol SPY made\n", 0},
		{"symbol NONE --tick 5", "error: there is no symbol NONE\n", 1},
		{"buy 1 SPY 1 10.003", "order 1 buys 1 SPY at 10.003\n", 0},
		{"symbol SPY --tick 0.01 --band 50%",
			"error: order 1 rests at 10.003, which is not a multiple of the tick 0.01\n", 1},
		{"cancel 1 1", "order 1\n  canceled  1  T\n", 0},
		{"symbol SPY --tick 0.01 --lot 2 --band 50%",
			"symbol SPY has new rules\n  tick 0.01, lot 2, protect 10%, band 50%\n", 0},
		{"symbol SPY --band 50%", "symbol SPY had these rules before\n  tick 0.01, lot 2, protect 10%, band 50%\n", 0},
		{"symbol SPY --json", `{
  "sym": "SPY",
  "changed": false,
  "tick": "0.01",
  "lot": "2",
  "protect": "10%",
  "band": "50%"
}
`, 0},
		{"symbol SPY", "symbol SPY made\n", 0},
		{"buy 1 SPY 2 10.003", "error: limit 10.003 is not a multiple of the tick 0.01\n", 1},
		{"buy 1 SPY 1 10", "error: amount 1 is not a multiple of the lot 2\n", 1},
		{"limits 1", "account 1 has the rules\n  shares none, notional none, open none, stp none\n", 0},
		{"limits 1 --shares 10 --notional 100 --open 1 --stp both", "account 1 has new rules\n" +
			"  shares 10, notional 100, open 1, stp both\n", 0},
		{"limits 9 --open 1", "error: there is no account 9\n", 1},
		{"buy 1 SPY 12 1", "error: 12 shares are more than account 1 may place in an order: 10\n", 1},
		{"buy 1 SPY 10 10.01", "error: 100.1 is more than account 1 may place in an order: 100\n", 1},
		{"buy 1 SPY 10 10", "order 2 buys 10 SPY at 10\n", 0},
		{"limits 1 --open none", "account 1 has new rules\n  shares 10, notional 100, open none, stp both\n", 0},
		{"block 1 under inquiry", "account 1 is blocked since T: under inquiry\n1 order of account 1 canceled\n" +
			"  SPY      1 order, 10 shares\n", 0},
		{"block 1", "account 1 was blocked before, since T: under inquiry\naccount 1 had no open orders\n", 0},
		{"buy 1 SPY 10 10",
			"error: account 1 is blocked and cannot place or amend orders; cancel and query work: under inquiry\n", 1},
		{"limits 1", "account 1 has the rules\n  shares 10, notional 100, open none, stp both\n" +
			"  blocked since T: under inquiry\n", 0},
		{"unblock 1", "account 1 may order again; it was blocked since T: under inquiry\n", 0},
		{"unblock 1", "account 1 was not blocked\n", 0},
		{"buy 1 SPY 10 10", "order 3 buys 10 SPY at 10\n", 0},
		{"block 9", "error: there is no account 9\n", 1},
	})
}

// TestOrdersAreShownBehindAnEmptyPage: orders after an empty page are listed. The exchange scans at most
// 20,000 orders for a page.
func TestOrdersAreShownBehindAnEmptyPage(t *testing.T) {
	p := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t))
	t.Setenv("OUTCRY_ADDR", p.Addr)
	steps(t, []step{
		{"account 1 100000", "account 1 opened\n", 0},
		{"symbol SPY", "symbol SPY made\n", 0},
		{"symbol QQQ", "symbol QQQ made\n", 0},
	})
	c, err := api.Dial(t.Context(), p.Addr, api.Options{})
	require.NoError(t, err)
	defer c.Close()
	frame := make([]api.Command, 603)
	for i := range frame {
		frame[i] = api.Buy("1", "QQQ", api.Whole(1), api.Whole(1))
	}
	for range 34 {
		results, err := c.Do(t.Context(), frame...)
		require.NoError(t, err)
		require.NoError(t, results[len(frame)-1].Err())
	}
	steps(t, []step{
		{"buy 1 SPY 2 1", "order 20503 buys 2 SPY at 1\n", 0},
		{"orders 1 SPY", "order 20503 buys 2 SPY at 1, 2 open  T\n", 0},
	})
}

// TestAListThatDoesNotGoOnIsAnError: if an exchange sends the same page twice, the client stops with an error.
func TestAListThatDoesNotGoOnIsAnError(t *testing.T) {
	addr := playing(t, func(conn net.Conn) {
		frames := wire.NewFrameReader(conn, 1<<20)
		for _, err := frames.Next(); err == nil; _, err = frames.Next() {
			_, _ = conn.Write(wire.AppendFrame(nil, []byte(`<results><orders><more after="7"/></orders></results>`)))
		}
	})
	_, stderr, status := outcry("", "orders", "--addr="+addr, "1", "SPY")
	require.Equal(t, 1, status, stderr)
	require.Contains(t, stderr, "not an answer from an exchange")
}

// step is a command line with its expected output and exit status.
type step struct {
	args, want string
	status     int
}

func steps(t *testing.T, all []step) {
	t.Helper()
	for _, s := range all {
		got, stderr, status := outcry("", strings.Fields(s.args)...)
		require.Equal(t, s.want, got, "%s: %s", s.args, stderr)
		require.Equal(t, s.status, status, s.args)
	}
}

func TestWrongInstructionsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"buy 1 SPY 5":                     "buy: LIMIT is missing",
		"buy 1 SPY 5 1 --tif ioc":         `"ioc" is not one of ["GTC" "IOC" "FOK"]`,
		"buy 1 SPY 5 1 --stp x":           `"x" is not one of ["newest" "oldest" "both"]`,
		"buy --market 1 SPY 5 1 1":        "takes 4 arguments, not 5",
		"amend 1 2":                       "--amount or --limit is missing",
		"amend 1 2 --amount 0":            `"0" is 0; cancel the order instead`,
		"amend 1 2 --amount x":            `"x" is not a decimal number`,
		"amend 1 --limit 5":               "amend: ORDER is missing",
		"cancel 1":                        "cancel: ORDER is missing",
		"cancel 1 --all=false":            "--all is missing",
		"cancel 1 7 --sym A":              "--all is missing",
		"cancel 1 --all --ref r":          "exclude each other",
		"cancel 1 --all 7":                "cancel with --all takes 1 argument, not 2",
		"cancel 1 --all --sym=":           "without it everything is canceled",
		"cancel-after 1 60s":              `"60s" is not a number of seconds`,
		"fills 1 --after -1":              "--after",
		"block":                           "block: ACCOUNT is missing",
		"symbol SPY --tick=":              "--tick is empty",
		"limits 1 --open=":                "--open is empty",
		"limits":                          "limits: ACCOUNT is missing",
		"symbol SPY --http 8080 --tick 5": "--http: that is a port without a host",
	} {
		_, stderr, status := outcry("", strings.Fields(args)...)
		require.Equal(t, cli.ExitUsage, status, args)
		require.Contains(t, stderr, want, args)
	}
}
