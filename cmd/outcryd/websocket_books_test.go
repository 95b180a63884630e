package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func accountID(n int) exchange.AccountID { return exchange.AccountID(strconv.Itoa(n)) }

// wsBook is a book that a client builds from the channel's messages.
type wsBook struct {
	t          *testing.T
	seq        float64
	bids, asks map[string]string // shares by price
	more       bool              // the next message continues the last one
}

// apply applies a message of a book channel, and checks its place in the chain and its checksum.
func (b *wsBook) apply(data map[string]any) {
	if data["type"] == "snapshot" {
		if !b.more {
			b.bids, b.asks = make(map[string]string), make(map[string]string)
		}
	} else if !b.more {
		require.Equal(b.t, b.seq, data["prev"], "the chain")
	}
	b.seq = data["seq"].(float64)
	for side, of := range map[string]map[string]string{"bids": b.bids, "asks": b.asks} {
		for _, level := range data[side].([]any) {
			price, shares := level.([]any)[0].(string), level.([]any)[1].(string)
			if of[price] = shares; shares == "0" {
				delete(of, price)
			}
		}
	}
	if b.more = data["more"] == true; !b.more {
		require.Equal(b.t, float64(b.checksum()), data["checksum"], "at %v", b.seq)
	}
}

// sorted returns the levels of a side, best first.
func sorted(side map[string]string, highest bool) (levels [][2]string) {
	price := func(s string) float64 {
		f, _ := strconv.ParseFloat(s, 64)
		return f
	}
	for _, p := range slices.SortedFunc(maps.Keys(side), func(a, b string) int {
		if highest {
			a, b = b, a
		}
		return cmp.Compare(price(a), price(b))
	}) {
		levels = append(levels, [2]string{p, side[p]})
	}
	return levels
}

func (b *wsBook) checksum() uint32 {
	var text strings.Builder
	for _, levels := range [][][2]string{sorted(b.asks, false), sorted(b.bids, true)} {
		for _, l := range levels[:min(10, len(levels))] {
			text.WriteString(l[0] + ":" + l[1] + ";")
		}
	}
	return crc32.ChecksumIEEE([]byte(text.String()))
}

// wsOrders holds the open orders of a symbol, by id, which a client builds from the channel's messages.
type wsOrders struct {
	t       *testing.T
	seq     float64
	resting map[float64]*restingOrder
}

type restingOrder struct {
	buys          bool
	price, shares string
}

// apply applies a message of the orders channel, and checks its place in the chain.
func (l *wsOrders) apply(data map[string]any) {
	if data["type"] == "snapshot" {
		l.resting = make(map[float64]*restingOrder)
		for side, buys := range map[string]bool{"bids": true, "asks": false} {
			for _, e := range data[side].([]any) {
				e := e.([]any)
				l.resting[e[0].(float64)] = &restingOrder{buys, e[1].(string), e[2].(string)}
			}
		}
		l.seq = data["seq"].(float64)
		return
	}
	require.Equal(l.t, l.seq, data["prev"], "the chain")
	l.seq = data["seq"].(float64)
	for _, c := range data["changes"].([]any) {
		c := c.(map[string]any)
		id := c["id"].(float64)
		switch c["op"] {
		case "add":
			l.resting[id] = &restingOrder{c["side"] == "buy", c["price"].(string), c["shares"].(string)}
			continue
		case "replace", "delete":
			require.Contains(l.t, l.resting, id)
			delete(l.resting, id)
		case "fill", "reduce":
			require.Contains(l.t, l.resting, id)
			if l.resting[id].shares = c["open"].(string); c["open"] == "0" {
				delete(l.resting, id)
			}
		}
	}
}

// levels returns the open shares at each price.
func (l *wsOrders) levels() (bids, asks map[string]string) {
	bids, asks = make(map[string]string), make(map[string]string)
	for _, o := range l.resting {
		of := asks
		if o.buys {
			of = bids
		}
		sum, _ := strconv.Atoi(of[o.price])
		one, err := strconv.Atoi(o.shares)
		require.NoError(l.t, err)
		of[o.price] = strconv.Itoa(sum + one)
	}
	return bids, asks
}

// hearer follows the channels of SPY and of account 1.
type hearer struct {
	w          *wsConn
	book, slow wsBook
	orders     wsOrders
	trades     float64 // the newest trade's id
	n, fill    float64 // numbers of account 1's newest event and fill
}

func hear(t *testing.T, address string, after float64) *hearer {
	l := &hearer{w: dialWS(t, address, ""), book: wsBook{t: t}, slow: wsBook{t: t}, orders: wsOrders{t: t}}
	l.w.must("subscribe", `{"channels":["book.SPY","book.SPY.100ms","orders.SPY","trades.SPY",`+
		`"ticker.SPY","candles.SPY.1m"]}`)
	params := `{"channels":["account.1"]}`
	if l.n = after; after > 0 {
		params = fmt.Sprintf(`{"channels":["account.1"],"after":%v}`, after)
	}
	l.w.must("subscribe", params)
	return l
}

