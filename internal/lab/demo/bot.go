package demo

import (
	"math/rand/v2"
	"slices"
	"strings"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// kind is a bot's way of trading.
type kind int

const (
	maker kind = iota // quotes both sides around the fair price, and moves its quotes with the price
	taker             // executes against resting orders near the fair price, and cancels the rest of its order
	noise             // places and cancels a few orders at random near the fair price
)

// Cash and shares that an account starts with. Makers and takers prefer trades that reduce their inventory, so that
// neither runs out: a bot without cash could only sell, and one without shares only buy.
const (
	startingCash   = "1000000000"
	startingShares = "1000000"
)

// How bots trade. Prices are in ticks; counts are per bot.
const (
	makerSideMost   = 12  // a maker's open orders on one side, at most
	makerHalfSpread = 2   // minimum distance of a maker's best quote from the fair price
	makerDepth      = 24  // maximum further distance of a quote
	makerStale      = 36  // distance from the fair price at which a quote is canceled
	takerReach      = 8   // how far beyond the fair price a taker pays, at most
	noiseFar        = 30  // maximum distance of a noise order from the fair price
	noiseInside     = 4   // how far beyond the fair price a noise order may cross
	noiseMost       = 8   // a noise bot's open orders, at most
	leanShares      = 500 // accumulated shares for which a maker moves its quotes by one tick
	leanMost        = 10
	leanCertain     = 4000 // accumulated shares above which a taker only reduces them
	cancelsMost     = 4    // cancels in one frame, at most
	queriesMost     = 3    // queries in one frame, at most, besides those of orders in doubt
)

// bot is one trader with one account. It knows its orders only from answers.
type bot struct {
	kind      kind
	market    *market
	fair      *fair
	account   string
	r         *rand.Rand
	open      []*order        // orders it believes to be open, oldest first
	inventory exchange.Shares // shares bought minus shares sold, as far as the bot knows
	asked     []request       // the requests of its unanswered frame
	nextQuery int
	unknown   bool // the answer to an order was lost, so the order may be open
}

// order is an order that a bot has placed.
type order struct {
	id       string
	side     exchange.Side
	ticks    int64 // the limit
	executed int   // number of executions the bot knows
	doubt    bool  // the bot's knowledge may be wrong, so it queries the order first
}

// request is one child of a frame.
type request struct {
	kind  exchange.CommandKind // PlaceOrder, QueryOrder or CancelOrder
	order *order
}

// act returns the bot's next frame and how many orders the frame places. The answers must be passed to
// processAnswers.
func (b *bot) act() (frame []byte, placed int) {
	t := wire.NewTransactions(b.account)
	b.asked = b.asked[:0]
	switch b.kind {
	case maker:
		placed = b.quote(t)
	case taker:
		placed = b.placeTaking(t)
	case noise:
		placed = b.wander(t)
	}
	b.query(t)
	return t.Append(nil), placed
}

// quote cancels quotes that are too far from the fair price, makes room, and places a bid and an ask. A
// maker that has accumulated shares quotes lower, to sell them.
func (b *bot) quote(t *wire.Transactions) int {
	lean := int64(b.inventory / (leanShares * oneShare))
	middle := b.fair.now - min(max(lean, -leanMost), leanMost)
	bids, asks := 0, 0
	var oldestBid, oldestAsk *order
	for _, o := range b.open {
		away := middle - o.ticks
		if o.side == exchange.Sell {
			away = -away
		}
		switch {
		case away < makerHalfSpread || away > makerStale:
			b.cancel(t, o)
		case o.side == exchange.Buy:
			if bids++; oldestBid == nil {
				oldestBid = o
			}
		default:
			if asks++; oldestAsk == nil {
				oldestAsk = o
			}
		}
	}
	if bids >= makerSideMost {
		b.cancel(t, oldestBid)
	}
	if asks >= makerSideMost {
		b.cancel(t, oldestAsk)
	}
	placed := 0
	for _, side := range []exchange.Side{exchange.Buy, exchange.Sell} {
		// The smaller of two draws: quotes are denser near the fair price.
		away := makerHalfSpread + min(b.r.Int64N(makerDepth), b.r.Int64N(makerDepth))
		shares := 10 * (1 + b.r.Int64N(30))
		if len(b.open)+placed < 2*makerSideMost+cancelsMost {
			b.place(t, side, middle-toward(side)*away, shares)
			placed++
		}
	}
	return placed
}

// placeTaking cancels the remainders of earlier orders and places an order that crosses the fair price.
func (b *bot) placeTaking(t *wire.Transactions) int {
	for _, o := range b.open {
		b.cancel(t, o)
	}
	side := exchange.Buy
	gathered := int64(b.inventory / oneShare)
	if b.r.Int64N(2*leanCertain)-leanCertain < gathered {
		side = exchange.Sell
	}
	reach := b.r.Int64N(takerReach + 1)
	shares := 10 * (1 + b.r.Int64N(40))
	if len(b.open) >= cancelsMost {
		return 0
	}
	b.place(t, side, b.fair.now+toward(side)*reach, shares)
	return 1
}

// wander sometimes cancels an order, and places a small one.
func (b *bot) wander(t *wire.Transactions) int {
	if len(b.open) >= noiseMost || len(b.open) > 0 && b.r.IntN(3) == 0 {
		b.cancel(t, b.open[b.r.IntN(len(b.open))])
	}
	side := exchange.Buy
	if b.r.IntN(2) == 0 {
		side = exchange.Sell
	}
	away := min(b.r.Int64N(noiseFar), b.r.Int64N(noiseFar)) - b.r.Int64N(noiseInside+1)
	shares := 1 + b.r.Int64N(60)
	if len(b.open) > noiseMost {
		return 0
	}
	b.place(t, side, b.fair.now-toward(side)*away, shares)
	return 1
}

// toward returns the price direction in which a side's orders become more aggressive: 1 for buys, -1 for
// sells.
func toward(side exchange.Side) int64 {
	if side == exchange.Buy {
		return 1
	}
	return -1
}

// place adds a new order to the frame.
func (b *bot) place(t *wire.Transactions, side exchange.Side, ticks, shares int64) {
	amount := exchange.Shares(toward(side)*shares) * oneShare
	t.Order(b.fair.sym, amount.String(), (exchange.Price(ticks) * tick).String())
	b.asked = append(b.asked, request{exchange.PlaceOrder, &order{side: side, ticks: ticks}})
}

// cancel adds a cancel of the order, unless the frame has enough cancels already or the order is in
// doubt.
func (b *bot) cancel(t *wire.Transactions, o *order) {
	if o.doubt || b.has(exchange.CancelOrder) >= cancelsMost {
		return
	}
	t.Cancel(o.id)
	b.asked = append(b.asked, request{exchange.CancelOrder, o})
}

func (b *bot) has(kind exchange.CommandKind) (n int) {
	for _, q := range b.asked {
		if q.kind == kind {
			n++
		}
	}
	return n
}

// query adds queries of all orders in doubt, and of a few others in turn: a bot learns of executions of
// its resting orders only by queries.
func (b *bot) query(t *wire.Transactions) {
	add := func(o *order) {
		t.Query(o.id)
		b.asked = append(b.asked, request{exchange.QueryOrder, o})
	}
	for _, o := range b.open {
		if o.doubt {
			add(o)
		}
	}
	for range min(queriesMost, len(b.open)) {
		b.nextQuery = (b.nextQuery + 1) % len(b.open)
		o := b.open[b.nextQuery]
		if !o.doubt && !slices.ContainsFunc(b.asked, func(q request) bool { return q.order == o }) {
			add(o)
		}
	}
}

// processAnswers processes the answers to the bot's last frame, one for each request.
func (b *bot) processAnswers(answers []wire.Answer) {
	for i, q := range b.asked {
		a := answers[i]
		switch {
		case q.kind == exchange.PlaceOrder && a.Kind == "opened":
			q.order.id = a.ID
			b.market.sawOrder(a.ID)
			b.market.opened++
			b.open = append(b.open, q.order)
		case q.kind == exchange.PlaceOrder:
			b.market.refused++
			b.market.why = a.Error
		case a.Kind == "error" && q.kind == exchange.CancelOrder:
			q.order.doubt = true // probably executed; a query will show it
		case a.Kind == "error":
			b.drop(q.order) // the exchange no longer knows the order
		default:
			b.market.learn(b, q.order, a.Executed)
			q.order.doubt = false
			if a.Kind == "canceled" || a.Open == "" {
				b.drop(q.order)
			}
		}
	}
	b.asked = b.asked[:0]
}

func (b *bot) drop(o *order) {
	b.open = slices.DeleteFunc(b.open, func(p *order) bool { return p == o })
}

// lost records that the answers to the frame will not arrive, so its commands may or may not have been
// executed.
func (b *bot) lost() {
	for _, q := range b.asked {
		q.order.doubt = true
		b.unknown = b.unknown || q.kind == exchange.PlaceOrder
	}
	b.asked = b.asked[:0]
}

// sweep returns a frame that cancels all open orders, and queries those in doubt instead. The answers
// must be passed to processAnswers.
func (b *bot) sweep() []byte {
	t := wire.NewTransactions(b.account)
	b.asked = b.asked[:0]
	for _, o := range b.open {
		if o.doubt {
			t.Query(o.id)
			b.asked = append(b.asked, request{exchange.QueryOrder, o})
			continue
		}
		t.Cancel(o.id)
		b.asked = append(b.asked, request{exchange.CancelOrder, o})
	}
	return t.Append(nil)
}

// describe returns the symbol and its last price.
func (f *fair) describe() string {
	if f.last == 0 {
		return f.sym + " -"
	}
	whole, fraction, _ := strings.Cut(f.last.String(), ".")
	return f.sym + " " + whole + "." + (fraction + "00")[:max(2, len(fraction))]
}
