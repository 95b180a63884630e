package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
	"outcry/internal/testing/rpctest"
)

// socketFrames encodes messages as a client's WebSocket frames.
func socketFrames(messages []string) (b []byte) {
	for _, text := range messages {
		b = binary.BigEndian.AppendUint16(append(b, 0x81, 0x80|126), uint16(len(text)))
		b = append(append(b, 0, 0, 0, 0), text...) // masked with zeros, which changes nothing
	}
	return b
}

// rawSocket is a client that controls which messages it sends in one write.
type rawSocket struct {
	t  *testing.T
	c  *load.Socket
	to []byte
}

func dialRaw(t *testing.T, address string) *rawSocket {
	t.Helper()
	c, err := load.DialSocket(context.Background(), address, "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &rawSocket{t, c, make([]byte, 1<<20)}
}

// next returns the next answer. It skips pings, and events, which may arrive anywhere between answers.
func (r *rawSocket) next() (string, error) {
	const text = 1
	for {
		op, n, err := r.c.Next(r.to)
		if err != nil || op == text && !bytes.Contains(r.to[:n], []byte(`"method":"subscription"`)) {
			return string(r.to[:n]), err
		}
	}
}

// ask sends messages, size() of them in each write, and returns their answers.
func (r *rawSocket) ask(messages []string, size func() int) (answers []string) {
	r.t.Helper()
	for len(messages) > 0 {
		n := min(size(), len(messages))
		_, err := r.c.Write(socketFrames(messages[:n]))
		require.NoError(r.t, err)
		for range n {
			a, err := r.next()
			require.NoError(r.t, err)
			answers = append(answers, a)
		}
		messages = messages[n:]
	}
	return answers
}

// requests generates random requests; the same seed gives the same requests.
type requests struct {
	*rand.Rand
	token      string
	n          int
	params     []string // params of orders with a ref
	cancelAlls int
}

// malformed holds messages that are refused in any state of the exchange.
var malformed = []string{`{`, `[]`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":7,"method":"no"}`,
	`{"jsonrpc":"2.0","id":7,"method":"order.place","params":{"account":"1","account":"1"}}`,
	`{"jsonrpc":"2.0","id":"x","method":"order.place","params":{"account":"1","sym":"A","amount":"1"}}`,
	`{"jsonrpc":"2.0","id":"x","method":"order.place","params":{"account":"1","sym":"A","amount":1,"limit":"1"}}`,
	`{"jsonrpc":"2.0","id":8,"method":"order.cancel","params":{"account":"1","id":1,"ref":"r1"}}`,
	`{"jsonrpc":"2.0","id":8,"method":"auth","params":{}}`, `{"jsonrpc":"2.0","id":8,"method":"ping","color":1}`}

// next returns the next request.
func (r *requests) next() string {
	r.n++
	method, params := r.draw()
	if method == "" {
		return params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, r.n, method, params)
}

// draw returns a method and its params, or "" and a whole message.
func (r *requests) draw() (method, params string) {
	account, sym, id := 1+r.IntN(2), string(rune('A'+r.IntN(2))), 1+r.IntN(max(1, r.n/2))
	switch n := r.IntN(100); {
	case r.n == 12 || n == 0:
		return "auth", fmt.Sprintf(`{"token":%q}`, r.token)
	case n < 10:
		return "", malformed[r.IntN(len(malformed))]
	case n < 15:
		account = 3 // an account that the token does not cover
	case n < 25 && len(r.params) > 0:
		return "order.place", r.params[r.IntN(len(r.params))]
	case n < 33:
		change := []string{`"amount":"%d"`, `"limit":"%d"`, `"amount":"%d","newref":"n%[1]d"`}[r.IntN(3)]
		change = fmt.Sprintf(change, 1+r.IntN(12))
		return "order.amend", fmt.Sprintf(`{"account":"%d","id":%d,%s}`, account, id, change)
	case n < 38:
		return "order.cancel", fmt.Sprintf(`{"account":"%d","id":%d}`, account, id)
	case n < 41:
		return "order.cancel", fmt.Sprintf(`{"account":"%d","ref":"r%d"}`, account, r.IntN(40))
	case n < 42 && r.cancelAlls < 8: // below the limit of ten a second, however fast the test runs
		r.cancelAlls++
		return "order.cancel_all", fmt.Sprintf(`{"account":"%d","sym":%q}`, account, sym)
	case n < 44:
		return "cancel_after", fmt.Sprintf(`{"account":"%d","seconds":%d}`, account, r.IntN(2)*86400)
	case n < 47:
		return "session.cancel_on_disconnect", fmt.Sprintf(`{"on":%t}`, r.IntN(2) == 0)
	case n < 60:
		return r.read(account, sym, id)
	}
	params = fmt.Sprintf(`{"account":"%d","sym":%q,"amount":"%d"`, account, sym, (1+r.IntN(5))*(1-2*r.IntN(2)))
	params += []string{`,"limit":"%d"`, `,"limit":"%d"`, `,"limit":"%d","tif":"IOC"`, `,"limit":"%d","post":true`,
		`,"type":"market","limit":"%d"`, `,"limit":"%d","stp":"oldest"`, `,"limit":"%d000000000"`}[r.IntN(7)]
	params = fmt.Sprintf(params, 8+r.IntN(5))
	if r.IntN(2) == 0 {
		params += fmt.Sprintf(`,"ref":"r%d"}`, r.IntN(40))
		r.params = append(r.params, params)
		return "order.place", params
	}
	return "order.place", params + "}"
}

// read returns a random request that changes nothing.
func (r *requests) read(account int, sym string, id int) (method, params string) {
	of := fmt.Sprintf(`{"account":"%d"}`, account)
	switch r.IntN(8) {
	case 0:
		return "ping", "{}"
	case 1:
		return "account.get", of
	case 2:
		return "orders.open", of
	case 3:
		return "fills.list", of
	case 4:
		return "order.get", fmt.Sprintf(`{"account":"%d","id":%d}`, account, id)
	case 5:
		return "trades.list", fmt.Sprintf(`{"sym":%q}`, sym)
	case 6:
		return "subscribe", fmt.Sprintf(`{"channels":["book.%s","account.%d"]}`, sym, account)
	}
	return "book.get", fmt.Sprintf(`{"sym":%q}`, sym)
}

// TestRequestsThatComeTogetherAreAnsweredAsOneByOne sends the same requests to two servers: to the first server one at
// a time, each after the answer to the one before; to the second server many in one write. Both must give the same
// answers. Among the requests are refused ones, reads, tokens and other accounts' ids; a kill halfway leaves refs only
// in the database.
func TestRequestsThatComeTogetherAreAnsweredAsOneByOne(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const each = 350
	var answers, sent [2][]string
	var running sync.WaitGroup
	for i := range answers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		size := [2]func() int{func() int { return 1 }, func() int { return 1 + random.IntN(60) }}[i]
		flags, _ := dataFlags(t)
		tokens := tokensOf(t, strings.TrimPrefix(flags[0], "--data="), "account:1,2", "admin", "read")
		p := start(t, append(flags, "--auth")...)
		x := dial(t, p.xml)
		require.Contains(t, x.must(t, string(wire.AppendAuth(nil, tokens["admin"]))), "authorized")
		require.NotContains(t, x.must(t, `<create><account id="1" balance="2000"/><account id="2" balance="900"/>`+
			`<account id="3" balance="500"/><symbol sym="A"><account id="1">50</account>`+
			`<account id="2">80</account></symbol><symbol sym="B"><account id="2">60</account></symbol></create>`), "<error")
		require.NotContains(t, x.must(t,
			`<transactions id="3"><order sym="A" amount="7" limit="9"/></transactions>`), "<error")
		running.Go(func() {
			r := requests{Rand: rand.New(rand.NewPCG(seed, 9)), token: tokens["account:1,2"]}
			for range 2 {
				var messages []string
				for range each {
					messages = append(messages, r.next())
				}
				answers[i] = append(answers[i], dialRaw(t, p.http).ask(messages, size)...)
				sent[i] = append(sent[i], messages...)
				// What the server knows after a kill depends on what Postgres has: closed orders, and when a book changed.
				require.EventuallyWithT(t, func(t *assert.CollectT) {
					require.Contains(t, metricsWith(p, tokens["read"]), "\noutcry_postgres_lag_records 0\n")
				}, patience, lookEvery)
				p.kill()
				p = start(t, append(flags, "--auth")...)
				r.n = 0 // makes the next connection present its token again
			}
		})
	}
	running.Wait()
	require.Len(t, answers[1], 2*each)
	for i, want := range answers[0] {
		require.Equal(t, rpctest.WithoutTimes(want), rpctest.WithoutTimes(answers[1][i]), "answer %d, to %s", i, sent[1][i])
	}
}

