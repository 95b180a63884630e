package scenario

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
)

// The flow of `market`: of ten orders, six rest near the price, one and a half
// cross, and two and a half cancel one that rests.
const (
	passiveShare = 0.60
	cancelShare  = 0.25

	tick        = 0.01
	middle      = 10_000 // ticks
	passiveFar  = 20     // ticks from the middle that a passive order may lie
	crossing    = 3      // ticks beyond the middle that a crossing order reaches
	moveOneIn   = 50     // orders after which the price moves by a tick
	sharesMost  = 100
	sweep       = 3   // how much larger than a passive order a crossing one is
	restingMost = 200 // orders that one client remembers as its own

	// In that flow orders that the price has left behind stay, and there are more of
	// them all the time. In the steady one crossing orders reach everything, and
	// together take more than comes.
	steadyCrossing = 1000
	steadySweep    = 5
)

// prices holds the middle of every symbol's market, in ticks. Any client moves it.
type prices []atomic.Int64

func newPrices(n int) prices {
	p := make(prices, n)
	for i := range p {
		p[i].Store(middle)
	}
	return p
}

// zipf draws symbols: a few are traded much, most hardly.
type zipf struct{ bounds []float64 }

func newZipf(n int) zipf {
	z := zipf{make([]float64, n)}
	sum := 0.0
	for i := range z.bounds {
		sum += 1 / float64(i+1)
		z.bounds[i] = sum
	}
	return z
}

func (z zipf) draw(r *rand.Rand) int {
	at, _ := slices.BinarySearch(z.bounds, r.Float64()*z.bounds[len(z.bounds)-1])
	return min(at, len(z.bounds)-1)
}

// trader sends the flow of a market for one account.
type trader struct {
	run     *Run
	r       *rand.Rand
	account string
	draw    func(*rand.Rand) int // a symbol
	reach   int64                // of crossing orders, in ticks beyond the middle
	sweep   int64
	tally   *Tally
	resting []uint64
	refs    string // what its refs begin with
	sent    int64  // orders with one
	xml     []byte
}

// newTrader returns the flow of one client.
func newTrader(r *Run, client int, draw func(*rand.Rand) int) load.Source {
	return r.limited(&trader{run: r, r: r.random(client), account: r.account(client%max(r.Params.Accounts, 1) + 1),
		draw: draw, reach: crossing, sweep: sweep, tally: r.tally(), refs: refsOf(client)})
}

// newSteadyTrader returns the flow of one client of a market that stays as it is.
func newSteadyTrader(r *Run, client int) load.Source {
	return r.limited(&trader{run: r, r: r.random(client), account: r.account(client%max(r.Params.Accounts, 1) + 1),
		draw:  r.weights.draw,
		reach: steadyCrossing, sweep: steadySweep, tally: r.tally(), refs: refsOf(client)})
}

func refsOf(client int) string { return "client-" + strconv.Itoa(client) + ":" }

func (t *trader) Next() []byte {
	b := append(t.xml[:0], `<transactions id="`...)
	b = append(append(b, t.account...), `">`...)
	n := max(t.run.Params.PerFrame, 1)
	for range n {
		b = t.command(b)
	}
	t.xml = append(b, "</transactions>"...)
	t.tally.owes(n)
	return t.xml
}

func (t *trader) command(b []byte) []byte {
	what := t.r.Float64()
	if n := len(t.resting); n > 0 && what < cancelShare {
		at := t.r.IntN(n)
		id := t.resting[at]
		t.resting[at] = t.resting[n-1]
		t.resting = t.resting[:n-1]
		b = append(b, `<cancel id="`...)
		return append(strconv.AppendUint(b, id, 10), `"/>`...)
	}
	sym := t.draw(t.r)
	price := &t.run.prices[sym]
	if t.r.IntN(moveOneIn) == 0 {
		price.Add(int64(2*t.r.IntN(2) - 1))
	}
	at, buys := price.Load(), t.r.IntN(2) == 0
	away, shares := int64(1+t.r.IntN(passiveFar)), int64(1+t.r.IntN(sharesMost))
	if what > cancelShare+passiveShare {
		away, shares = -t.reach, t.sweep*shares
	}
	if buys {
		away = -away
	}
	b = t.run.appendSymbol(append(b, `<order sym="`...), sym)
	b = append(b, `" amount="`...)
	if !buys {
		b = append(b, '-')
	}
	b = strconv.AppendInt(b, shares, 10)
	b = append(b, `" limit="`...)
	b = strconv.AppendFloat(b, float64(max(at+away, 1))*tick, 'f', 2, 64)
	if t.run.Params.Refs {
		t.sent++
		b = append(append(b, `" ref="`...), t.refs...)
		b = strconv.AppendInt(b, t.sent, 10)
	}
	return append(b, `"/>`...)
}

// Reply implements load.Source. A cancel may come too late.
func (t *trader) Reply(xml []byte) error {
	err := t.tally.take(xml, tooLate)
	t.resting = append(t.resting, t.tally.opened...)
	if more := len(t.resting) - restingMost; more > 0 {
		t.resting = append(t.resting[:0], t.resting[more:]...) // the oldest are left to the market
	}
	return err
}

// restOrders lets orders rest far from the middle, evenly over the symbols: order n is of account n mod
// their number, and a frame has orders of one account.
func restOrders(r *Run) (frames []prepared) {
	decimals := 2
	if r.Any {
		decimals = 0
	}
	step := max(r.Params.Accounts, 1)
	for account := range step {
		for n := account; n < r.Params.Orders; {
			f, t := prepared{order: n, step: step}, wire.NewTransactions(r.account(account+1))
			for i := 0; i < perCreate && n < r.Params.Orders; i++ {
				// Beyond what traders reach: these orders stay.
				away := passiveFar + 1000 + n/max(r.Params.Symbols, 1)%5000
				amount, limit := "1", middle-away
				if n/r.Params.Symbols%2 == 0 {
					amount, limit = "-1", middle+away
				}
				t.Order(r.symbol(n%r.Params.Symbols), amount, strconv.FormatFloat(float64(limit)*tick, 'f', decimals, 64))
				n += step
			}
			f.xml = t.Append(nil)
			frames = append(frames, f)
		}
	}
	return frames
}
