package exchange

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for name, parse := range map[string]func() error{
		"limit":   func() error { _, err := ParseLimit("145.67"); return err },
		"amount":  func() error { _, _, err := ParseAmount("-100"); return err },
		"balance": func() error { _, err := ParseBalance("999999999999999999.99999999"); return err },
		"order":   func() error { _, err := ParseOrderID("1000001"); return err },
		"account": func() error { _, err := ParseAccountID("123456"); return err },
		"symbol":  func() error { _, err := ParseSymbol("SPY"); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := parse(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, value := range map[string]interface{ Append([]byte) []byte }{
		"shares": Shares(100e8), "price": Price(145.67e8), "long price": Price(89999999999_12345678),
		"cash": dollars100, "large cash": Cash{Hi: 123456789, Lo: 987654321},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = value.Append(dst[:0])
			}
		})
	}
}

var dollars100 = Cash{Lo: 100e16}

// flow makes orders and cancels around a moving price: 60 % rest, 25 % are
// cancels of a random resting order, 15 % take one to five levels. A step is done
// otherwise only where the number of resting orders would run away.
type flow struct {
	r                     *rand.Rand
	book                  *Book
	account               *Account
	next                  OrderID
	middle                Price
	target                int       // of resting orders
	open                  []OrderID // may hold closed ones; they are skipped
	fills                 []Fill
	adds, cancels, sweeps int
}

func newFlow(orders int) *flow {
	f := &flow{r: rand.New(rand.NewPCG(1, 2)), book: NewBook(), account: &Account{ID: "1"}, middle: 1_000_000, target: orders}
	for f.book.Resting() < orders {
		f.add()
	}
	return f
}

const tick = 1e6 // a cent

// add lets an order rest up to 20,000 ticks from the middle, rather nearer.
func (f *flow) add() {
	f.adds++
	side, distance := Buy, -1-min(f.r.Int64N(20_000), f.r.Int64N(20_000))
	if f.r.IntN(2) == 0 {
		side, distance = Sell, -distance
	}
	f.submit(side, 100+f.r.Int64N(100), f.middle+Price(distance))
}

func (f *flow) submit(side Side, shares int64, limit Price) {
	f.next++
	o := NewOrder(f.next, f.account, side, Shares(shares), limit*tick)
	f.fills = f.book.Submit(o, 0, f.fills[:0])
	if o.Open > 0 {
		f.open = append(f.open, o.ID)
	} else {
		f.book.Forget(o.ID)
	}
	for i := range f.fills {
		if r := f.fills[i].resting; r.Open == 0 {
			f.book.Forget(r.ID)
		}
	}
}

// cancel takes back a random resting order.
func (f *flow) cancel() {
	f.cancels++
	for len(f.open) > 0 {
		i := f.r.IntN(len(f.open))
		id := f.open[i]
		f.open[i] = f.open[len(f.open)-1]
		f.open = f.open[:len(f.open)-1]
		if _, r := f.book.Cancel(id, "1", 0); r == OK {
			f.book.Forget(id)
			return
		}
	}
}

// sweep buys or sells what stands at the best one to five levels.
func (f *flow) sweep() {
	f.sweeps++
	side := Buy + Side(f.r.IntN(2))
	levels, shares, limit := 1+min(f.r.IntN(5), f.r.IntN(5)), int64(0), Price(0)
	f.book.side(side.opposite()).each(func(lv *level) bool {
		for o := lv.oldest; o != nil; o = o.next {
			shares += int64(o.Open)
		}
		limit, levels = lv.price, levels-1
		return levels > 0
	})
	if shares > 0 {
		f.submit(side, shares, limit/tick)
	}
}

func (f *flow) step() {
	n, resting := f.r.IntN(100), f.book.Resting()
	switch {
	case n >= 85:
		f.sweep()
	case n < 60 && resting < f.target*11/10 || resting < f.target*9/10:
		f.add()
	default:
		f.cancel()
	}
	f.middle += Price(f.r.Int64N(3) - 1)
}

// BenchmarkBook is one step of the mixed flow with 10,000 orders resting. The
// benchmark's own choice of what to do, and of what a sweep takes, is part of it.
func BenchmarkBook(b *testing.B) {
	f := newFlow(10_000)
	f.adds = 0
	fills := 0
	b.ReportAllocs()
	for b.Loop() {
		f.fills = f.fills[:0]
		f.step()
		fills += len(f.fills)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(fills)/float64(b.N), "fills/op")
	b.ReportMetric(100*float64(f.adds)/float64(b.N), "add-%")
	b.ReportMetric(100*float64(f.cancels)/float64(b.N), "cancel-%")
	b.ReportMetric(100*float64(f.sweeps)/float64(b.N), "sweep-%")
	b.ReportMetric(float64(f.book.Resting()), "resting")
	if err := f.book.Check(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBookAddCancel is an order that rests and its cancel, the most common
// pair on an exchange.
func BenchmarkBookAddCancel(b *testing.B) {
	f := newFlow(10_000)
	b.ReportAllocs()
	for b.Loop() {
		f.next++
		f.book.Submit(NewOrder(f.next, f.account, Buy, 100, (f.middle-Price(f.next%500)-1)*tick), 0, nil)
		if _, r := f.book.Cancel(f.next, "1", 0); r != OK {
			b.Fatal(r)
		}
		f.book.Forget(f.next)
	}
}

// BenchmarkLedgerReserveSettle is the hold of a buy and its settlement with one
// fill, and those of the sell that gives the shares back.
func BenchmarkLedgerReserveSettle(b *testing.B) {
	l := NewLedger()
	li := l.List("SPY")
	l.Open("1", Cash(mul64(1e18, 1e16)))
	l.Open("2", Cash(mul64(1e18, 1e16)))
	l.Place(li, "1", Position{Lo: 1e18})
	l.Place(li, "2", Position{Lo: 1e18})
	one, two := l.Account("1"), l.Account("2")
	buy, sell := NewOrder(1, one, Buy, 100e8, 12e8), NewOrder(2, two, Sell, 100e8, 11e8)
	fills := []Fill{{Resting: 2, Shares: 100e8, Price: 11e8, resting: sell}}
	b.ReportAllocs()
	for b.Loop() {
		if l.Reserve(li, sell) != OK || l.Reserve(li, buy) != OK {
			b.Fatal("refused")
		}
		l.Settle(li, sell, nil)
		l.Settle(li, buy, fills)
		buy.Account, sell.Account = sell.Account, buy.Account // the shares go back
	}
	if err := l.Check(); err != nil {
		b.Fatal(err)
	}
}

// orderEvent is an accepted order with some fills.
func orderEvent(fills int) *Event {
	e := &Event{Kind: OrderAccepted, Time: 1519348326, Account: "123456", Symbol: "SPY", Side: Buy, Order: 1_000_000, Shares: 1000e8, Limit: 145_67000000}
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
			var e Event
			b.ReportAllocs()
			for b.Loop() {
				if err := DecodeEvent(record, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply is the replay of a random session, for each event.
func BenchmarkApply(b *testing.B) {
	s := newRandomSession(rand.New(rand.NewPCG(1, 2)))
	s.run(20_000)
	b.ReportAllocs()
	for b.Loop() {
		again := NewState()
		for i := range s.events {
			if err := again.Apply(&s.events[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(s.events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
