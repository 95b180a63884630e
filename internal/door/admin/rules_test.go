package admin

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestRulesAnswerWhatTheyCameTo checks the answer and the log for each possible result of blocks, rules of symbols and
// limits of accounts.
func TestRulesAnswerWhatTheyCameTo(t *testing.T) {
	var log bytes.Buffer
	o, x := options(), new(fakeExchange)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Exchange = func() Exchange { return x }
	s := serve(t, o)
	fraud := exchange.Halt{Since: 7*exchange.Second + 5, Reason: "fraud"}
	ruled := exchange.SymbolRules{Tick: 1e6, Lot: 1e8, Protect: 5e6, Band: 2e7}
	bounds := exchange.AccountRules{Block: &fraud, STP: exchange.CancelBoth, SharesMax: 5e8, OpenMax: 7}
	bounds.NotionalMax, _ = exchange.ParseBalance("100.5")
	const held = `"tick":"0.01","lot":"1","protect":"5%","band":"20%"}`
	const none = `"changed":false,"shares":"none","notional":"none","open":"none","stp":"none"}`
	for _, c := range []struct {
		came   fakeExchange
		path   string
		status int
		want   string
		logged string
	}{
		{fakeExchange{block: exchange.BlockResult{Changed: true, Block: fraud,
			Canceled: exchange.CancelAllResult{Time: 9 * exchange.Second, Symbols: []exchange.CanceledIn{
				{Symbol: "A", Orders: 2, Shares: exchange.Shares(15e7).Position()}}}}}, "block?account=1&reason=fraud", 200,
			`{"account":"1","changed":true,"blocked":{"time":7,"reason":"fraud"},` +
				`"canceled":{"account":"1","time":9,"orders":2,"symbols":[{"sym":"A","orders":2,"shares":"1.5"}]}}`,
			"an account is blocked"},
		{fakeExchange{block: exchange.BlockResult{Block: fraud,
			Canceled: exchange.CancelAllResult{Reason: exchange.NoRoomToCancel}}}, "block?account=1", 200,
			`{"account":"1","changed":false,"blocked":{"time":7,"reason":"fraud"}}`, ""},
		{fakeExchange{block: exchange.BlockResult{Changed: true, Block: fraud}}, "unblock?account=1", 200,
			`{"account":"1","changed":true,"ended":{"time":7,"reason":"fraud"}}`, "may order again"},
		{fakeExchange{}, "unblock?account=1", 200, `{"account":"1","changed":false}`, ""},
		{fakeExchange{block: exchange.BlockResult{Reason: exchange.UnknownAccount}}, "block?account=9", 404,
			`{"error":"there is no account 9"}`, ""},
		{fakeExchange{block: exchange.BlockResult{Reason: exchange.NotReadYet, Text: "node 3 is old"}},
			"unblock?account=9", 503,
			`{"error":"not every node of the cluster can read what this would write: node 3 is old"}`, ""},

		{fakeExchange{}, "symbol?sym=S", 200, `{"sym":"S","changed":false,"tick":"0.00000001","lot":"0.00000001",` +
			`"protect":"10%","band":"none"}`, ""},
		{fakeExchange{}, "symbol?sym=S&tick=0.01&lot=1&protect=5%25&band=20%25", 200, `{"sym":"S","changed":true,` + held,
			"the rules of a symbol are changed"},
		{fakeExchange{symbol: exchange.SymbolRulesResult{Rules: ruled}}, "symbol?sym=S&tick=0.01", 200,
			`{"sym":"S","changed":false,` + held, ""},
		{fakeExchange{symbol: exchange.SymbolRulesResult{Rules: ruled}}, "symbol?sym=S&band=none&lot=0.5", 200,
			`{"sym":"S","changed":true,"tick":"0.01","lot":"0.5","protect":"5%","band":"none"}`, "lot=0.5"},
		{fakeExchange{symbol: exchange.SymbolRulesResult{Reason: exchange.OffTick, Misfit: 7, MisfitLimit: 100_003e5}},
			"symbol?sym=S&tick=0.01", 409, `{"error":"order 7 rests at 100.003, which is not a multiple of the tick 0.01"}`, ""},
		{fakeExchange{symbol: exchange.SymbolRulesResult{Reason: exchange.UnknownSymbol}}, "symbol?sym=S&tick=5", 404,
			`{"error":"there is no symbol S"}`, ""},

		{fakeExchange{}, "limits?account=1", 200, `{"account":"1",` + none, ""},
		{fakeExchange{}, "limits?account=1&shares=5&notional=100.5&open=7&stp=both", 200, `{"account":"1","changed":true,` +
			`"shares":"5","notional":"100.5","open":"7","stp":"both"}`, "the limits of an account are changed"},
		{fakeExchange{account: exchange.AccountRulesResult{Rules: bounds}}, "limits?account=1&shares=5&stp=none", 200,
			`{"account":"1","changed":true,"shares":"5","notional":"100.5","open":"7","stp":"none",` +
				`"blocked":{"time":7,"reason":"fraud"}}`, "stp=none"},
		{fakeExchange{account: exchange.AccountRulesResult{Reason: exchange.NoRoomToCancel}}, "limits?account=1&open=1", 503,
			`{"error":"the disk has no room for the journal, and the reserve is used up; nothing is changed"}`, ""},
		{fakeExchange{err: errors.New("the disk is gone")}, "limits?account=1&open=1", 503,
			`{"error":"whether it was done is unknown; repeat the request: the disk is gone"}`, "level=ERROR"},
	} {
		*x = c.came
		log.Reset()
		response, body := do(t, s, "POST", "/admin/"+c.path, "")
		require.Equal(t, c.want+"\n", body, c.path)
		require.Equal(t, c.status, response.StatusCode, c.path)
		require.Equal(t, c.logged != "", log.Len() > 0, log.String())
		require.Contains(t, log.String(), c.logged)
	}
}

