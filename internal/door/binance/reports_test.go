package binance

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

const unit = 100_000_000 // one share, and the price 1

// reported returns the reports of an event, each as its members x, X, i, t, l, z, Z, c, C.
func reported(t *testing.T, e *exchange.AccountEvent) (all []string) {
	t.Helper()
	eachReport(e, func(r *report) {
		var m map[string]any
		require.NoError(t, json.Unmarshal(appendReport(nil, r), &m))
		require.Len(t, m, 34)
		words := []string{}
		for _, name := range []string{"x", "X", "i", "t", "l", "z", "Z", "c", "C"} {
			switch v := m[name].(type) {
			case string:
				words = append(words, strings.TrimSuffix(v, ".00000000"))
			case float64:
				words = append(words, strconv.FormatFloat(v, 'f', -1, 64))
			}
		}
		all = append(all, strings.Join(words, " "))
	})
	return all
}

// TestARecordIsReportedInTheOrderOfWhatItDid: first the acceptance, then each execution with the totals up to it,
// then the expiry.
func TestARecordIsReportedInTheOrderOfWhatItDid(t *testing.T) {
	detail := exchange.OrderDetail{ID: 9, Symbol: "SPY", Ref: "a", State: exchange.StatusCanceled,
		Why:      exchange.CanceledRest,
		Executed: 3 * unit, Canceled: 2 * unit, Notional: exchange.Notional(unit, 100*unit).Add(exchange.Notional(2*unit,
			101*unit))}
	detail.Side, detail.TIF, detail.Limit = exchange.Buy, exchange.IOC, 101*unit
	fills := []exchange.AccountFill{
		{N: 4, Order: 9, Symbol: "SPY", Side: exchange.Buy, Shares: unit, Price: 100 * unit, Trade: 12},
		{N: 5, Order: 9, Symbol: "SPY", Side: exchange.Buy, Shares: 2 * unit, Price: 101 * unit, Trade: 13},
	}
	e := &exchange.AccountEvent{Orders: []exchange.OrderChange{{OrderDetail: detail, New: true, Withdrew: 2 * unit}},
		Fills: fills}
	require.Equal(t, []string{
		"NEW NEW 9 -1 0 0 0 a ",
		"TRADE PARTIALLY_FILLED 9 12 1 1 100 a ",
		"TRADE PARTIALLY_FILLED 9 13 2 3 302 a ",
		"EXPIRED EXPIRED 9 -1 0 3 302 a ",
	}, reported(t, e))

	detail.Why, e.Fills, detail.Executed, detail.Notional = exchange.CanceledSTP, nil, 0, exchange.Cash{}
	e.Orders = []exchange.OrderChange{{OrderDetail: detail, New: true}}
	require.Equal(t, []string{"NEW NEW 9 -1 0 0 0 a ", "TRADE_PREVENTION EXPIRED_IN_MATCH 9 -1 0 0 0 a "}, reported(t, e))
}

// TestAReplacedOrderIsCanceledBeforeTheNewOneComes: only in a report of a cancel does C have the order's own id.
func TestAReplacedOrderIsCanceledBeforeTheNewOneComes(t *testing.T) {
	old := exchange.OrderDetail{ID: 3, Symbol: "SPY", Ref: "old", State: exchange.StatusReplaced, By: 8, Executed: unit,
		Canceled: unit, Notional: exchange.Notional(unit, unit)}
	made := exchange.OrderDetail{ID: 8, Symbol: "SPY", NewRef: "new", Replaces: 3, Before: unit,
		State:    exchange.StatusExecuted,
		Executed: 2 * unit, Notional: exchange.Notional(2*unit, unit)}
	e := &exchange.AccountEvent{
		Orders: []exchange.OrderChange{{OrderDetail: old, Withdrew: unit}, {OrderDetail: made, New: true}},
		Fills:  []exchange.AccountFill{{N: 2, Order: 8, Symbol: "SPY", Shares: 2 * unit, Price: unit, Trade: 7}},
	}
	require.Equal(t, []string{
		"CANCELED CANCELED 3 -1 0 1 1 outcry-cancel-3 old",
		"NEW NEW 8 -1 0 0 0 new ",
		"TRADE FILLED 8 7 2 2 2 new ",
	}, reported(t, e))

	left := exchange.OrderDetail{ID: 4, Symbol: "SPY", Open: unit, Reduced: unit}
	e = &exchange.AccountEvent{Orders: []exchange.OrderChange{{OrderDetail: left, Less: unit}}}
	require.Equal(t, []string{"REPLACED NEW 4 -1 0 0 0 outcry-4 "}, reported(t, e))
	e.Orders[0].Symbol = "Spy"
	require.Empty(t, reported(t, e), "a symbol that is not offered")
}