// take reads the next message, and checks that it continues the messages before it.
func (l *hearer) take() {
	t := l.w.t
	e := l.w.event()
	switch e.Channel {
	case "book.SPY":
		l.book.apply(e.Data)
	case "book.SPY.100ms":
		l.slow.apply(e.Data)
	case "orders.SPY":
		l.orders.apply(e.Data)
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
	t := l.w.t
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
	for l.book.seq < seq || l.slow.seq < seq || l.orders.seq < seq {
		l.take()
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
		client := dialWS(t, p.http, "")
		var late *hearer // subscribes in the middle of the traffic
		for i := range 200 {
			orderAtRandom(client, random)
			if i == 100 {
				late = hear(t, p.http, 0)
			}
		}
		book := client.must("book.get", `{"sym":"SPY","depth":1000}`)
		l.until(book["book_seq"].(float64))
		account := client.must("account.get", `{"account":"1"}`)
		for l.n < account["n"].(float64) {
			l.take()
		}
		require.Equal(t, account["last_fill"], l.fill)
		late.until(book["book_seq"].(float64))
		for name, kept := range map[string]*wsBook{"book": &l.book, "slow": &l.slow, "late": &late.book,
			"late and slow": &late.slow} {
			require.Equal(t, wsLevels(book["bids"]), kept.bids, "%s in round %d", name, round)
			require.Equal(t, wsLevels(book["asks"]), kept.asks, "%s in round %d", name, round)
		}
		bids, asks := l.orders.levels()
		require.Equal(t, l.book.bids, bids)
		require.Equal(t, l.book.asks, asks)
		after, fill = l.n, l.fill
		p.kill()
		p = start(t, flags...)
	}
}

// wsLevels returns a message's levels as shares by price.
func wsLevels(levels any) map[string]string {
	all := make(map[string]string)
	for _, l := range levels.([]any) {
		all[l.([]any)[0].(string)] = l.([]any)[1].(string)
	}
	return all
}

// orderAtRandom places, amends or cancels an order at random.
func orderAtRandom(w *wsConn, random *rand.Rand) {
	account := 1 + random.IntN(2)
	amount := 1 + random.IntN(9)
	if random.IntN(2) == 0 {
		amount = -amount
	}
	var a answer
	switch random.IntN(5) {
	case 0:
		a = w.call("order.cancel", fmt.Sprintf(`{"account":"%d","id":%d}`, account, 1+random.IntN(100)))
	case 1:
		a = w.call("order.amend", fmt.Sprintf(`{"account":"%d","id":%d,"amount":"%d","limit":"%d"}`, account,
			1+random.IntN(100), amount, 90+random.IntN(20)))
	default:
		stp := [...]string{"", `,"stp":"newest"`, `,"stp":"oldest"`, `,"stp":"both"`}[random.IntN(4)]
		a = w.call("order.place", fmt.Sprintf(`{"account":"%d","sym":"SPY","amount":"%d","limit":"%d"%s}`, account, amount,
			90+random.IntN(20), stp))
	}
	if a.Error != nil {
		require.Contains(w.t, []string{"unknown_order", "foreign_order", "already_executed", "already_canceled",
			"already_replaced", "wrong_side", "below_executed"}, a.Error.Data.Reason, a.text)
	}
}

// TestSlowReadersOverWebSocket: a client that does not read is disconnected if it follows a channel that may not
// skip events; the close reason has the number of the last event that it was sent. A client that follows only a
// book gets fewer, merged deltas instead. Neither delays other clients.
func TestSlowReadersOverWebSocket(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="100000000"/>`+
		`<symbol sym="SPY"><account id="1">1000000</account></symbol></create>`), "<error")
	small := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { // a small buffer in the kernel
		return c.Control(func(fd uintptr) {
			require.NoError(t, syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096))
		})
	}}
	client := dialWS(t, p.http, "")
	ref := strings.Repeat("r", 50)
	place := func(from, to int) {
		var sending sync.WaitGroup
		sending.Go(func() {
			for n := from; n < to; n++ {
				client.send("order.place", fmt.Sprintf(
					`{"account":"1","sym":"SPY","amount":"1","limit":"%d.%02d","ref":"%s%d"}`, 1+n%5, n%100, ref, n))
			}
		})
		for range to - from {
			require.Nil(t, client.next().Error)
		}
		sending.Wait()
	}
	place(0, 100)
	private, book := dialWSWith(t, p.http, "", small), dialWSWith(t, p.http, "", small)
	private.must("subscribe", `{"channels":["account.1","orders.SPY","book.SPY"]}`)
	book.must("subscribe", `{"channels":["book.SPY"]}`)
	go func() { // answers that the client does not read count, too
		for range 2500 {
			book.send("book.get", `{"sym":"SPY","depth":1000}`)
		}
	}()
	const most = 40_000 // enough orders to fill the kernel's buffers, too
	cut, placed := false, 100
	for ; placed < most && !cut; placed += 500 {
		place(placed, placed+500)
		cut = metric(t, p, "outcry_websocket_cut_total") > 0
	}
	require.True(t, cut, "after %d orders", most)
	code, reason := private.closed()
	require.Equal(t, 4008, code)
	require.Contains(t, reason, "too slow: account.1 was sent up to n ")

	want := client.must("book.get", `{"sym":"SPY","depth":1000}`)
	kept, messages := wsBook{t: t}, 0
	for kept.seq < want["book_seq"].(float64) || kept.more {
		if text := book.read(); strings.Contains(text, `"method":"subscription"`) {
			var m struct{ Params event }
			require.NoError(t, json.Unmarshal([]byte(text), &m))
			kept.apply(m.Params.Data)
			messages++
		}
	}
	require.Equal(t, want["checksum"], float64(kept.checksum()))
	require.Less(t, messages, placed-100, "deltas were merged")
}
