package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/doctest"
)

// TestWhatClientsMayMakeIsBounded reaches each limit, and then lowers it below what exists.
func TestWhatClientsMayMakeIsBounded(t *testing.T) {
	m := open(t, Options{AccountsMax: 3, SymbolsMax: 3, OpenOrdersMax: 5, AccountOpenOrdersMax: 3})
	opening := func(id exchange.AccountID) exchange.Command {
		return exchange.Command{Kind: exchange.OpenAccount, Account: id}
	}
	require.Equal(t, exchange.OK, m.do(opening("3")).Reason)
	require.Equal(t, exchange.Result{Reason: exchange.AccountLimitExceeded, Most: 3}, m.do(opening("4")))
	require.Equal(t, exchange.AccountExists, m.do(opening("3")).Reason, "it exists already")
	making := func(sym exchange.Symbol) exchange.Command {
		return exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym}
	}
	require.Equal(t, exchange.OK, m.do(making("C")).Reason)
	require.Equal(t, exchange.Result{Reason: exchange.SymbolLimitExceeded, Most: 3}, m.do(making("D")))

	m.all(buy("A", 1, 1), buy("B", 1, 1), buy("A", 1, 2))
	require.Equal(t, exchange.Result{Reason: exchange.AccountOrdersExceeded, Most: 3}, m.do(buy("C", 1, 1)))
	m.all(sell("A", 1, 9), sell("B", 1, 9))
	require.Equal(t, exchange.Result{Reason: exchange.OpenOrdersExceeded, Most: 5}, m.do(sell("B", 1, 8)))
	require.Equal(t, exchange.OK, m.do(cancelOf(1, "1")).Reason)
	require.Equal(t, exchange.OK, m.do(sell("A", 1, 2)).Reason, "it closes another order")
	require.Equal(t, exchange.OK, m.do(sell("B", 1, 8)).Reason)

	m.SetLimits(Limits{ClosedOrdersMax: 10, BacklogMax: 10, AccountsMax: 1, SymbolsMax: 1, OpenOrdersMax: 1,
		AccountOpenOrdersMax: 1})
	require.Equal(t, exchange.Result{Reason: exchange.AccountOrdersExceeded, Most: 1}, m.do(buy("A", 1, 1)))
	require.Equal(t, exchange.AccountLimitExceeded, m.do(opening("4")).Reason)
	require.Equal(t, exchange.SymbolLimitExceeded, m.do(making("D")).Reason)
	require.EqualValues(t, 4, m.Stats().OpenOrders, "existing orders stay")
	for _, r := range m.all(queryOf(2), queryOf(4), making("C")) {
		require.Equal(t, exchange.OK, r.Reason)
	}
	m.agrees()

	// An engine that starts with lower limits also keeps everything.
	m.Close()
	state := exchange.NewState()
	for _, e := range m.events(1) {
		require.NoError(t, state.Apply(&e))
	}
	again := &market{New(Options{Journal: m.journal, State: state, AccountsMax: 1, SymbolsMax: 1, OpenOrdersMax: 1,
		AccountOpenOrdersMax: 1}), t, m.journal, m.dir}
	require.EqualValues(t, 4, again.Stats().OpenOrders)
	require.Equal(t, exchange.AccountOrdersExceeded, again.do(sell("A", 1, 9)).Reason)
	require.Equal(t, exchange.OK, again.do(cancelOf(4, "2")).Reason)
	m.Engine = again.Engine
}

func TestAnOrderHasToBeWorthSomething(t *testing.T) {
	least := exchange.Notional(10, 10)
	m := open(t, Options{OrderValueMin: least})
	require.Equal(t, exchange.OK, m.do(buy("A", 10, 10)).Reason)
	require.Equal(t, exchange.Result{Reason: exchange.OrderTooSmall, Details: &exchange.RejectDetails{Least: &least}},
		m.do(buy("A", 9, 11)))
	require.Equal(t, exchange.OrderTooSmall, m.do(sell("A", 1, 99)).Reason)
	m.SetLimits(Limits{ClosedOrdersMax: 10, BacklogMax: 1000})
	require.Equal(t, exchange.OK, m.do(sell("A", 1, 1)).Reason)
}

// TestARefusalForABoundUsesNoRef: a command rejected for a limit may use its ref later, and a repeat is never rejected
// for a limit.
func TestARefusalForABoundUsesNoRef(t *testing.T) {
	m := open(t, Options{AccountOpenOrdersMax: 1})
	first, second := buy("A", 1, 1), buy("A", 1, 1)
	first.Ref, second.Ref = "a", "b"
	require.Equal(t, exchange.Result{Order: 1}, m.do(first))
	require.Equal(t, exchange.AccountOrdersExceeded, m.do(second).Reason)
	require.Equal(t, exchange.Result{Order: 1}, m.do(first), "it is answered as before")
	m.do(cancelOf(1, "1"))
	require.Equal(t, exchange.Result{Order: 2}, m.do(second))
}

// TestBoundsAreTheDocumentedOnes checks that the documented values of bounds are those of the code. Other
// tests, most of which use the same names, check what each bound does.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	require.NoError(t, doctest.Bounds("../../docs/reference/BOUNDS.md", map[string][]string{
		"`partsUnsyncedMax`": {fmt.Sprint(partsUnsyncedMax)},
		"`keptMax`":          {thousands(keptMax)},
		"`turnWork`":         {fmt.Sprintf("%d commands", turnWork), fmt.Sprintf("%d fills count as one", fillsPerWork)},
		"`awakeMax`":         {thousands(awakeMax)},
		"`requestsMax`":      {thousands(requestsMax)},

		"`disconnectCancelsMax`": {fmt.Sprint(disconnectCancelsMax)},
		"`cancelAllsMax`":        {fmt.Sprintf("%d a second", cancelAllsMax)},
		"`keepEvery`":            {fmt.Sprintf("every %g s", keepEvery.Seconds())},
	}))
	require.LessOrEqual(t, readsWait, 5*time.Millisecond)
	require.LessOrEqual(t, betweenPartsMax, 256)
}
