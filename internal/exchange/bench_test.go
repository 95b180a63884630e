package exchange

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkParseLimit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLimit("145.67"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseBalance(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseBalance("999999999999999999.99999999"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPrice(b *testing.B) {
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst = Price(14567000000).Append(dst[:0])
	}
}

func BenchmarkAppendCash(b *testing.B) {
	b.ReportAllocs()
	var dst []byte
	c := Cash{Hi: 123456789, Lo: 987654321}
	for b.Loop() {
		dst = c.Append(dst[:0])
	}
}

// BenchmarkLedgerReserveSettle reserves and settles a buy with one fill, and then
// the sell that gives the shares back.
func BenchmarkLedgerReserveSettle(b *testing.B) {
	l := NewLedger()
	in := l.List("SPY")
	l.Open("1", Cash(mul64(1e18, 1e16)))
	l.Open("2", Cash(mul64(1e18, 1e16)))
	l.Deposit(in, "1", Position{Lo: 1e18})
	l.Deposit(in, "2", Position{Lo: 1e18})
	one, two := l.Account("1"), l.Account("2")
	buy, sell := NewOrder(1, one, Buy, 100e8, 12e8), NewOrder(2, two, Sell, 100e8, 11e8)
	fills := []Fill{{Resting: 2, Shares: 100e8, Price: 11e8, owner: sell.Account}}
	b.ReportAllocs()
	for b.Loop() {
		if l.Reserve(in, sell) != OK || l.Reserve(in, buy) != OK {
			b.Fatal("refused")
		}
		l.Settle(in, sell, nil)
		l.Settle(in, buy, fills)
		buy.Account, sell.Account, fills[0].owner = sell.Account, buy.Account, buy.Account // the shares go back
	}
	if err := l.Check(); err != nil {
		b.Fatal(err)
	}
}

// orderEvent returns an OrderAccepted event with the given number of fills.
func orderEvent(fills int) *Event {
	e := &Event{Kind: OrderAccepted, Time: 1519348326, Account: "123456", Symbol: "SPY", Terms: Terms{Side: Buy,
		Limit: 145_67000000}, Order: 1_000_000,
		Shares: 1000e8}
	for i := range fills {
		e.Fills = append(e.Fills, Fill{Resting: OrderID(900_000 + i), Account: "654321", Shares: 100e8, Price: 145_66000000})
	}
	return e
}

func BenchmarkAppendEvent(b *testing.B) {
	for _, fills := range []int{0, 1, 5} {
		b.Run(fmt.Sprintf("fills=%d", fills), func(b *testing.B) {
			e := orderEvent(fills)
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendEvent(dst[:0], e)
			}
			b.ReportMetric(float64(len(dst)), "bytes")
		})
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	for _, fills := range []int{0, 1, 5} {
		b.Run(fmt.Sprintf("fills=%d", fills), func(b *testing.B) {
			record := AppendEvent(nil, orderEvent(fills))
			var d Decoder
			var e Event
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(record, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply replays a random session; an operation is one event.
func BenchmarkApply(b *testing.B) {
	s := newRandomSession(rand.New(rand.NewPCG(1, 2)))
	s.run(20_000)
	b.ReportAllocs()
	for b.Loop() {
		again := NewState()
		again.Index.FillsMax = fewFills
		for i := range s.events {
			if err := again.Apply(&s.events[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(s.events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
