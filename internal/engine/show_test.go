package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestShowReturnsOrdersOfAnyAccount(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	m.all(sell("A", 10, 5), buy("A", 4, 6), cancelOf(1, "2"))
	o, found, err := m.Show(background, 1, 0, 1000)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, exchange.PublicOrder{Symbol: "A", Terms: exchange.Terms{Side: exchange.Sell, Limit: 5}, Shares: 10,
		Status: exchange.Status{Canceled: 6, CanceledAt: 77, Executions: []exchange.Execution{{Shares: 4, Price: 5,
			Time: 77}}}}, o)
	_, found, err = m.Show(background, 3, 0, 1000)
	require.NoError(t, err)
	require.False(t, found, "it was never given out")
}

func TestShowAsksHistoryForWhatMemoryDoesNotHold(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	m.all(buy("A", 4, 6))
	m.lastOrder.Store(9) // as if orders 2 to 9 were closed long ago
	closed := exchange.PublicOrder{Symbol: "B", Terms: exchange.Terms{Side: exchange.Buy, Limit: 7}, Shares: 3,
		Status: exchange.Status{Canceled: 3, CanceledAt: 8}}
	db.orders.Store(exchange.OrderID(5), exchange.ClosedOrder{Account: "2", PublicOrder: closed})
	o, found, err := m.Show(background, 5, 0, 1000)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, closed, o)
	_, found, err = m.Show(background, 6, 0, 1000)
	require.NoError(t, err)
	require.False(t, found)
	db.away.Store(true)
	_, _, err = m.Show(background, 5, 0, 1000)
	require.ErrorContains(t, err, "away")
}

func TestShowWaitsUntilTheOrderIsDurable(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, AckPostgres: true})
	m.all(buy("A", 4, 6))
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, _, err := m.Show(ctx, 1, 0, 1000)
	require.ErrorIs(t, err, context.Canceled)
	db.applied.Store(m.journal.Appended())
	_, found, err := m.Show(background, 1, 0, 1000)
	require.NoError(t, err)
	require.True(t, found)
}

func TestShowReturnsExecutionsInPages(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	m.all(sell("A", 1, 5), sell("A", 2, 5), sell("A", 3, 5), buy("A", 6, 5))
	m.lastOrder.Store(9)
	executed := []exchange.Execution{{Shares: 1, Price: 5, Time: 77}, {Shares: 2, Price: 5, Time: 77},
		{Shares: 3, Price: 5, Time: 77}}
	db.orders.Store(exchange.OrderID(7),
		exchange.ClosedOrder{PublicOrder: exchange.PublicOrder{Status: exchange.Status{Executions: executed}}})
	for _, id := range []exchange.OrderID{4, 7} { // 4 is in memory, 7 in the database
		for _, page := range []struct{ after, most, from, to int }{{0, 2, 0, 2}, {2, 2, 2, 3}, {3, 2, 3, 3}, {9, 2, 3, 3},
			{1, 0, 1, 1}} {
			o, found, err := m.Show(background, id, page.after, page.most)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, executed[page.from:page.to], o.Status.Executions, "order %d, %v", id, page)
		}
	}
}
