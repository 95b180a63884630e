package accounts

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/trailtest"
)

// crowd makes accounts 1, 2 and so on, with cash and with shares of the given number of symbols.
func crowd(m *memory, accounts, symbols int) {
	for s := range symbols {
		m.add(exchange.Event{Kind: exchange.SymbolMade, Symbol: symbolOf(s)})
	}
	for a := 1; a <= accounts; a++ {
		id := accountOf(a)
		m.add(exchange.Event{Kind: exchange.AccountOpened, Account: id, Balance: exchange.Notional(1e15, 1e15)})
		for s := range symbols {
			m.add(exchange.Event{Kind: exchange.SharesDeposited, Account: id, Symbol: symbolOf(s),
				Deposited: exchange.Shares(1e15).Position()})
		}
	}
}

func symbolOf(s int) exchange.Symbol     { return exchange.Symbol(fmt.Sprintf("SYM%d", s)) }
func accountOf(a int) exchange.AccountID { return exchange.AccountID(fmt.Sprint(a)) }

// placed returns the event of an order that is wholly open.
func placed(id, account, symbol int, side exchange.Side, shares exchange.Shares) exchange.Event {
	return exchange.Event{Kind: exchange.OrderAccepted, Order: exchange.OrderID(id), Account: accountOf(account),
		Symbol: symbolOf(symbol), Terms: exchange.Terms{Side: side, Limit: 1e8}, Shares: shares, Time: int64(id)}
}

// taken returns the event of an order that takes one share unit from each resting order and is fully executed.
func taken(id, account, symbol int, maker int, resting ...int) exchange.Event {
	e := placed(id, account, symbol, exchange.Buy, exchange.Shares(len(resting)))
	for _, r := range resting {
		e.Fills = append(e.Fills, exchange.Fill{Resting: exchange.OrderID(r), Account: accountOf(maker), Shares: 1,
			Price: 1e8})
	}
	return e
}

// TestFillsAreDroppedFairly: an account that trades very much displaces its own fills; at the total limit, the oldest
// fills of all are dropped.
func TestFillsAreDroppedFairly(t *testing.T) {
	m := new(memory)
	crowd(m, 4, 1)
	v := newView(m, nil)
	v.fills.most, v.fills.accountMost = 10, 4
	m.add(placed(1, 1, 0, exchange.Sell, 1000))
	m.add(taken(2, 2, 0, 1, 1), taken(3, 2, 0, 1, 1)) // two fills of account 2, two of account 1
	for id := 4; id < 24; id++ {
		m.add(taken(id, 3, 0, 1, 1)) // twenty fills of accounts 3 and 1 each, of which four are kept
	}
	take(t, v)
	requireFits(t, v)
	kept := func() (kept []int) {
		for a := 1; a <= 4; a++ {
			kept = append(kept, v.accounts[accountOf(a)].fills.kept)
		}
		return kept
	}
	require.Equal(t, []int{4, 2, 4, 0}, kept(), "those of 2 are the oldest, and stay")
	require.Equal(t, uint64(22), v.accounts["1"].fills.count)
	got := fillsAfter(t, v, "1", 18).Fills
	require.Len(t, got, 4)
	require.Equal(t, exchange.AccountFill{N: 19, Order: 1, Symbol: "SYM0", Side: exchange.Sell, Shares: 1, Price: 1e8,
		Time: 20, Trade: 19, Maker: true}, got[0])
	m.add(placed(30, 2, 0, exchange.Sell, 1000), taken(31, 4, 0, 2, 30))
	take(t, v)
	requireFits(t, v)
	require.Equal(t, []int{4, 1, 4, 1}, kept(), "the two of 2 were the oldest")
}

// TestPagesOfFills: pages begin at every number, and at both ends of the kept fills.
func TestPagesOfFills(t *testing.T) {
	const fills = 2500
	m := new(memory)
	crowd(m, 2, 1)
	m.add(placed(1, 1, 0, exchange.Sell, fills))
	for id := range fills {
		m.add(taken(2+id, 2, 0, 1, 1))
	}
	v := newView(m, nil)
	take(t, v)
	page := newestFills(t, v, "2")
	require.Len(t, page.Fills, exchange.ViewPageMax)
	require.Zero(t, page.More)
	require.Equal(t, uint64(1501), page.Fills[0].N)
	require.Equal(t, uint64(2500), page.Fills[999].N)
	require.Equal(t, exchange.OrderID(2501), page.Fills[999].Order)
	for _, after := range []uint64{0, 1, 999, 1000, 1249, 1250, 1499, 1500, 1501, 2499} {
		page := fillsAfter(t, v, "2", after)
		for i, f := range page.Fills {
			require.Equal(t, after+1+uint64(i), f.N)
			require.Equal(t, exchange.OrderID(after+2+uint64(i)), f.Order)
		}
		last := min(after+exchange.ViewPageMax, fills)
		require.Len(t, page.Fills, int(last-after))
		if last == fills {
			last = 0
		}
		require.Equal(t, last, page.More)
	}
	require.Empty(t, fillsAfter(t, v, "2", fills).Fills)
	require.Empty(t, fillsAfter(t, v, "2", 1<<63).Fills)
}

