package postgres

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestABatchFindsNamesByTheirText looks up names by strings at many addresses, more than a batch remembers, and again
// after a reset.
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

// TestFastRowsAreThoseOfTheColumns compares the rows of the functions in batch_rows.go with those of the columns.
func TestFastRowsAreThoseOfTheColumns(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	number := func() int64 { return [...]int64{0, 1, -1, r.Int64N(1e12), -r.Int64N(1e12), r.Int64()}[r.IntN(6)] }
	name := func() string { return strings.Repeat("Xy", r.IntN(20)) }
	flag := func() bool { return r.IntN(2) == 0 }
	terms := func() exchange.Terms {
		return exchange.Terms{Side: exchange.Side(1 + r.IntN(2)), TIF: exchange.TimeInForce(r.IntN(3)), Post: flag(),
			Type: exchange.OrderType(r.IntN(2)), STP: exchange.SelfTrade(r.IntN(4)), Limit: exchange.Price(number())}
	}
	for range 2000 {
		row := record{seq: uint64(number()), n: int32(number()), called: exchange.Ref(name()),
			why: exchange.WhyCanceled(r.IntN(6)), Event: exchange.Event{Order: exchange.OrderID(number()),
				Account: exchange.AccountID(name()), Symbol: exchange.Symbol(name()), Terms: terms(), Time: number(),
				Shares: exchange.Shares(number()), Unsent: exchange.Unsent(r.IntN(4)), OnDisconnect: flag()}}
		requireFast(t, orderLog, putOrder, &row)
		requireFast(t, cancelLog, putCancel, &row)
		requireFast(t, executionLog, putExecution, &execution{order: row.Order, resting: exchange.OrderID(number()),
			n: int(int32(number())), symbol: row.Symbol, buys: flag(),
			numbers:   numbers{uint64(number()), uint64(number()), uint64(number())},
			Execution: exchange.Execution{Shares: row.Shares, Price: row.Limit, Time: number()}})
		requireFast(t, restingTable, putResting, &restingRow{amended: flag(), renamed: flag(),
			Changes: exchange.Changes{Reduced: exchange.Shares(number()), ReducedAt: number()},
			ID:      row.Order, Account: row.Account, Symbol: row.Symbol, Terms: row.Terms, Shares: row.Shares,
			Open: exchange.Shares(number()), OnDisconnect: row.OnDisconnect})
	}
}

func requireFast[R any](t *testing.T, of *table[R], put func(b []byte, r *R) []byte, row *R) {
	t.Helper()
	slow, fast := newCopy(of), newFastCopy(of, put)
	slow.add(row)
	fast.add(row)
	require.Equal(t, slow.b, fast.b, "%s of %+v", of.name, *row)
}

// TestABatchKeepsNothingOfALargeEvent: after a record of many cancels or fills, the batch does not refer to the event.
func TestABatchKeepsNothingOfALargeEvent(t *testing.T) {
	b := newBatch()
	b.reset(0)
	require.NoError(t, addKept(b, 1, &exchange.Event{Kind: exchange.OrdersCanceled, Account: "1", Cause: exchange.ByClient,
		Cancels: []exchange.Cancel{{Order: 1, Symbol: "S", Shares: 7, Terms: exchange.Terms{Side: exchange.Buy, Limit: 5}}}}))
	require.Equal(t, record{}, b.rare)
	require.Error(t, addKept(b, 2, &exchange.Event{Kind: 99}))
	require.Equal(t, record{}, b.rare)
}
