package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestAnOrderOfLaterIsNotRecalled(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	db.orders.Store(exchange.OrderID(1), exchange.ClosedOrder{Account: "1"}) // as soon as it is projected
	got := m.all(queryOf(1), cancelOf(1, "1"), buy("A", 1, 1), queryOf(1))
	require.Equal(t, []exchange.Result{{Reason: exchange.UnknownOrder}, {Reason: exchange.UnknownOrder}, {Order: 1},
		{Status: exchange.Status{Open: 1}}}, got, "the first two come before the order")
}

func TestExecuteDoesNotAskTheHistory(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	m.lastOrder.Store(10)
	db.orders.Store(exchange.OrderID(7), exchange.ClosedOrder{Account: "1"})
	results := make([]exchange.Result, 2)
	commands := []exchange.Command{queryOf(7), cancelOf(7, "1")}
	_, err := m.Execute(background, commands, results)
	require.NoError(t, err)
	require.Equal(t, []exchange.Result{{Reason: exchange.HistoryUnavailable}, {Reason: exchange.HistoryUnavailable}}, results)
	m.Recall(background, &commands[1], &results[1])
	require.Equal(t, []exchange.Result{{Reason: exchange.HistoryUnavailable}, {Reason: exchange.AlreadyExecuted}}, results)
	done := exchange.Result{Reason: exchange.ForeignOrder}
	m.Recall(background, &commands[1], &done)
	require.Equal(t, exchange.ForeignOrder, done.Reason, "a result that is complete stays as it is")
}

func TestAQueryOfOwnOrdersOnlyTellsNoOthers(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	own := func(order exchange.OrderID, account exchange.AccountID) exchange.Command {
		c := queryOf(order)
		c.Account, c.OwnOnly = account, true
		return c
	}
	got := m.all(buy("A", 1, 1), own(1, "1"), own(1, "2"))
	require.Equal(t, []exchange.Result{{Order: 1}, {Status: exchange.Status{Open: 1}}, {Reason: exchange.ForeignOrder}}, got, "in memory")

	m.lastOrder.Store(10)
	status := exchange.Status{Canceled: 5}
	db.orders.Store(exchange.OrderID(7), exchange.ClosedOrder{Account: "1", PublicOrder: exchange.PublicOrder{Status: status}})
	for account, want := range map[exchange.AccountID]exchange.Result{"1": {Status: status}, "2": {Reason: exchange.ForeignOrder}} {
		c, r := own(7, account), exchange.Result{Reason: exchange.HistoryUnavailable}
		m.Recall(background, &c, &r)
		require.Equal(t, want, r, "in the database")
	}
}