// TestPagesOfOrders requests pages that begin after an order that is open, closed or not placed yet. The orders for
// a symbol of which the account has few are spread over several pages.
func TestPagesOfOrders(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	m := new(memory)
	crowd(m, 2, 2)
	const orders = 2*ordersLookedAt + 500
	for id := 1; id <= orders; id++ {
		sym := 0
		if id%10_000 == 0 {
			sym = 1
		}
		m.add(placed(id, 1, sym, exchange.Sell, 5))
	}
	v := newView(m, nil)
	take(t, v)
	requireFits(t, v)
	var ids []exchange.OrderID
	pages := 0
	for after := uint64(0); ; pages++ {
		page := ordersOf(t, v, "1", "", after)
		for _, o := range page.Orders {
			ids = append(ids, o.ID)
		}
		if after = uint64(page.More); after == 0 {
			break
		}
	}
	require.Len(t, ids, orders)
	require.Equal(t, orders/exchange.ViewPageMax, pages)
	ids, pages = nil, 0
	for after := uint64(0); ; pages++ {
		page := ordersOf(t, v, "1", "SYM1", after)
		for _, o := range page.Orders {
			ids = append(ids, o.ID)
		}
		if after = uint64(page.More); after == 0 {
			break
		}
	}
	require.Equal(t, []exchange.OrderID{10_000, 20_000, 30_000, 40_000}, ids)
	require.Equal(t, 2, pages)
	require.Empty(t, ordersOf(t, v, "1", "NONE", 0).Orders)
	require.Empty(t, ordersOf(t, v, "2", "", 0).Orders)

	// After all orders but each hundredth are canceled, small chunks are merged, and memory is freed.
	for id := 1; id <= orders; id++ {
		if id%100 != 0 {
			e := placed(id, 1, 0, exchange.Sell, 5)
			e.Kind = exchange.OrderCanceled
			m.add(e)
		}
	}
	take(t, v)
	requireFits(t, v)
	a := v.accounts["1"]
	room := 0
	for _, chunk := range a.orders.chunks {
		room += cap(chunk)
	}
	require.LessOrEqual(t, room, 8*orders/100)
	page := ordersOf(t, v, "1", "", 150)
	require.Equal(t, exchange.OrderID(200), page.Orders[0].ID)
	require.Equal(t, exchange.OrderID(300), ordersOf(t, v, "1", "", 200).Orders[0].ID)
	require.Empty(t, ordersOf(t, v, "1", "", 1<<40).Orders)
}

// heap returns the memory in use, after a garbage collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// generated makes records when they are read, so that they need no memory.
type generated struct {
	n    int
	next func(i int) (exchange.Event, bool)
	seq  uint64
	buf  []byte
}

func (g *generated) TryNext() (uint64, []byte, bool, error) {
	e, ok := g.next(g.n)
	if !ok {
		return 0, nil, false, nil
	}
	g.n++
	g.seq++
	g.buf = exchange.AppendEvent(g.buf[:0], &e)
	return g.seq, g.buf, true, nil
}

func (g *generated) Close() {}

