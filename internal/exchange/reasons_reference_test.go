package exchange

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestReferenceOfReasons generates docs/reference/REASONS.md from the reasons, each with an
// example of its text.
func TestReferenceOfReasons(t *testing.T) {
	command := Command{Kind: CancelOrder, Account: "1", Symbol: "SPY", Order: 5, Ref: "r7"}
	command.Side = Buy
	var err error
	command.Balance, err = ParseBalance("1000")
	require.NoError(t, err)
	command.Deposited, err = ParseDeposit("50")
	require.NoError(t, err)
	_, command.Shares, err = ParseAmount("100")
	require.NoError(t, err)
	command.Limit, err = ParseLimit("145.67")
	require.NoError(t, err)
	least, err := ParseBalance("20000")
	require.NoError(t, err)
	_, could, err := ParseAmount("40")
	require.NoError(t, err)
	_, lot, err := ParseAmount("8")
	require.NoError(t, err)
	best, err := ParseLimit("145.5")
	require.NoError(t, err)
	tick, err := ParseLimit("0.05")
	require.NoError(t, err)
	since := time.Date(2026, 11, 21, 20, 42, 0, 0, time.UTC).UnixNano()
	result := Result{Order: 5, SharesHave: command.Deposited, CashHave: command.Balance, Most: 1000000,
		Details: &RejectDetails{Least: &least, Halt: &Halt{Since: since, Reason: "news is out"},
			Could: could, Executed: could, Best: best, Needs: Notional(command.Shares, command.Limit),
			Rules: SymbolRules{Tick: tick, Lot: lot}}}

	mistakes, temporary := [][]string{{"name", "text"}}, [][]string{{"name", "text"}}
	for r := OK + 1; r < rejectReasons; r++ {
		result.Reason = r
		c := command
		result.Details.Bound, result.Details.Reason = "", ""
		switch r {
		case OutsideBand:
			result.Details.Bound = "140"
		case OrderTooLarge:
			result.Details.Bound = "50"
		case NotionalExceeded:
			result.Details.Bound = "10000"
		case NotReadYet:
			result.Details.Reason = "node 2"
		case UnknownOrder:
			c.Ref = "" // most clients name the order by its id
		case TooManyCancels:
			c.Kind = 0 // an operator's request
		}
		row := []string{"`" + r.String() + "`", "`" + result.Text(&c) + "`"}
		if r.IsRefusal() {
			temporary = append(temporary, row)
		} else {
			mistakes = append(mistakes, row)
		}
	}
	require.NoError(t, doctest.Reference("../../docs/reference/REASONS.md", `# Reasons

Made by `+"`make reference` from `internal/exchange/reasons.go`"+`. Metrics and programs know a
reason by its name, which never changes. Texts are for people and may change; what is in an
attribute is escaped as XML. [PROTOCOL](../PROTOCOL.md#errors) has the errors of malformed values.

## The client's mistake

`+doctest.Table(mistakes)+`
## Temporarily unavailable

The same command may be accepted later.

`+doctest.Table(temporary), *update))
}
