package postgres

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestABatchKeepsWhatIsOpen checks that an order closed by its own record is not kept. It also checks that a
// record out of order, or one that accepts an order again, is refused.
func TestABatchKeepsWhatIsOpen(t *testing.T) {
	b := newBatch()
	b.reset(0)
	resting := exchange.Event{Kind: exchange.OrderAccepted, Account: "1", Symbol: "S", Order: 1, Shares: 5,
		Terms: exchange.Terms{Side: exchange.Sell, Limit: 2}}
	taker := exchange.Event{Kind: exchange.OrderAccepted, Account: "2", Symbol: "S", Order: 2, Shares: 3,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 2},
		Fills: []exchange.Fill{{Resting: 1, Account: "1", Shares: 3, Price: 2}}}
	require.NoError(t, addKept(b, 1, &resting))
	require.NoError(t, addKept(b, 2, &taker))
	require.ErrorContains(t, addKept(b, 2, &taker), "record 2 follows record 2")
	require.ErrorContains(t, addKept(b, 4, &taker), "record 4 follows record 2")
	require.Len(t, b.orders, 1)
	require.Equal(t, exchange.Shares(2), b.find(1).Open)
	require.Nil(t, b.find(2))
	require.Empty(t, b.taken)

	taker.Order, taker.Fills[0].Shares = 3, 1 // two shares remain, and are canceled
	taker.TIF, taker.Rest = exchange.IOC, 2
	require.NoError(t, addKept(b, 3, &taker))
	require.Zero(t, b.find(3).Open)
	require.Empty(t, b.canceled)
	require.ErrorContains(t, addKept(b, 4, &resting), "record 4 accepts order 1 again")

	b.reset(4)
	require.Nil(t, b.find(1))
	require.Empty(t, b.orders)
	require.NoError(t, addKept(b, 5, &exchange.Event{Kind: exchange.OrderCanceled, Account: "1", Symbol: "S", Order: 1,
		Shares: 1, Terms: resting.Terms}))
	require.Equal(t, map[exchange.OrderID]exchange.Shares{1: 1}, b.canceled, "it is one of before")
}

// TestABatchFindsNamesByTheirText looks names up by strings at many addresses, more of them than a batch keeps the
// memory of, and again after a reset.
func TestABatchFindsNamesByTheirText(t *testing.T) {
	names := newByName[exchange.AccountID]((*cashChange).reset)
	for round := range 3 {
		for range 3 {
			for i := range namesKept + 100 {
				v := names.find(exchange.AccountID(strconv.Itoa(i))) // a new string
				require.EqualValues(t, i, v.n)
				require.Equal(t, exchange.AccountID(strconv.Itoa(i)), v.name)
				v.value.event(uint64(round + 1))
				require.EqualValues(t, 1, v.value.events)
			}
		}
		require.Len(t, names.all, namesKept+100)
		names.reset()
		require.Empty(t, names.all)
	}
}

// TestABatchFindsOrdersByAnyID adds orders whose ids do not follow each other.
func TestABatchFindsOrdersByAnyID(t *testing.T) {
	var index orderIndex
	for range 2 {
		ids := []exchange.OrderID{100, 101, 99, 1, 105, 103, 100 + orderIndexMax, 99 + orderIndexMax, 1 << 60}
		for i, id := range ids {
			require.Zero(t, index.find(id), id)
			index.add(id, int32(i+1))
		}
		for i, id := range ids {
			require.EqualValues(t, i+1, index.find(id), id)
		}
		for _, id := range []exchange.OrderID{0, 2, 98, 102, 104, 106, 101 + orderIndexMax} {
			require.Zero(t, index.find(id), id)
		}
		index.reset()
	}
}
