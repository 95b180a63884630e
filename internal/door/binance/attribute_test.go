package binance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/fieldtest"
	"outcry/internal/testing/streamtest"
)

// TestAnOrderShowsEveryFieldOfItsTerms checks that each field changes a member of the answer about the order.
func TestAnOrderShowsEveryFieldOfItsTerms(t *testing.T) {
	plain := exchange.OrderDetail{ID: 1, Symbol: "A", Open: 5}
	plain.Side, plain.Limit = exchange.Buy, 6
	fieldtest.Each(t, plain.Terms, nil, func(name string, changed exchange.Terms) {
		o := plain
		o.Terms = changed
		require.NotEqual(t, string(appendOrder(nil, &plain)), string(appendOrder(nil, &o)), "no member has %s", name)
	})
}

// TestOrdersAreTheseBytes compares the answers and events about orders with a golden file.
func TestOrdersAreTheseBytes(t *testing.T) {
	o := exchange.OrderDetail{ID: 9, Symbol: "SPY", Ref: "a", State: exchange.StatusCanceled,
		Why: exchange.CanceledByOwner, Executed: 3 * unit, Canceled: 2, Notional: exchange.Notional(3*unit, 3),
		Time: 1_000_001, Changed: 2_999_999}
	o.Side, o.Limit, o.STP = exchange.Sell, 101*unit, exchange.CancelBoth
	fill := exchange.AccountFill{N: 4, Order: 9, Symbol: "SPY", Side: exchange.Sell, Shares: 3 * unit, Price: 3,
		Time: -1, Trade: 12, Maker: true}
	with := &exchange.OrderWithFills{OrderDetail: o, Account: "1", Fills: []exchange.AccountFill{fill, fill}}
	e := &exchange.AccountEvent{Time: 5_000_000, Balance: exchange.Notional(unit, 7), Fills: with.Fills[:1],
		Orders:    []exchange.OrderChange{{OrderDetail: o, New: true, Withdrew: 2}},
		Positions: []exchange.PositionView{{Symbol: "SPY", Shares: exchange.Shares(5).Position()}}}
	var b []byte
	line := func(add func(b []byte) []byte) { b = append(add(b), '\n') }
	for _, resp := range []string{respACK, "RESULT", respFULL} {
		line(func(b []byte) []byte { return appendNew(b, with, resp) })
	}
	line(func(b []byte) []byte { return appendOrder(b, &o) })
	line(func(b []byte) []byte { return appendCanceled(b, &o, "own") })
	line(func(b []byte) []byte { return appendMyTrade(b, &fill) })
	eachReport(e, func(r *report) { line(func(b []byte) []byte { return appendReport(b, r) }) })
	line(func(b []byte) []byte { return appendPosition(b, e) })
	line(func(b []byte) []byte { return append(b, appendAPIAnswer([]byte(`"x"`), []byte("[]"), nil)...) })
	failed := replaceFailed(errReplacePartly, "SUCCESS", "FAILURE", []byte("{}"), bad(-1, "\x00\n<é>\"\xff").json())
	line(func(b []byte) []byte { return append(b, appendAPIAnswer(nil, nil, failed)...) })
	line(func(b []byte) []byte { return append(b, wrap("susd@trade", []byte("{}"))...) })
	streamtest.Compare(t, "testdata/orders.txt", string(b))
}
