package engine

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// refsCount is how many refs BenchmarkFilter adds. docs/decisions/0011 has figures for
// ten million.
var refsCount = flag.Int("refs", 100_000, "`refs` in BenchmarkFilter")

// BenchmarkFilter measures filling a filter, and lookups of refs that the filter does not have.
func BenchmarkFilter(b *testing.B) {
	key := func(n int) exchange.RefKey {
		return exchange.RefKey{Account: "1234567", Ref: exchange.Ref(fmt.Sprintf("client-7:%d", n))}
	}
	fill := func() *refFilter {
		f := newRefFilter()
		f.add(func(yield func(exchange.RefKey) bool) {
			for n := range *refsCount {
				yield(key(n))
			}
		})
		return f
	}
	b.Run("add", func(b *testing.B) {
		var f *refFilter
		for b.Loop() {
			f = fill()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N**refsCount), "ns/ref")
		b.ReportMetric(float64(f.bytes())/float64(*refsCount), "B/ref")
	})
	f := fill()
	b.Run("ask", func(b *testing.B) {
		passed, n := 0, *refsCount
		for b.Loop() {
			n++
			if f.mayHave(key(n)) {
				passed++
			}
		}
		b.ReportMetric(float64(passed)/float64(b.N)*1e6, "passed/million")
	})
}

func BenchmarkHandOff(b *testing.B) {
	m := open(b, Options{})
	commands, results := requests(queryOf(1)), make([]exchange.Result, 1)
	m.do(buy("A", 1, 1))
	b.ReportAllocs()
	for b.Loop() {
		m.Engine.Execute(background, commands, results)
	}
}

func BenchmarkOrder(b *testing.B) {
	for _, c := range []struct {
		batch int
		refs  bool
	}{{1, false}, {1, true}, {16, false}, {16, true}} {
		batch := c.batch
		b.Run(fmt.Sprintf("together=%d/refs=%t", batch, c.refs), func(b *testing.B) {
			db := &database{}
			db.applied.Store(1 << 62)
			m := open(b, Options{Projection: db, History: db})
			commands, results := make([]Request, batch), make([]exchange.Result, batch)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for k := range commands {
					if commands[k].Command = buy("A", 1, 1); (i+k)%2 == 0 {
						commands[k].Command = sell("A", 1, 1)
					}
					if c.refs {
						commands[k].Ref = exchange.Ref(fmt.Sprintf("client-7:%d", i*batch+k))
					}
				}
				m.Engine.Execute(background, commands, results)
			}
		})
	}
}

// BenchmarkExecuteManySymbols executes a batch of 16 orders in 16 symbols, all rejected. It measures
// the cost of finding the owners and of moving the task from one to the next.
func BenchmarkExecuteManySymbols(b *testing.B) {
	m := open(b, Options{})
	commands := make([]Request, 16)
	for i := range commands {
		sym := exchange.Symbol(fmt.Sprint("SYM", i))
		m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym})
		commands[i].Command = exchange.Command{Kind: exchange.PlaceOrder, Account: "2", Symbol: sym,
			Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}, Shares: 1}
	}
	results := make([]exchange.Result, len(commands))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Engine.Execute(background, commands, results); err != nil {
			b.Fatal(err)
		}
	}
	if results[0].Reason != exchange.InsufficientFunds {
		b.Fatal(results[0].Reason)
	}
}

// BenchmarkCancelAll cancels the open orders of an account in one symbol, while the exchange has
// many symbols with open orders of other accounts.
func BenchmarkCancelAll(b *testing.B) {
	for _, symbols := range []int{10, 1000} {
		for _, orders := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("symbols=%d/open=%d", symbols, orders), func(b *testing.B) {
				m := open(b, Options{})
				for n := range symbols {
					sym := exchange.Symbol(fmt.Sprint("S", n))
					m.all(exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym},
						exchange.Command{Kind: exchange.DepositShares, Symbol: sym, Account: "2", Deposited: exchange.Position{Lo: 1e9}})
				}
				for n := range orders {
					require.Equal(b, exchange.OK, m.do(sell(exchange.Symbol(fmt.Sprint("S", n%symbols)), 1, 9)).Reason)
				}
				m.do(buy("A", 1, 1))
				for b.Loop() {
					c, err := m.Engine.cancelAll(background, canceling{account: "1"}) // without the sync, most of the cost
					b.StopTimer()
					require.NoError(b, err)
					require.Equal(b, 1, c.result.Symbols[0].Orders)
					m.do(buy("A", 1, 1))
					b.StartTimer()
				}
			})
		}
	}
}
