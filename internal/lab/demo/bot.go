package demo

import (
	"math/rand/v2"
	"slices"
	"strings"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// kind says how a bot trades.
type kind int

const (
	maker kind = iota // quotes both sides around the fair price, and moves its quotes with it
	taker             // takes what rests near the fair price, and cancels what it did not get
	noise             // places and cancels a little, anywhere near
)

// What an account begins with. Bots lean against what they have gathered, so that it
// lasts: a bot that was refused for want of it would only go on with the other side.
const (
	startingCash   = "1000000000"
	startingShares = "1000000"
)

// How bots trade; prices in ticks, orders of one bot.
const (
	makerSideMost   = 12  // orders that a maker has open on a side
	makerHalfSpread = 2   // from the fair price to its best quote, at the least
	makerDepth      = 24  // further away that a quote may be
	makerStale      = 36  // from the fair price: a quote there is canceled
	takerReach      = 8   // beyond the fair price that a taker pays at the most
	noiseFar        = 30  // from the fair price that noise may be
	noiseInside     = 4   // beyond the fair price that noise may reach
	noiseMost       = 8   // orders that a noise bot has open
	leanShares      = 500 // gathered shares for which a maker moves its quotes by a tick
	leanMost        = 10
	leanCertain     = 4000 // gathered shares from which on a taker only gives back
	cancelsMost     = 4    // of one frame
	queriesMost     = 3    // of one frame, besides those of orders in doubt
)

// bot is one trader with one account. It knows its orders from answers alone.
type bot struct {
	kind      kind
	market    *market
	fair      *fair
	account   string
	r         *rand.Rand
	open      []*order        // those that it takes to be open, oldest first
	inventory exchange.Shares // bought less sold, as far as it knows
	asked     []request       // the children of its frame that has no answer yet
	nextQuery int
	unknown   bool // the answer to an order was lost: it may be open
}

// order is one that a bot has placed.
type order struct {
	id       string
	side     exchange.Side
	ticks    int64 // limit
	executed int   // executions that the bot knows
	doubt    bool  // what the bot knows of it may be wrong: it asks before anything else
}

// request is one child of a frame.
type request struct {
	kind  exchange.CommandKind // PlaceOrder, QueryOrder or CancelOrder
	order *order
}

// act decides what the bot does now, and returns its frame and how many orders it
// places. The answers go to told.
func (b *bot) act() (frame []byte, placed int) {
	t := wire.NewTransactions(b.account)
	b.asked = b.asked[:0]
	switch b.kind {
	case maker:
		placed = b.quote(t)
	case taker:
		placed = b.take(t)
	case noise:
		placed = b.wander(t)
	}
	b.query(t)
	return t.Append(nil), placed
}

// quote cancels what the fair price has left behind, makes room, and places a bid
// and an ask. A maker that has gathered shares quotes lower, to sell them.
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
		// Of two draws the nearer: quotes are denser where trading is.
		away := makerHalfSpread + min(b.r.Int64N(makerDepth), b.r.Int64N(makerDepth))
		shares := 10 * (1 + b.r.Int64N(30))
		if len(b.open)+placed < 2*makerSideMost+cancelsMost {
			b.place(t, side, middle-toward(side)*away, shares)
			placed++
		}
	}
	return placed
}

// take cancels what is left of earlier orders and places one that takes.
func (b *bot) take(t *wire.Transactions) int {
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

// wander cancels an order sometimes, and places a small one.
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

// toward is the direction of prices that a side pays more with.
func toward(side exchange.Side) int64 {
	if side == exchange.Buy {
		return 1
	}
	return -1
}

// place adds an order to the frame.
func (b *bot) place(t *wire.Transactions, side exchange.Side, ticks, shares int64) {
	amount := exchange.Shares(toward(side)*shares) * oneShare
	t.Order(b.fair.sym, amount.String(), (exchange.Price(ticks) * tick).String())
	b.asked = append(b.asked, request{exchange.PlaceOrder, &order{side: side, ticks: ticks}})
}

// cancel adds the cancel of an order, unless the frame has enough of them already or
// the order is in doubt.
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

// query adds queries of all orders in doubt and of a few others, in turn: an order
// that rests does not tell by itself that it is executed.
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

// told takes in the answers to the bot's last frame, one for each child.
func (b *bot) told(answers []wire.Answer) {
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
			q.order.doubt = true // executed, most likely; a query tells
		case a.Kind == "error":
			b.drop(q.order) // the exchange has forgotten it
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

// lost takes in that the frame may have been done and its answers will not come.
func (b *bot) lost() {
	for _, q := range b.asked {
		q.order.doubt = true
		b.unknown = b.unknown || q.kind == exchange.PlaceOrder
	}
	b.asked = b.asked[:0]
}

// sweep returns a frame that cancels all open orders, but asks after those in doubt.
// The answers go to told.
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

// describe names a symbol and its last price.
func (f *fair) describe() string {
	if f.last == 0 {
		return f.sym + " -"
	}
	whole, fraction, _ := strings.Cut(f.last.String(), ".")
	return f.sym + " " + whole + "." + (fraction + "00")[:max(2, len(fraction))]
}