// TestWhatComesTogetherIsDoneOnceOverAKill sends orders with refs in large writes, and kills the server while it
// answers. Then all orders are sent again: the reply to an order answered before the kill has the same order, and
// each order exists exactly once.
func TestWhatComesTogetherIsDoneOnceOverAKill(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t,
		`<create><account id="1" balance="1000000"/><symbol sym="SPY"/></create>`), "<error")
	const many, killAt = 900, 300
	var messages []string
	for i := range many {
		messages = append(messages, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"order.place","params":`+
			`{"account":"1","sym":"SPY","amount":"1","limit":"%d","ref":"r%[1]d"}}`, i, 1+i%50))
	}
	type placed struct {
		Result struct {
			Order json.RawMessage `json:"order"`
		} `json:"result"`
	}
	order := func(answer string) string {
		var a placed
		require.NoError(t, json.Unmarshal([]byte(answer), &a))
		require.NotEmpty(t, a.Result.Order, answer)
		return string(a.Result.Order)
	}
	client := dialRaw(t, p.http)
	go func() { _, _ = client.c.Write(socketFrames(messages)) }() // the kill may cut the write off
	var before []string
	for a, err := client.next(); err == nil; a, err = client.next() {
		if before = append(before, order(a)); len(before) == killAt {
			p.kill()
		}
	}
	require.GreaterOrEqual(t, len(before), killAt)
	p = start(t, flags...)
	after := dialRaw(t, p.http).ask(messages, func() int { return 100 })
	for i, was := range before {
		require.Equal(t, was, order(after[i]), "order %d", i)
	}
	w, ids := rpctest.Dial(t, p.http, ""), map[string]bool{}
	for i := range after {
		ids[order(after[i])] = true
	}
	require.Len(t, ids, many)
	require.EqualValues(t, many, w.Must("order.cancel_all", `{"account":"1"}`)["count"])
}

// TestEachCommandOfAWriteIsDoneOnce: however many orders without a ref are in one write, each order is placed once,
// and the ids are consecutive.
func TestEachCommandOfAWriteIsDoneOnce(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.NotContains(t, dial(t, p.xml).must(t,
		`<create><account id="1" balance="1000000"/><symbol sym="A"/></create>`), "<error")
	client, id := dialRaw(t, p.http), 0
	for n := range 40 { // up to more orders than the server executes together
		var messages []string
		for range n {
			messages = append(messages, `{"jsonrpc":"2.0","id":1,"method":"order.place","params":`+
				`{"account":"1","sym":"A","amount":"1","limit":"1"}}`)
		}
		for i, answer := range client.ask(messages, func() int { return n }) {
			id++
			require.Contains(t, answer, fmt.Sprintf(`"order":{"id":%d,`, id), "order %d of a write of %d", i, n)
		}
	}
	count := rpctest.Dial(t, p.http, "").Must("order.cancel_all", `{"account":"1"}`)["count"]
	require.EqualValues(t, id, count)
}
