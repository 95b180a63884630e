package demo

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// tick is the granularity of all limits: a cent.
const tick = exchange.Price(1e6)

// oneShare is one share.
const oneShare = exchange.Shares(1e8)

// Fair prices, in ticks.
const (
	lowestBase   = 2_000  // the lowest initial fair price is 20 dollars
	baseRange    = 38_000 // all initial fair prices are below 400 dollars
	lowestFair   = 500    // the lowest fair price: limits near it stay above 0
	trendOneIn   = 200    // rounds between changes of the trend, on average
	moveOneIn    = 4      // rounds between moves of the price, on average
	moveMost     = 2
	trendShowsIn = 4 // one move in this many follows the trend
	pullWithin   = 4 // at a quarter of the base away from it, the price is always pulled back
)

// fair is the fair price of a symbol, known only to the bots: a random walk with trends that is pulled
// back to its starting price. It uses only integers, so that it is the same on every machine.
type fair struct {
	r          *rand.Rand
	base, now  int64 // in ticks
	trend      int64 // -1, 0 or 1
	sym        string
	last       exchange.Price // price of the newest execution known to a bot; 0 before the first
	lastSecond int64          // time of that execution
}

func newFair(seed uint64, sym string, n int) *fair {
	f := &fair{r: random(seed, streamFair, n), sym: sym}
	f.base = lowestBase + f.r.Int64N(baseRange)
	f.now = f.base
	return f
}

// step advances the price by one round.
func (f *fair) step() {
	if f.r.IntN(trendOneIn) == 0 {
		f.trend = f.r.Int64N(3) - 1
	}
	if f.r.IntN(moveOneIn) != 0 {
		return
	}
	move := f.r.Int64N(2*moveMost+1) - moveMost
	if f.r.IntN(trendShowsIn) == 0 {
		move += f.trend
	}
	away := f.now - f.base
	if f.r.Int64N(f.base/pullWithin) < max(away, -away) {
		move -= int64(cmp.Compare(away, 0))
	}
	f.now = max(f.now+move, lowestFair)
}

// The random streams derived from one seed. Each fair price and each bot has its own stream, so that an
// additional bot does not change the others' draws.
const (
	streamFair = iota
	streamBot
	streamMarket
)

func random(seed uint64, stream, n int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(stream)<<32|uint64(n)))
}

// market holds the bots and what they know. It only decides: it has no clock and no connection. The same
// seed and the same answers give the same frames. Not safe for concurrent use.
type market struct {
	r       *rand.Rand
	symbols []*fair
	bots    []*bot
	bounds  []int // bounds[i] is the total weight of bots 0 to i

	lastID   exchange.OrderID // highest order id in any answer
	opened   int              // orders accepted
	refused  int              // orders refused
	why      string           // text of the newest rejection
	executed int              // executions of sell orders
}

// weights are the relative shares of actions of the kinds of bots, for each symbol.
var weights = map[kind]int{maker: 6, taker: 2, noise: 3}

// symbolWeight is the weight of the first symbol; symbol i has 1/(i+1) of it.
const symbolWeight = 60

func newMarket(o Options) *market {
	m := &market{r: random(o.Seed, streamMarket, 0)}
	total := 0
	for i, sym := range o.Symbols {
		f := newFair(o.Seed, sym, i)
		m.symbols = append(m.symbols, f)
		for k, n := range []int{maker: o.Makers, taker: o.Takers, noise: o.Noise} {
			for range n {
				number := len(m.bots) + 1
				m.bots = append(m.bots, &bot{kind: kind(k), market: m, fair: f,
					account: o.AccountPrefix + strconv.Itoa(number), r: random(o.Seed, streamBot, number)})
				total += weights[kind(k)] * max(symbolWeight/(i+1), 1)
				m.bounds = append(m.bounds, total)
			}
		}
	}
	return m
}

// step begins a round by moving every fair price.
func (m *market) step() {
	for _, f := range m.symbols {
		f.step()
	}
}

// draw picks at random, by weight, the bot that acts next.
func (m *market) draw() *bot {
	at := m.r.IntN(m.bounds[len(m.bounds)-1])
	i, _ := slices.BinarySearchFunc(m.bounds, at, func(bound, at int) int {
		if at < bound {
			return 1
		}
		return -1
	})
	return m.bots[i]
}

// open returns how many orders the bots believe to be open.
func (m *market) open() (n int) {
	for _, b := range m.bots {
		n += len(b.open)
	}
	return n
}

// learn updates an order from the executions in an answer.
func (m *market) learn(b *bot, o *order, all []wire.Executed) {
	for _, x := range all[min(o.executed, len(all)):] {
		_, shares, err := exchange.ParseAmount(x.Shares)
		price, priceErr := exchange.ParseLimit(x.Price)
		second, timeErr := strconv.ParseInt(x.Time, 10, 64)
		if err != nil || priceErr != nil || timeErr != nil {
			continue // an invalid value, which no exchange sends: ignored
		}
		o.executed++
		if o.side == exchange.Sell {
			m.executed++
			shares = -shares
		}
		b.inventory += shares
		if second >= b.fair.lastSecond {
			b.fair.last, b.fair.lastSecond = price, second
		}
	}
}

// sawOrder raises lastID to id.
func (m *market) sawOrder(id string) {
	if n, err := exchange.ParseOrderID(id); err == nil {
		m.lastID = max(m.lastID, n)
	}
}

// accountsFrame returns a frame that opens the bots' accounts.
func accountsFrame(bots []*bot) []byte {
	var c wire.Create
	for _, b := range bots {
		c.Account(wire.Account{ID: b.account, Balance: startingCash})
	}
	return c.Append(nil)
}

// placementsFrame returns a frame that deposits shares of each bot's symbol with the bot.
func placementsFrame(bots []*bot) []byte {
	var c wire.Create
	for _, b := range bots {
		c.Symbol(b.fair.sym, wire.Placement{Account: b.account, Shares: startingShares})
	}
	return c.Append(nil)
}

// existed reports whether an answer says that the bot's account exists already.
func existed(a wire.Answer) bool {
	return a.Kind == "error" && strings.HasSuffix(a.Error, "already exists")
}
