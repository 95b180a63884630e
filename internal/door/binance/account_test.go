package binance

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// TestAnAccountIsAnsweredWithoutCopiesOfItsOrders: the memory of an answer does not depend on the number of open
// orders. Otherwise it would delay everyone's orders.
func TestAnAccountIsAnsweredWithoutCopiesOfItsOrders(t *testing.T) {
	const orders = 10_000
	snap := &exchange.Snapshot{Symbols: []exchange.SymbolState{{Symbol: "SPY"}},
		Accounts: []exchange.AccountState{{ID: "1", Balance: exchange.Notional(1e8, 25e8)}},
		Positions: []exchange.PositionState{{Symbol: "SPY", Account: "1", Shares: exchange.Shares(5e8).Position(),
			Held: exchange.Shares(orders).Position()}}}
	for id := range exchange.OrderID(orders) {
		snap.Orders = append(snap.Orders, exchange.OrderState{ID: id + 1, Account: "1", Symbol: "SPY", Shares: 1, Open: 1,
			Terms: exchange.Terms{Side: exchange.Sell, Limit: 1e8}})
	}
	v := accounts.NewView(accounts.Options{}, snap)
	require.NoError(t, v.Err())
	q := &request{account: "1", arrived: time.UnixMilli(77)}

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, problem := q.appendAccount(nil, v)
	runtime.ReadMemStats(&after)
	require.Nil(t, problem)
	require.Equal(t, `{"makerCommission":0,"takerCommission":0,"buyerCommission":0,"sellerCommission":0,`+
		`"commissionRates":{"maker":"0.00000000","taker":"0.00000000","buyer":"0.00000000","seller":"0.00000000"},`+
		`"canTrade":true,"canWithdraw":false,"canDeposit":false,"brokered":false,"requireSelfTradePrevention":false,`+
		`"preventSor":false,"updateTime":77,"accountType":"SPOT",`+
		`"balances":[{"asset":"USD","free":"25.00000000","locked":"0.00000000"},`+
		`{"asset":"SPY","free":"5.00000000","locked":"0.00010000"}],"permissions":["SPOT"],"uid":1}`, string(b))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*orders), "bytes")

	q.account = "2"
	_, problem = q.appendAccount(nil, v)
	require.Equal(t, errUnknownKey, problem)
}