// memoryOf returns how many bytes a view with these numbers of accounts, positions of each account, open orders and
// fills uses. The last account has a part in each fill.
func memoryOf(t *testing.T, accounts, positions, orders, fills int) uint64 {
	t.Helper()
	before := heap()
	g := new(generated)
	g.next = func(i int) (exchange.Event, bool) {
		switch {
		case i < positions:
			return exchange.Event{Kind: exchange.SymbolMade, Symbol: symbolOf(i)}, true
		case i < positions+accounts:
			return exchange.Event{Kind: exchange.AccountOpened, Account: accountOf(i - positions + 1),
				Balance: exchange.Notional(1e15, 1e15)}, true
		}
		if i -= positions + accounts; i < positions*accounts {
			return exchange.Event{Kind: exchange.SharesDeposited, Account: accountOf(i/positions + 1),
				Symbol: symbolOf(i % positions), Deposited: exchange.Shares(1e15).Position()}, true
		}
		if i -= positions * accounts; i < orders {
			e := placed(i+1, i%accounts+1, i%positions, exchange.Sell, 1e6)
			if i%3 == 0 {
				e.Ref = exchange.Ref(fmt.Sprintf("client-order-%d", i))
			}
			return e, true
		}
		if i -= orders; i < fills {
			maker := i % (orders)
			return taken(orders+1+i, accounts, maker%positions, maker%accounts+1, maker+1), true
		}
		return exchange.Event{}, false
	}
	v := NewView(Options{Records: trailtest.Follow(g, 0, nil)}, &exchange.Snapshot{})
	take(t, v)
	after := heap()
	requireFits(t, v)
	require.Equal(t, uint64(fills), v.accounts[accountOf(accounts)].fills.count-uint64(fills/accounts))
	return after - before
}

// TestMemoryOfAView measures the memory at a hundredth of the maximum sizes. The slow test uses the full sizes.
func TestMemoryOfAView(t *testing.T) {
	took := memoryOf(t, 1000, 5, 10_000, 20_000)
	t.Logf("%d bytes", took)
	require.Less(t, took, uint64(9<<19), "a third of the orders have refs, and all have executed something")
}

// TestWhatWasMuchOnceIsNotHeldForEver: lists of orders and positions free their memory when they become short.
func TestWhatWasMuchOnceIsNotHeldForEver(t *testing.T) {
	const accounts, each = 100, 120
	m := new(memory)
	crowd(m, accounts, 0)
	for s := range each {
		m.add(exchange.Event{Kind: exchange.SymbolMade, Symbol: symbolOf(s)})
	}
	for a := 1; a <= accounts; a++ {
		for s := range each {
			m.add(placed(1+a*each+s, a, s, exchange.Buy, 7))
		}
		for s := range each - 1 {
			e := placed(1+a*each+s, a, s, exchange.Buy, 7)
			e.Kind = exchange.OrderCanceled
			m.add(e)
		}
	}
	v := newView(m, nil)
	take(t, v)
	requireFits(t, v)
	for _, a := range v.list {
		require.Len(t, a.orders.chunks, 1)
		require.LessOrEqual(t, cap(a.orders.chunks[0]), 8)
	}
	positions := make([]int, each)
	for len(positions) > 1 {
		positions = remove(positions, 0)
	}
	require.LessOrEqual(t, cap(positions), 8)
}

// TestRoomOfOrdersIsUsedAgain: chunks of accounts without open orders are reused, up to a bound.
func TestRoomOfOrdersIsUsedAgain(t *testing.T) {
	const many, others = spareOrdersMax + 10, 3 * ordersChunk
	m := new(memory)
	crowd(m, many, 1)
	v := newView(m, nil)
	cancel := func(id, account int) {
		e := placed(id, account, 0, exchange.Buy, 5)
		e.Kind = exchange.OrderCanceled
		m.add(e)
	}
	for i := 1; i <= many; i++ {
		m.add(placed(i, i, 0, exchange.Buy, 5))
	}
	for i := range others {
		m.add(placed(many+1+i, 1, 0, exchange.Buy, 5))
	}
	cancel(1, 1)
	for i := range others {
		cancel(many+1+i, 1)
	}
	take(t, v)
	requireFits(t, v)
	require.Len(t, v.open.spare, 1)
	require.LessOrEqual(t, cap(v.open.spare[0]), 4)
	require.LessOrEqual(t, cap(v.open.spare[0][0]), 4)
	require.Nil(t, v.accounts["1"].orders.chunks)
	for i := 2; i <= many; i++ {
		cancel(i, i)
	}
	take(t, v)
	requireFits(t, v)
	require.Len(t, v.open.spare, spareOrdersMax)
	m.add(placed(2*many, 7, 0, exchange.Buy, 5), placed(2*many+1, 8, 0, exchange.Buy, 6))
	take(t, v)
	requireFits(t, v)
	require.Len(t, v.open.spare, spareOrdersMax-2)
	require.Equal(t, exchange.OrderID(2*many), v.open.at(v.accounts["7"].orders.chunks[0][0]).id)
}
