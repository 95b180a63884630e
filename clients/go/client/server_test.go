package client_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
)

// TestAnAmendWhoseAnswerIsLostIsDoneOnce: the exchange does an amend and is killed before the client resends
// it. Then it gives the same reply.
func TestAnAmendWhoseAnswerIsLostIsDoneOnce(t *testing.T) {
	x := startExchange(t)
	direct := dial(t, x.addr, client.Options{PauseMin: time.Millisecond})
	market(t, direct)
	_, err := direct.Sell(background, "2", "SPY", number("10"), number("20"))
	require.NoError(t, err)
	killed := make(chan struct{})
	var lose atomic.Bool
	p := startProxy(t, x.addr, func(int) (up, down int) {
		if lose.Swap(false) {
			return -1, 0
		}
		return -1, -1
	}, func() {
		x.kill()
		killed <- struct{}{}
	})
	lose.Store(true)
	c, err := client.Dial(background, p.addr, client.Options{AutoRef: true, PauseMin: time.Millisecond})
	require.NoError(t, err)
	defer c.Close()
	go func() {
		<-killed
		x.start(t)
	}()
	results, err := c.Do(background, client.Amend("2", 1, number("-8"), client.Decimal{}),
		client.Amend("2", 1, client.Decimal{}, number("21")).With(client.Instructions{Report: true}))
	require.NoError(t, err)
	require.Positive(t, c.Stats().SentAgain)
	require.Equal(t, number("2"), results[0].Status.Reduced)
	require.EqualValues(t, 2, results[1].By)
	require.Equal(t, client.Status{Order: 2, Open: number("8")}, results[1].Status)
	status, err := direct.Query(background, "2", 1)
	require.NoError(t, err)
	require.Equal(t, number("2"), status.Reduced)
	require.Equal(t, number("8"), status.Canceled)
	require.EqualValues(t, 2, status.Replaced)
	orders, err := direct.Orders(background, "2", "")
	require.NoError(t, err)
	require.Len(t, orders, 1, "each amend was done once")
}

// TestTheServerDoesWhatOrdersAsk trades with instructions, and checks the accounts.
func TestTheServerDoesWhatOrdersAsk(t *testing.T) {
	x := startExchange(t)
	c := dial(t, x.addr, client.Options{})
	market(t, c) // account 2 has shares of SPY, and account 1 dollars
	require.NoError(t, c.CancelAfter(background, "2", time.Hour))
	require.NoError(t, c.CancelAfter(background, "2", 0))
	post := client.Sell("2", "SPY", number("10"), number("20")).
		With(client.Instructions{Post: true, STP: client.CancelBoth, COD: client.Cancels})
	id, err := c.Order(background, post)
	require.NoError(t, err)
	_, err = c.Order(background, client.Buy("1", "SPY", number("11"), number("20")).
		With(client.Instructions{TIF: client.FOK}))
	require.ErrorContains(t, err, "11 SPY at 20 cannot be filled at once: 10 could")
	market := client.BuyAtMarket("1", "SPY", number("4"))
	market.Report = true
	results, err := c.Do(background, market)
	require.NoError(t, err)
	require.NoError(t, results[0].Err())
	require.Equal(t, number("4"), results[0].Status.Filled())
	orders, err := c.Orders(background, "2", "SPY")
	require.NoError(t, err)
	require.Len(t, orders, 1)
	orders[0].Time = time.Time{}
	require.Equal(t, client.OpenOrder{Order: id, Symbol: "SPY", Side: client.KindSell, Shares: number("10"),
		Limit: number("20"), Open: number("6"), Instructions: post.Instructions}, orders[0])
	before, err := c.Account(background, "1")
	require.NoError(t, err)
	require.Equal(t, []client.Position{{Symbol: "SPY", Shares: number("4")}}, before.Positions)
	fills, err := c.Fills(background, "1", client.Newest)
	require.NoError(t, err)
	require.Len(t, fills, 1)
	require.Equal(t, []any{uint64(1), client.KindBuy, number("4"), number("20")},
		[]any{fills[0].N, fills[0].Side, fills[0].Shares, fills[0].Price})
	fills, err = c.Fills(background, "1", 1)
	require.NoError(t, err)
	require.Empty(t, fills)
	count, err := c.CancelAll(background, "2", "")
	require.NoError(t, err)
	require.Equal(t, 1, count)
	_, err = c.Account(background, "77")
	require.ErrorAs(t, err, new(*client.Refused))
	require.ErrorContains(t, err, "there is no account 77")
	symbol, err := c.Do(background, client.MakeSymbolOf("TLT", number("0.01"), number("5")))
	require.NoError(t, err)
	require.NoError(t, symbol[0].Err())
	_, err = c.Buy(background, "1", "TLT", number("5"), number("1.005"))
	require.ErrorContains(t, err, "limit 1.005 is not a multiple of the tick 0.01")
}

// TestOrdersBehindManyOfAnotherSymbolAreFound: the exchange scans at most 20,000 orders for a page, so that
// the first page of SPY is empty.
func TestOrdersBehindManyOfAnotherSymbolAreFound(t *testing.T) {
	c := dial(t, startExchange(t).addr, client.Options{})
	market(t, c)
	frame := make([]client.Command, 603)
	for i := range frame {
		frame[i] = client.Buy("1", "QQQ", number("1"), number("1"))
	}
	for range 34 {
		results, err := c.Do(background, frame...)
		require.NoError(t, err)
		for i := range results {
			require.NoError(t, results[i].Err())
		}
	}
	var want, got []client.OrderID
	for range 3 {
		id, err := c.Buy(background, "1", "SPY", number("1"), number("1"))
		require.NoError(t, err)
		want = append(want, id)
	}
	results, err := c.Do(background, client.ListOrders("1", "SPY", 0))
	require.NoError(t, err)
	require.True(t, results[0].More)
	require.Empty(t, results[0].Orders)
	orders, err := c.Orders(background, "1", "SPY")
	require.NoError(t, err)
	for i := range orders {
		got = append(got, orders[i].Order)
	}
	require.Equal(t, want, got)
}

// TestAConnectionTakesItsOrdersWithIt: when a connection ends, its orders are canceled, except those that
// opted out.
func TestAConnectionTakesItsOrdersWithIt(t *testing.T) {
	x := startExchange(t)
	direct := dial(t, x.addr, client.Options{})
	market(t, direct)
	c := dial(t, x.addr, client.Options{CancelOnDisconnect: true, SilenceTime: time.Hour})
	goes, err := c.Sell(background, "2", "SPY", number("10"), number("20"))
	require.NoError(t, err)
	stays, err := c.Order(background, client.Sell("2", "SPY", number("10"), number("20")).
		With(client.Instructions{COD: client.Stays}))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for begun := time.Now(); ; {
		status, err := direct.Query(background, "2", goes)
		require.NoError(t, err)
		if status.Canceled == number("10") {
			break
		}
		require.Less(t, time.Since(begun), patience)
	}
	status, err := direct.Query(background, "2", stays)
	require.NoError(t, err)
	require.Equal(t, number("10"), status.Open)
}
