package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAPrintedRecordHasAllThatItSays: the line of a record of version 4 has each of its fields.
func TestAPrintedRecordHasAllThatItSays(t *testing.T) {
	terms := exchange.Terms{Side: exchange.Buy, Limit: 2e8}
	market := exchange.Terms{Side: exchange.Buy, TIF: exchange.IOC, Type: exchange.Market, STP: exchange.CancelOldest,
		Limit: 2e8}
	post := exchange.Terms{Side: exchange.Buy, Post: true, STP: exchange.CancelNewest, Limit: 2e8}
	amend := &exchange.Amendment{First: 3, Amount: 7e8, Limit: 2e8, Executed: 1e8, Open: 4e8,
		Old: exchange.Cancel{Order: 8, Shares: 5e8}}
	for _, test := range []struct {
		event exchange.Event
		want  string
	}{
		{exchange.Event{Kind: exchange.OrderAccepted, Terms: terms}, "order 9 of account 1: buy 5 S at 2"},
		{exchange.Event{Kind: exchange.OrderAccepted, Terms: post, OnDisconnect: true},
			"order 9 of account 1: buy 5 S at 2, post, stp newest, cod"},
		{exchange.Event{Kind: exchange.OrderAccepted, Terms: market,
			Unsent: exchange.UnsentLimit | exchange.UnsentSTP, Hold: exchange.Notional(1e8, 3e8), Rest: 4e8,
			Fills: []exchange.Fill{{Resting: 4, Account: "2", Shares: 1e8, Price: 15e7}},
			Own:   []exchange.Cancel{{Order: 6, Shares: 2e8}}},
			"order 9 of account 1: buy 5 S at 2, market (the limit is the exchange's), IOC, " +
				"stp oldest (the account's default), holds 3 for further parts; filled 1 at 1.5 with order 4 of account 2; " +
				"canceled order 6 of the same account, 2 were open; 4 taken back"},
		{exchange.Event{Kind: exchange.OrderContinued, Terms: terms, Before: 2, Rest: 4e8},
			"order 9 of account 1 continues after 2 executions: buy 5 S at 2; 4 taken back"},
		{exchange.Event{Kind: exchange.OrderReduced, Amend: amend},
			"order 9 of account 1: 5 S removed, 4 open; amended to amount 7 limit 2, the chain of order 3 had executed 1"},
		{exchange.Event{Kind: exchange.OrderReplaced, Terms: terms, Amend: amend},
			"order 9 of account 1 replaces order 8, of which 5 S were open: buy 5 S at 2; amended to amount 7 limit 2, " +
				"the chain of order 3 had executed 1"},
		{exchange.Event{Kind: exchange.OrdersCanceled, Cancels: []exchange.Cancel{{Order: 6, Symbol: "S", Shares: 2e8}}},
			"all orders of account 1 canceled; order 6, 2 S were open"},
		{exchange.Event{Kind: exchange.OrdersCanceled, Cause: exchange.ByClient},
			"all orders of account 1 canceled by its client"},
		{exchange.Event{Kind: exchange.OrdersCanceled, Cause: exchange.BySwitch},
			"all orders of account 1 canceled by its dead man's switch, which is off now"},
		{exchange.Event{Kind: exchange.OrdersCanceled, Cause: exchange.ByDisconnect},
			"all orders of account 1 canceled that came over a connection which has ended"},
		{exchange.Event{Kind: exchange.OrdersCanceled, Cause: exchange.ByBlock},
			"all orders of account 1 canceled as it was blocked"},
		{exchange.Event{Kind: exchange.SymbolMade, SymbolRules: &exchange.SymbolRules{Tick: 1e6}},
			"symbol S made: tick 0.01, lot 0.00000001"},
		{exchange.Event{Kind: exchange.SymbolRuled,
			SymbolRules: &exchange.SymbolRules{Lot: 1e8, Protect: 5e6, Band: 1e7}},
			"symbol S: tick 0.00000001, lot 1, protection of market orders 5%, price band 10%"},
		{exchange.Event{Kind: exchange.AccountRuled, AccountRules: &exchange.AccountRules{}},
			"account 1: not blocked, stp none"},
		{exchange.Event{Kind: exchange.AccountRuled, AccountRules: &exchange.AccountRules{OpenMax: 3, SharesMax: 2e8,
			Block: &exchange.Halt{Since: 5e9, Reason: "why"}, STP: exchange.CancelBoth,
			NotionalMax: exchange.Notional(2e8, 3e8)}},
			"account 1: blocked since 1970-01-01T00:00:05Z: why, stp both, at most 2 shares an order, " +
				"at most 6 dollars an order, at most 3 open orders"},
		{exchange.Event{Kind: exchange.SwitchSet}, "the dead man's switch of account 1 is off"},
		{exchange.Event{Kind: exchange.SwitchSet, Due: 55e8},
			"the dead man's switch of account 1 is set to 1970-01-01T00:00:05.5Z"},
	} {
		e := test.event
		e.Account, e.Symbol, e.Order, e.Shares = "1", "S", 9, 5e8
		require.Equal(t, test.want, describe(&e))
	}
	for k := range exchange.EventKinds() {
		e := exchange.Event{Kind: k, Amend: amend, AccountRules: &exchange.AccountRules{},
			SymbolRules: &exchange.SymbolRules{}}
		require.NotPanics(t, func() { describe(&e) }, k)
	}
}
