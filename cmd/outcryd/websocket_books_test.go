package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/rpctest"
)

// hearer follows the channels of SPY and of account 1.
type hearer struct {
	t          *testing.T
	w          *rpctest.Conn
	book, slow rpctest.Book
	orders     rpctest.Orders
	trades     float64 // the newest trade's id
	n, fill    float64 // numbers of account 1's newest event and fill
}

func hear(t *testing.T, address string, after float64) *hearer {
	l := &hearer{t: t, w: rpctest.Dial(t, address, ""), book: rpctest.Book{T: t}, slow: rpctest.Book{T: t},
		orders: rpctest.Orders{T: t}}
	l.w.Must("subscribe", `{"channels":["book.SPY","book.SPY.100ms","orders.SPY","trades.SPY",`+
		`"ticker.SPY","candles.SPY.1m"]}`)
	params := `{"channels":["account.1"]}`
	if l.n = after; after > 0 {
		params = fmt.Sprintf(`{"channels":["account.1"],"after":%v}`, after)
	}
	l.w.Must("subscribe", params)
	return l
}

// next reads the next message, and checks that it continues the messages before it.
func (l *hearer) next() {
	t := l.t
	e := l.w.Event()
	switch e.Channel {
	case "book.SPY":
		l.book.Apply(e.Data)
	case "book.SPY.100ms":
		l.slow.Apply(e.Data)
	case "orders.SPY":
		l.orders.Apply(e.Data)
	case "trades.SPY":
		if e.Data["type"] == "snapshot" {
			l.trades = e.Data["last_trade"].(float64)
			return
		}
		for _, trade := range e.Data["trades"].([]any) {
			require.Equal(t, l.trades+1, trade.(map[string]any)["id"])
			l.trades++
		}
	case "account.1":
		l.takeEvent(e.Data)
	}
}

func (l *hearer) takeEvent(data map[string]any) {
	t := l.t
	if data["type"] == "snapshot" {
		l.n, l.fill = data["n"].(float64), data["last_fill"].(float64)
		return
	}
	require.Equal(t, l.n+1, data["n"], "events are numbered without a gap")
	l.n++
	for _, f := range data["fills"].([]any) {
		number := f.(map[string]any)["fill"].(float64)
		require.True(t, l.fill == 0 || number == l.fill+1, "fills are numbered without a gap")
		l.fill = number
	}
}

// until reads messages until both books and the orders have reached record seq.
func (l *hearer) until(seq float64) {
	for l.book.Seq < seq || l.slow.Seq < seq || l.orders.Seq < seq {
		l.next()
	}
}

// TestBooksOverWebSocketAreOurs sends random orders, amends and cancels of two accounts. The books that clients
// build from the messages, checked by chain and checksum, must equal the exchange's book at the end, and so must
// the sum of the orders. An account's events and fills are numbered without a gap, also across a crash if the
// client resumes with "after".
func TestBooksOverWebSocketAreOurs(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="1000000"/>`+
		`<account id="2" balance="1000000"/><symbol sym="SPY"><account id="1">10000</account><account id="2">10000</account>`+
		`</symbol></create>`), "<error")
	var after, fill float64
	for round := range 3 {
		l := hear(t, p.http, after)
		l.fill = fill
		client := rpctest.Dial(t, p.http, "")
		var late *hearer // subscribes in the middle of the traffic
		for i := range 200 {
			orderAtRandom(t, client, random)
			if i == 100 {
				late = hear(t, p.http, 0)
			}
		}
		book := client.Must("book.get", `{"sym":"SPY","depth":1000}`)
		l.until(book["book_seq"].(float64))
		account := client.Must("account.get", `{"account":"1"}`)
		for l.n < account["n"].(float64) {
			l.next()
		}
		require.Equal(t, account["last_fill"], l.fill)
		late.until(book["book_seq"].(float64))
		for name, kept := range map[string]*rpctest.Book{"book": &l.book, "slow": &l.slow, "late": &late.book,
			"late and slow": &late.slow} {
			require.Equal(t, rpctest.LevelsOf(book["bids"]), kept.Bids, "%s in round %d", name, round)
			require.Equal(t, rpctest.LevelsOf(book["asks"]), kept.Asks, "%s in round %d", name, round)
		}
		bids, asks := l.orders.Levels()
		require.Equal(t, l.book.Bids, bids)
		require.Equal(t, l.book.Asks, asks)
		after, fill = l.n, l.fill
		p.kill()
		p = start(t, flags...)
	}
}

// orderAtRandom places, amends or cancels an order at random.
func orderAtRandom(t *testing.T, w *rpctest.Conn, random *rand.Rand) {
	account := 1 + random.IntN(2)
	amount := 1 + random.IntN(9)
	if random.IntN(2) == 0 {
		amount = -amount
	}
	var a rpctest.Answer
	switch random.IntN(5) {
	case 0:
		a = w.Call("order.cancel", fmt.Sprintf(`{"account":"%d","id":%d}`, account, 1+random.IntN(100)))
	case 1:
		a = w.Call("order.amend", fmt.Sprintf(`{"account":"%d","id":%d,"amount":"%d","limit":"%d"}`, account,
			1+random.IntN(100), amount, 90+random.IntN(20)))
	default:
		stp := [...]string{"", `,"stp":"newest"`, `,"stp":"oldest"`, `,"stp":"both"`}[random.IntN(4)]
		a = w.Call("order.place", fmt.Sprintf(`{"account":"%d","sym":"SPY","amount":"%d","limit":"%d"%s}`, account, amount,
			90+random.IntN(20), stp))
	}
	if a.Error != nil {
		require.Contains(t, []string{"unknown_order", "foreign_order", "already_executed", "already_canceled",
			"already_replaced", "wrong_side", "below_executed"}, a.Error.Data.Reason, a.Text)
	}
}