// unasked is an exchange that fails the test if it gets a change of rules.
type unasked struct{ fakeExchange }

func (*unasked) SetSymbolRules(
	context.Context, exchange.Symbol, func(*exchange.SymbolRules),
) (exchange.SymbolRulesResult, error) {
	panic("asked with a wrong value")
}

func (*unasked) SetAccountRules(
	context.Context, exchange.AccountID, func(*exchange.AccountRules),
) (exchange.AccountRulesResult, error) {
	panic("asked with a wrong value")
}

// TestWrongRulesAreNamed: the error names the wrong rule, and the request's valid rules are not changed either.
func TestWrongRulesAreNamed(t *testing.T) {
	o := options()
	o.Exchange = func() Exchange { return new(unasked) }
	s := serve(t, o)
	for path, want := range map[string]string{
		"block":                            `account id`,
		"block?account=x":                  `account id \"x\" is not made of digits`,
		"block?account=1&reason=a%0ab":     "reason",
		"block?account=1&sym=A":            "unknown parameter; the known ones are",
		"unblock?account=":                 "account is empty",
		"symbol?tick=1":                    `symbol \"\" is not`,
		"symbol?sym=A&tick=0&lot=1":        `tick: limit \"0\" is not more than 0`,
		"symbol?sym=A&lot=-1":              `lot: \"-1\" is not more than 0`,
		"symbol?sym=A&protect=10":          `protect: \"10\" is not a number of percent`,
		"symbol?sym=A&protect=none":        `protect: \"none\" is not a number of percent`,
		"symbol?sym=A&band=2000%25":        `band: \"2000%\" is more than 1000%`,
		"symbol?sym=A&tick=1&tick=2":       "tick is given 2 times",
		"limits?account=1&shares=many":     `shares: amount \"many\" is not a decimal number`,
		"limits?account=1&notional=0":      `notional: \"0\" is not more than 0`,
		"limits?account=1&open=-1":         `open: \"-1\" is not a positive whole number`,
		"limits?account=1&open=1.5":        `open: \"1.5\" is not a positive whole number`,
		"limits?account=1&open=1&stp=None": `stp: stp \"None\" is not one of newest, oldest, both`,
	} {
		response, body := do(t, s, "POST", "/admin/"+path, "")
		require.Equal(t, 400, response.StatusCode, path)
		require.Contains(t, body, want, path)
	}
}
