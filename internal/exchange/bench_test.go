package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkLadder measures the price level index: levels are made and dropped
// near the best price of a book of some width, and anywhere in a wide one. The
// last chunk length stands for one sorted slice.
func BenchmarkLadder(b *testing.B) {
	for _, spread := range []int{100, 10_000, 1_000_000} {
		for _, chunkMax := range []int{64, 256, 1024, math.MaxInt} {
			b.Run(fmt.Sprintf("levels=%d/chunk=%d", spread, chunkMax), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				l := ladder{sign: 1, chunkMax: chunkMax}
				o := &Order{}
				for _, p := range r.Perm(spread) {
					if p%2 == 0 {
						l.at(Price(p + 1)).push(o) // every other price is there
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					p := Price(r.IntN(spread) + 1)
					if spread > 100 && r.IntN(10) > 0 {
						p = Price(spread - r.IntN(100)) // nine of ten near the best
					}
					if lv := l.at(p); lv.oldest == nil {
						l.drop(lv)
					}
				}
			})
		}
	}
}

// flow drives a book with passive orders near a moving price, cancels, and sweeps.
type flow struct {
	r       *rand.Rand
	book    *Book
	account *Account
	id      OrderID
	price   Price
	open    []OrderID
	fills   []Fill
}

func newFlow(resting int) *flow {
	f := &flow{r: rand.New(rand.NewPCG(3, 4)), book: NewBook(), account: &Account{ID: "1"}, price: 1_000_000}
	for f.book.Resting() < resting {
		f.passive()
	}
	return f
}

func (f *flow) submit(side Side, shares Shares, limit Price) {
	f.id++
	o := NewOrder(f.id, f.account, side, shares, limit)
	f.fills = f.book.Submit(o, 1, f.fills[:0])
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

func (f *flow) passive() {
	f.price += Price(f.r.IntN(3) - 1)
	offset := Price(1 + f.r.IntN(200))
	if f.r.IntN(2) == 0 {
		f.submit(Buy, Shares(1+f.r.IntN(100)), f.price-offset)
	} else {
		f.submit(Sell, Shares(1+f.r.IntN(100)), f.price+offset)
	}
}

func (f *flow) step() {
	switch n := f.r.IntN(100); {
	case n < 60:
		f.passive()
	case n < 85:
		for len(f.open) > 0 {
			i := f.r.IntN(len(f.open))
			id := f.open[i]
			f.open[i] = f.open[len(f.open)-1]
			f.open = f.open[:len(f.open)-1]
			if _, r := f.book.Cancel(id, "1", 1); r == OK {
				f.book.Forget(id)
				return
			}
		}
	default:
		if f.r.IntN(2) == 0 {
			f.submit(Buy, Shares(100+f.r.IntN(400)), f.book.Best(Sell)+Price(f.r.IntN(5)))
		} else {
			f.submit(Sell, Shares(100+f.r.IntN(400)), max(1, f.book.Best(Buy)-Price(f.r.IntN(5))))
		}
	}
}

func BenchmarkBook(b *testing.B) {
	f := newFlow(10_000)
	b.ReportAllocs()
	for b.Loop() {
		f.step()
	}
}

func BenchmarkReserveAndSettle(b *testing.B) {
	l := NewLedger()
	l.Open("1", Cash(mul64(1e18, 1e18)))
	l.Open("2", Cash{})
	li := l.List("S")
	l.Place(li, "2", Position{Lo: math.MaxInt64})
	sell := NewOrder(1, l.Account("2"), Sell, math.MaxInt64/2, 5)
	l.Reserve(li, sell)
	l.Settle(li, sell, nil)
	buy := NewOrder(2, l.Account("1"), Buy, 1, 7)
	fills := []Fill{{Resting: 1, Account: "2", Shares: 1, Price: 5, resting: sell}}
	b.ReportAllocs()
	for b.Loop() {
		l.Reserve(li, buy)
		l.Settle(li, buy, fills)
	}
}

var sampleEvent = Event{Kind: OrderAccepted, Time: 1519348326, Order: 123456, Account: "1001", Symbol: "SPY", Side: Buy,
	Shares: 100e8, Limit: 14567e6, Fills: []Fill{{Resting: 123000, Account: "17", Shares: 50e8, Price: 14560e6}}}

func BenchmarkAppendEvent(b *testing.B) {
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendEvent(buf[:0], &sampleEvent)
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	buf := AppendEvent(nil, &sampleEvent)
	var e Event
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeEvent(buf, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseLimit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		ParseLimit("145.67")
	}
}
