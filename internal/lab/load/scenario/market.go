package scenario

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
)

// The flow of `market`: of ten orders, on average six rest near the price, 1.5 cross, and 2.5 cancel a resting
// order.
const (
	passiveShare = 0.60
	cancelShare  = 0.25

	tick        = 0.01
	middle      = 10_000 // ticks
	passiveFar  = 20     // maximum distance of a passive order from the middle, in ticks
	crossing    = 3      // ticks beyond the middle that a crossing order may reach
	moveOneIn   = 50     // orders between two moves of the price by a tick, on average
	sharesMost  = 100
	sweep       = 3   // size of a crossing order relative to a passive one
	restingMost = 200 // a client's own resting orders that it remembers, at most

	// In the flow of `market`, orders that the price has moved away from stay open, so their number
	// grows. In the steady flow crossing orders reach every order, and together execute more shares than
	// passive orders add.
	steadyCrossing = 1000
	steadySweep    = 5
)

// prices holds the middle of every symbol's market, in ticks. All clients move it.
type prices []atomic.Int64

func newPrices(n int) prices {
	p := make(prices, n)
	for i := range p {
		p[i].Store(middle)
	}
	return p
}

// zipf draws symbols by a Zipf distribution: a few symbols trade a lot, most hardly at all.
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
	draw    func(*rand.Rand) int // draws a symbol
	reach   int64                // how far a crossing order reaches beyond the middle, in ticks
	sweep   int64
	tally   *Tally
	resting []uint64
	refs    string // prefix of the refs
	sent    int64  // orders sent with a ref
	xml     []byte
}

// newTrader returns the source of one client of `market`.
func newTrader(r *Run, client int, draw func(*rand.Rand) int) load.Source {
	return r.limited(&trader{run: r, r: r.random(client), account: r.account(client%max(r.Params.Accounts, 1) + 1),
		draw: draw, reach: crossing, sweep: sweep, tally: r.tally(), refs: refsOf(client)})
}

// newSteadyTrader returns the source of one client of the steady market.
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

// Reply implements load.Source. It accepts cancels that come too late.
func (t *trader) Reply(xml []byte) error {
	err := t.tally.addReply(xml, tooLate)
	t.resting = append(t.resting, t.tally.opened...)
	if more := len(t.resting) - restingMost; more > 0 {
		t.resting = append(t.resting[:0], t.resting[more:]...) // drop the oldest, which stay in the market
	}
	return err
}

// restOrders returns frames with orders that rest far from the middle, evenly over the symbols. Order n
// belongs to account n mod the number of accounts, and a frame has orders of one account.
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
				// Beyond the reach of traders, so these orders stay open.
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
