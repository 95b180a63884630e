package accounts

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
)

// bench returns a view with accounts, symbols and open orders 1, 2 and so on, spread evenly over accounts and symbols.
func bench(b *testing.B, accounts, symbols, orders int) *View {
	b.Helper()
	g := new(generated)
	g.next = func(i int) (exchange.Event, bool) {
		switch {
		case i < symbols:
			return exchange.Event{Kind: exchange.SymbolMade, Symbol: symbolOf(i)}, true
		case i < symbols+accounts:
			return exchange.Event{Kind: exchange.AccountOpened, Account: accountOf(i - symbols + 1),
				Balance: exchange.Notional(1e15, 1e15)}, true
		}
		i -= symbols + accounts
		return benched(i+1, accounts, symbols), i < orders
	}
	v := NewView(Options{Records: trailtest.Follow(g, 0, nil)}, &exchange.Snapshot{})
	require.NoError(b, v.step(background))
	return v
}

// benched returns the order with an id in bench.
func benched(id, accounts, symbols int) exchange.Event {
	return placed(id, id/symbols%accounts+1, id%symbols, exchange.Buy, 5)
}

// BenchmarkOrdersComeAndGo: a new order is added, and an older one, the oldest or a random one, is canceled.
func BenchmarkOrdersComeAndGo(b *testing.B) {
	const accounts, symbols, orders = 1000, 5, 100_000
	for _, c := range []struct {
		name string
		any  bool
	}{{"oldest", false}, {"any", true}} {
		b.Run(c.name, func(b *testing.B) {
			v := bench(b, accounts, symbols, orders)
			r, open := rand.New(rand.NewPCG(1, 1)), make([]int, orders)
			for i := range open {
				open[i] = i + 1
			}
			m := &memory{after: v.Seq()}
			for i := range b.N {
				id, at := orders+1+i, i%orders
				if c.any {
					at = r.IntN(orders)
				}
				gone := benched(open[at], accounts, symbols)
				gone.Kind = exchange.OrderCanceled
				open[at] = id
				m.add(benched(id, accounts, symbols), gone)
			}
			v.records = trailtest.Follow(m, v.Seq(), nil)
			b.ReportAllocs()
			b.ResetTimer()
			require.NoError(b, v.step(background))
		})
	}
}

// BenchmarkTheFirstListener adds a listener to the orders of a symbol, in views with very many symbols, few, and
// one.
func BenchmarkTheFirstListener(b *testing.B) {
	const accounts, orders = 100_000, 1_000_000
	for name, symbols := range map[string]int{"of 10,000 symbols": 10_000, "of 5 symbols": 5, "of one symbol": 1} {
		b.Run(name, func(b *testing.B) {
			v := bench(b, accounts, symbols, orders)
			b.ResetTimer()
			for i := range b.N {
				n := symbolNumber(i % symbols)
				v.markets[n].resting = nil
				leave, err := v.ListenOrders(v.markets[n].name, silent{}, func(*OrdersSnapshot) {})
				require.NoError(b, err)
				leave()
			}
		})
	}
}
