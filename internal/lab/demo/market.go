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

// tick is the step of all limits: a cent.
const tick = exchange.Price(1e6)

// oneShare is a share in the units of exchange.Shares.
const oneShare = exchange.Shares(1e8)

// Fair prices, in ticks.
const (
	lowestBase   = 2_000  // a fair price begins at 20 dollars at the least,
	baseRange    = 38_000 // and below 400
	lowestFair   = 500    // and never gets so low that a limit near it is not above 0
	trendOneIn   = 200    // rounds after which the trend changes
	moveOneIn    = 4      // rounds after which the price moves
	moveMost     = 2
	trendShowsIn = 4 // moves of which one goes further with the trend
	pullWithin   = 4 // the pull back to the base is certain at a quarter of the base
)

// fair is the price that a symbol is worth, which only the bots know: a random
// walk with trends that is pulled back to where it began. It uses integers alone,
// so that it is the same on every machine.
type fair struct {
	r          *rand.Rand
	base, now  int64 // ticks
	trend      int64 // -1, 0 or 1
	sym        string
	last       exchange.Price // of the newest execution that a bot knows; 0 before the first
	lastSecond int64          // when that was
}

func newFair(seed uint64, sym string, n int) *fair {
	f := &fair{r: random(seed, streamFair, n), sym: sym}
	f.base = lowestBase + f.r.Int64N(baseRange)
	f.now = f.base
	return f
}

// step moves the price by one round.
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

// The streams of random numbers that one seed has. Each fair price and each bot
// draws from one of its own, so that a bot more changes nothing for the others.
const (
	streamFair = iota
	streamBot
	streamMarket
)

func random(seed uint64, stream, n int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(stream)<<32|uint64(n)))
}

// market is the bots and what they know. It decides and does nothing else: no
// clock, no connection. From the same seed and the same answers come the same
// frames. Not safe for concurrent use.
type market struct {
	r       *rand.Rand
	symbols []*fair
	bots    []*bot
	bounds  []int // bounds[i] is how much weight the bots up to i have

	lastID   exchange.OrderID // the newest order id that an answer told
	opened   int              // orders accepted
	refused  int              // orders refused
	why      string           // why the newest was
	executed int              // executions of orders to sell
}

// weights are the parts of all actions that the kinds of bots have, for each symbol.
var weights = map[kind]int{maker: 6, taker: 2, noise: 3}

// symbolWeight is that of the first symbol; the second has half of it, and so on.
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

// step begins a round: every fair price moves.
func (m *market) step() {
	for _, f := range m.symbols {
		f.step()
	}
}

// draw returns the bot that acts next.
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

// open returns how many orders the bots take to be open.
func (m *market) open() (n int) {
	for _, b := range m.bots {
		n += len(b.open)
	}
	return n
}

// learn takes in what an answer tells of an order's executions.
func (m *market) learn(b *bot, o *order, all []wire.Executed) {
	for _, x := range all[min(o.executed, len(all)):] {
		_, shares, err := exchange.ParseAmount(x.Shares)
		price, priceErr := exchange.ParseLimit(x.Price)
		second, timeErr := strconv.ParseInt(x.Time, 10, 64)
		if err != nil || priceErr != nil || timeErr != nil {
			continue // no exchange says so; the bots need not know
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

// sawOrder takes in that an order has this id.
func (m *market) sawOrder(id string) {
	if n, err := exchange.ParseOrderID(id); err == nil {
		m.lastID = max(m.lastID, n)
	}
}

// accountsFrame is a frame that opens the accounts of bots.
func accountsFrame(bots []*bot) []byte {
	var c wire.Create
	for _, b := range bots {
		c.Account(wire.Account{ID: b.account, Balance: startingCash})
	}
	return c.Append(nil)
}

// placementsFrame places shares of each bot's symbol with it.
func placementsFrame(bots []*bot) []byte {
	var c wire.Create
	for _, b := range bots {
		c.Symbol(b.fair.sym, wire.Placement{Account: b.account, Shares: startingShares})
	}
	return c.Append(nil)
}

// existed reports whether an answer to a bot's account says that it is there already.
func existed(a wire.Answer) bool {
	return a.Kind == "error" && strings.HasSuffix(a.Error, "already exists")
}
