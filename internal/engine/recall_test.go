package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestAnOrderOfLaterIsNotRecalled(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	db.orders.Store(exchange.OrderID(1), exchange.ClosedOrder{Account: "1"}) // the history already has order 1
	got := m.all(queryOf(1), cancelOf(1, "1"), buy("A", 1, 1), queryOf(1))
	require.Equal(t, []exchange.Result{{Reason: exchange.UnknownOrder}, {Reason: exchange.UnknownOrder}, {Order: 1},
		{Status: exchange.Status{Open: 1}}}, got, "the first two were sent before the order")
}

// pending returns the result of a command for an order that is only in the history.
func pending(asOf uint64) exchange.Result {
	return exchange.Result{Reason: exchange.HistoryUnavailable, Pending: exchange.InHistory, AsOf: asOf}
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
	require.Equal(t, []exchange.Result{pending(0), pending(0)}, results)
	m.Recall(background, &commands[1], &results[1], 1000)
	require.Equal(t, []exchange.Result{pending(0), {Reason: exchange.AlreadyExecuted}}, results)
	done := exchange.Result{Reason: exchange.ForeignOrder}
	m.Recall(background, &commands[1], &done, 1000)
	require.Equal(t, exchange.ForeignOrder, done.Reason, "a result that is complete stays as it is")
}

func TestAQueryOfOwnOrdersOnlyShowsNoOthers(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	own := func(order exchange.OrderID, account exchange.AccountID) Request {
		c := queryOf(order)
		c.Account = account
		return Request{Command: c, OwnOnly: true}
	}
	got := []exchange.Result{m.do(buy("A", 1, 1)), m.ask(own(1, "1")), m.ask(own(1, "2"))}
	require.Equal(t, []exchange.Result{{Order: 1}, {Status: exchange.Status{Open: 1}}, {Reason: exchange.ForeignOrder}},
		got, "in memory")

	m.lastOrder.Store(10)
	status := exchange.Status{Canceled: 5}
	db.orders.Store(exchange.OrderID(7), exchange.ClosedOrder{Account: "1",
		PublicOrder: exchange.PublicOrder{Status: status}})
	for account, want := range map[exchange.AccountID]exchange.Result{"1": {Status: status},
		"2": {Reason: exchange.ForeignOrder}} {
		c, r := own(7, account), pending(0)
		m.Engine.Recall(background, &c, &r, 1000)
		require.Equal(t, want, r, "in the database")
	}
}

// TestWhatIsKnownLaterDoesNotCount: an order has an id before it has a place in the journal. A query executed before
// that place answers that there is no such order, even if the history is queried later, when it has the order.
func TestWhatIsKnownLaterDoesNotCount(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	m.lastOrder.Store(10) // id 7 is given out, and not in a book yet
	db.applied.Store(3)
	commands, results := []exchange.Command{queryOf(7), cancelOf(7, "1"), queryOf(11)}, make([]exchange.Result, 3)
	_, err := m.Execute(background, commands, results)
	require.NoError(t, err)
	require.Equal(t, []exchange.Result{pending(3), pending(3), {Reason: exchange.UnknownOrder}}, results)
	m.lastOrder.Store(20)
	db.applied.Store(9)
	for _, id := range []exchange.OrderID{7, 11} {
		db.orders.Store(id, exchange.ClosedOrder{Account: "1", Seq: 4,
			PublicOrder: exchange.PublicOrder{Status: exchange.Status{Canceled: 5}}})
	}
	for i := range commands {
		m.Recall(background, &commands[i], &results[i], 1000)
		require.Equal(t, exchange.Result{Reason: exchange.UnknownOrder}, results[i])
	}
	require.Equal(t, exchange.OK, m.do(queryOf(7)).Reason, "a query sent now finds it")
}

// TestRecallLoadsNoMoreThanIsAskedFor counts the executions of a recalled order.
func TestRecallLoadsNoMoreThanIsAskedFor(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	m.lastOrder.Store(10)
	long := exchange.Status{Executions: make([]exchange.Execution, 500)}
	db.orders.Store(exchange.OrderID(7), exchange.ClosedOrder{Account: "1",
		PublicOrder: exchange.PublicOrder{Status: long}})
	c, r := queryOf(7), pending(0)
	m.Recall(background, &c, &r, 100)
	require.Len(t, r.Status.Executions, 100)
	db.away.Store(true)
	r = pending(1)
	m.Recall(background, &c, &r, 100)
	require.Equal(t, exchange.Result{Reason: exchange.HistoryUnavailable}, r, "pending and failed differ")
}

func TestReadyStopsAtARefThatOnlyTheHistoryMayKnow(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db})
	old := named("old", sell("A", 1, 5))
	db.refs.Store(exchange.RefKey{Account: "2", Ref: "old"}, exchange.RefUse{})
	m.refs.filter.add(func(yield func(exchange.RefKey) bool) { yield(exchange.RefKey{Account: "2", Ref: "old"}) })
	require.Eventually(t, m.refs.complete.Load, time.Minute, time.Millisecond)
	m.do(named("young", sell("A", 1, 5)))
	stranger := old
	stranger.Account = "99"
	commands := []exchange.Command{buy("A", 1, 1), named("new", sell("A", 1, 5)), named("young", sell("A", 1, 5)),
		stranger, old, buy("A", 1, 1)}
	require.Equal(t, 4, m.Ready(commands))
	require.Equal(t, 4, m.Ready(commands[:4]))
	require.Zero(t, db.tries.Load(), "it does not ask the history")
}
