package jsonrpc

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// TestAccountGetCopiesNoOrders checks that the memory of an account.get does not grow with the account's open orders.
func TestAccountGetCopiesNoOrders(t *testing.T) {
	const orders = 10_000
	snap := &exchange.Snapshot{Seq: 9, Symbols: []exchange.SymbolState{{Symbol: "SPY"}},
		Accounts: []exchange.AccountState{{ID: "1", Events: 7, Fills: 3, Balance: exchange.Notional(1e8, 25e8)}},
		Positions: []exchange.PositionState{{Symbol: "SPY", Account: "1", Shares: exchange.Shares(5e8).Position(),
			Held: exchange.Shares(orders).Position()}}}
	for id := range exchange.OrderID(orders) {
		snap.Orders = append(snap.Orders, exchange.OrderState{ID: id + 1, Account: "1", Symbol: "SPY", Shares: 1, Open: 1,
			Terms: exchange.Terms{Side: exchange.Sell, Limit: 1e8}})
	}
	v := accounts.NewView(accounts.Options{}, snap)
	require.NoError(t, v.Err())
	c := &conn{door: NewDoor(Options{View: func() *accounts.View { return v },
		Sessions: func() *door.Server { return nil }})}
	k := new(call)
	k.args.Account = "1"

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := c.answerAccount(t.Context(), k, []byte{'{'})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, `{"seq":9,"account":"1","n":7,"last_fill":3,"balance":"25","held":"0",`+
		`"positions":[{"sym":"SPY","shares":"5","held":"0.0001"}]`, string(b))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*orders), "bytes")

	k.args.Account = "2"
	_, err = c.answerAccount(t.Context(), k, []byte{'{'})
	require.ErrorContains(t, err, "there is no account 2")
}
