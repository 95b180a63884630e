package engine

import (
	"fmt"
	"testing"

	"outcry/internal/exchange"
)

func BenchmarkHandOff(b *testing.B) {
	m := open(b, Options{})
	commands, results := []exchange.Command{queryOf(1)}, make([]exchange.Result, 1)
	m.do(buy("A", 1, 1))
	b.ReportAllocs()
	for b.Loop() {
		m.Execute(background, commands, results)
	}
}

func BenchmarkOrder(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("together=%d", batch), func(b *testing.B) {
			m := open(b, Options{})
			commands, results := make([]exchange.Command, batch), make([]exchange.Result, batch)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for k := range commands {
					if commands[k] = buy("A", 1, 1); (i+k)%2 == 0 {
						commands[k] = sell("A", 1, 1)
					}
				}
				m.Execute(background, commands, results)
			}
		})
	}
}

// BenchmarkExecuteManySymbols is a batch of 16 orders in as many symbols, all refused:
// what it costs to find the owners and to go from one to the next.
func BenchmarkExecuteManySymbols(b *testing.B) {
	m := open(b, Options{})
	commands := make([]exchange.Command, 16)
	for i := range commands {
		sym := exchange.Symbol(fmt.Sprint("SYM", i))
		m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym})
		commands[i] = exchange.Command{Kind: exchange.PlaceOrder, Account: "2", Symbol: sym, Side: exchange.Buy, Shares: 1, Limit: 1}
	}
	results := make([]exchange.Result, len(commands))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Execute(background, commands, results); err != nil {
			b.Fatal(err)
		}
	}
	if results[0].Reason != exchange.InsufficientFunds {
		b.Fatal(results[0].Reason)
	}
}
