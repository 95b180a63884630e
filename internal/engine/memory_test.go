package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// live returns the number of heap bytes in use.
func live() int64 {
	runtime.GC()
	runtime.GC() // frees what finalizers or pools kept during the first run
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// memoryOf returns by how many bytes fill increases the heap in use, divided by n.
func memoryOf(n int, fill func()) float64 {
	before := live()
	fill()
	return float64(live()-before) / float64(n)
}

const memoryCount = 1_000_000

// openMany opens accounts with ids of 6 or 7 digits.
func openMany(l *exchange.Ledger) {
	for i := range memoryCount {
		l.Open(exchange.AccountID(fmt.Sprint(100_000+i)), exchange.Notional(1e18, 1e10))
	}
}

// restMany adds a resting order for each account, in one symbol, over a number of
// price levels that are one tick apart.
func restMany(s *exchange.State, levels int, tick exchange.Price) {
	book := s.List("SPY")
	li := s.Ledger.Instrument("SPY")
	for i := range memoryCount {
		s.OrderID++
		account := s.Ledger.Account(exchange.AccountID(fmt.Sprint(100_000 + i)))
		o := exchange.NewOrder(s.OrderID, account, exchange.Buy, 1e8, 1e8+tick*exchange.Price(i%levels))
		if r := s.Ledger.Reserve(li, o); r != exchange.OK {
			panic(r)
		}
		s.Ledger.Settle(li, o, book.Submit(o, 0, nil))
	}
}

// BenchmarkMemory reports the memory of each of a million accounts and of a million resting orders
// in the whole process: with the ledger, the book, its price levels
// and the index. It does not measure time.
func BenchmarkMemory(b *testing.B) {
	b.Run("accounts", func(b *testing.B) {
		for b.Loop() {
			l := exchange.NewLedger()
			b.ReportMetric(memoryOf(memoryCount, func() { openMany(l) }), "B/account")
			runtime.KeepAlive(l)
		}
	})
	for _, shape := range []struct {
		name   string
		levels int
		tick   exchange.Price
	}{
		{"1000 levels", 1000, 1e6},
		{"one level each, a cent apart", memoryCount, 1e6},
		{"one level each, 16 cents apart", memoryCount, 16e6},
	} {
		b.Run("orders/"+shape.name, func(b *testing.B) {
			if shape.levels == memoryCount {
				budget.SkipShort(b, "more price levels")
			}
			for b.Loop() {
				s := exchange.NewState()
				openMany(s.Ledger)
				b.ReportMetric(memoryOf(memoryCount, func() { restMany(s, shape.levels, shape.tick) }), "B/order")
				if err := s.Audit(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// symbolBytesMax is the limit on the memory of a symbol without orders, in bytes.
const symbolBytesMax = 1024

// TestASymbolAtRestIsSmallAndHasNoGoroutine makes 10,000 symbols and deposits shares of each,
// which starts each shard's goroutine. Then in each symbol an order is placed and canceled, and a
// trade takes place.
func TestASymbolAtRestIsSmallAndHasNoGoroutine(t *testing.T) {
	budget.SkipRaced(t, "it measures memory")
	const symbols = 10_000
	db := &database{}
	db.applied.Store(1 << 62)
	m := open(t, Options{Projection: db, History: db, ClosedOrdersMax: 1})
	all := make([]exchange.Symbol, symbols)
	for n := range all {
		all[n] = exchange.Symbol(fmt.Sprint("SYMBOL", n))
	}
	asleep := func() bool { return len(m.awakeNow()) == 0 && m.Stats().ClosedOrders <= 1 }
	require.Eventually(t, asleep, time.Minute, 10*time.Millisecond)
	before := live()
	goroutines := runtime.NumGoroutine() // the goroutines of Eventually have ended by now
	for chunk := range slices.Chunk(all, 500) {
		var commands []exchange.Command
		for _, sym := range chunk {
			commands = append(commands, exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym})
		}
		m.all(commands...)
	}
	require.LessOrEqual(t, len(m.awakeNow()), 1, "only the registrar has had work")
	require.Eventually(t, asleep, time.Minute, 10*time.Millisecond)
	made := float64(live()-before) / symbols
	for _, sym := range all {
		m.all(exchange.Command{Kind: exchange.DepositShares, Symbol: sym, Account: "2", Deposited: exchange.Position{Lo: 9}},
			sell(sym, 1, 5), buy(sym, 1, 5))
		require.LessOrEqual(t, len(m.awakeNow()), awakeMax+1)
	}
	require.Eventually(t, asleep, time.Minute, 10*time.Millisecond)
	traded := float64(live()-before) / symbols
	t.Logf("a symbol takes %.0f bytes, and %.0f with two positions after a trade", made, traded)
	require.Less(t, made, float64(symbolBytesMax))
	require.Less(t, traded, 2.0*symbolBytesMax)
	for begun := time.Now(); runtime.NumGoroutine() > goroutines; runtime.Gosched() { // owners end a moment later
		require.Less(t, time.Since(begun), time.Minute)
	}
}

// BenchmarkMemoryOfClosedOrders reports the memory of each of a million closed orders that
// Postgres does not have yet, and the time that the garbage collector needs
// for a heap with them.
func BenchmarkMemoryOfClosedOrders(b *testing.B) {
	for b.Loop() {
		book, closed := exchange.NewBook(), new(closedQueue)
		account := &exchange.Account{ID: "1"}
		fills := make([]exchange.Fill, 0, 1)
		b.ReportMetric(memoryOf(memoryCount, func() {
			for id := exchange.OrderID(1); id <= memoryCount; id++ {
				fills = book.Submit(exchange.NewOrder(id, account, exchange.Side(1+id%2), 100, 1e8), 0, fills[:0])
				if len(fills) > 0 {
					closed.Push(closing{uint64(id), 2})
				}
			}
		}), "B/order")
		if book.Closed() != memoryCount {
			b.Fatal(book.Closed())
		}
		began := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "ms/GC")
		runtime.KeepAlive(book)
		runtime.KeepAlive(closed)
	}
}
