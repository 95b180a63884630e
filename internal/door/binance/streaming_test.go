package binance_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

// botSocket is a bot's WebSocket connection.
type botSocket struct {
	*websocket.Conn
	next int
}

func dialBot(t testing.TB, p *exchangetest.Process, path string) *botSocket {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+p.Http+"/binance"+path, nil)
	require.NoError(t, err)
	c.SetReadLimit(-1)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &botSocket{Conn: c}
}

// read returns the next message, decoded.
func (s *botSocket) read(t testing.TB) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, text, err := s.Conn.Read(ctx)
	require.NoError(t, err)
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var m map[string]any
	require.NoError(t, d.Decode(&m))
	return m
}

// ask sends a request with params as JSON. It returns the answer, and the events received before it.
func (s *botSocket) ask(t testing.TB, method, params string) (answer map[string]any, events []map[string]any) {
	t.Helper()
	s.next++
	text := fmt.Sprintf(`{"id":%d,"method":"%s","params":%s}`, s.next, method, params)
	require.NoError(t, s.Write(context.Background(), websocket.MessageText, []byte(text)))
	for {
		m := s.read(t)
		if fmt.Sprint(m["id"]) == strconv.Itoa(s.next) {
			return m, events
		}
		events = append(events, m)
	}
}

// botBook is a local order book, kept as Binance's documentation describes.
type botBook struct {
	seq    int64
	levels map[string]string // shares by side and price
}

func botLevels(into map[string]string, side string, list any) {
	for _, one := range list.([]any) {
		level := one.([]any)
		key := side + level[0].(string)
		if into[key] = level[1].(string); strings.Trim(into[key], "0.") == "" {
			delete(into, key)
		}
	}
}

func numberOf(t testing.TB, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	require.NoError(t, err)
	return n
}

func (b *botBook) restore(t testing.TB, snapshot map[string]any) {
	t.Helper()
	b.seq, b.levels = numberOf(t, snapshot["lastUpdateId"]), map[string]string{}
	botLevels(b.levels, "bid ", snapshot["bids"])
	botLevels(b.levels, "ask ", snapshot["asks"])
}

// TestALocalBookIsTheBook keeps a local book by the update ids U and u, over the raw and the combined stream and at
// both update speeds. Another symbol also trades, and its records must not count.
func TestALocalBookIsTheBook(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	seven, eight, public, p := bots(t)
	churn := func(n int) {
		for range n {
			b := []*bot{seven, eight}[random.IntN(2)]
			side, limit := []string{"BUY", "SELL"}[random.IntN(2)], fmt.Sprintf("100.%d", random.IntN(10))
			_, _ = b.ask(t, "POST", "/order", orderParams(side, fmt.Sprint(1+random.IntN(3)), limit, ""))
			if random.IntN(3) == 0 {
				_, _ = seven.ask(t, "POST", "/order", strings.Replace(orderParams("SELL", "0.1", limit, ""), "SPY", "QQQ", 1))
			}
			if random.IntN(9) == 0 {
				_, _ = b.ask(t, "DELETE", "/openOrders", "symbol=SPYUSD")
			}
		}
	}
	churn(20)
	for _, stream := range []string{"spyusd@depth@100ms", "spyusd@depth"} {
		for _, path := range []string{"/ws/0", "/stream"} {
			s := dialBot(t, p, path)
			answer, _ := s.ask(t, "SUBSCRIBE", `["`+stream+`"]`)
			require.Contains(t, answer, "result")
			require.Nil(t, answer["result"])
			var b botBook
			b.restore(t, public.object(t, "GET", "/depth", "symbol=SPYUSD&limit=5000"))
			last := int64(-1)
			events := 0
			take := func(m map[string]any) {
				if path == "/stream" {
					require.Equal(t, stream, m["stream"])
					m = m["data"].(map[string]any)
				}
				require.Equal(t, "depthUpdate SPYUSD", fields(m, "e s"))
				first, until := numberOf(t, m["U"]), numberOf(t, m["u"])
				if last >= 0 {
					require.Equal(t, last+1, first, "the chain is whole")
				}
				require.LessOrEqual(t, first, until)
				if last, events = until, events+1; until <= b.seq {
					return
				}
				require.LessOrEqual(t, first, b.seq+1, "the first event overlaps the snapshot")
				b.seq = until
				botLevels(b.levels, "bid ", m["b"])
				botLevels(b.levels, "ask ", m["a"])
			}
			churn(40)
			// One more change of the book guarantees an event that covers everything before it.
			seven.order(t, "BUY", "0.001", fmt.Sprintf("1.%04d", random.IntN(10000)), "")
			var want botBook
			want.restore(t, public.object(t, "GET", "/depth", "symbol=SPYUSD&limit=5000"))
			for last < want.seq {
				take(s.read(t))
			}
			require.Positive(t, events)
			require.Equal(t, want.seq, b.seq)
			require.True(t, maps.Equal(want.levels, b.levels), "%v is not %v", b.levels, want.levels)
		}
	}
}

// TestStreamsOfTheMarket: the streams of trades, best prices, candles and tickers agree with the REST requests.
func TestStreamsOfTheMarket(t *testing.T) {
	seven, eight, public, p := bots(t)
	s := dialBot(t, p, "/stream?streams=spyusd@trade/spyusd@aggTrade")
	names := `["spyusd@bookTicker","spyusd@kline_1m","spyusd@miniTicker","spyusd@ticker","spyusd@depth5@100ms"]`
	answer, events := s.ask(t, "SUBSCRIBE", names)
	require.Contains(t, answer, "result", answer)
	answer, more := s.ask(t, "LIST_SUBSCRIPTIONS", `[]`)
	require.Len(t, answer["result"], 7)
	seven.order(t, "SELL", "2", "100", "")
	eight.order(t, "BUY", "1", "100", "")
	found := map[string]map[string]any{}
	for _, m := range append(events, more...) {
		found[m["stream"].(string)] = m["data"].(map[string]any)
	}
	done := func() bool {
		k, isKline := found["spyusd@kline_1m"]
		mini, ticker, levels := found["spyusd@miniTicker"], found["spyusd@ticker"], found["spyusd@depth5@100ms"]
		return isKline && k["k"] != nil && found["spyusd@trade"] != nil && found["spyusd@aggTrade"] != nil &&
			fields(found["spyusd@bookTicker"], "A") == "1" && fields(mini, "c") == "100" && fields(ticker, "n") == "1" &&
			levels != nil && strings.Contains(fmt.Sprint(levels["asks"]), "[100.00000000 1.00000000]")
	}
	for !done() {
		m := s.read(t)
		found[m["stream"].(string)] = m["data"].(map[string]any)
	}
	require.Equal(t, "trade SPYUSD 1 100 1 false true", fields(found["spyusd@trade"], "e s t p q m M"))
	require.Equal(t, "aggTrade 1 1 1", fields(found["spyusd@aggTrade"], "e a f l"))
	require.Equal(t, "SPYUSD 0 0 100 1", fields(found["spyusd@bookTicker"], "s b B a A"))
	k := found["spyusd@kline_1m"]["k"].(map[string]any)
	require.Equal(t, "1m 100 100 100 100 1 1 100 1 100", fields(k, "i o h l c v n q V Q"))
	require.Equal(t, fields(public.object(t, "GET", "/ticker/24hr", "symbol=SPYUSD"),
		"lastPrice volume quoteVolume count"),
		fields(found["spyusd@ticker"], "c v q n"))

	answer, _ = s.ask(t, "SUBSCRIBE", `["nousd@trade"]`)
	require.Equal(t, `Invalid request: there is no stream "nousd@trade"`, answer["error"].(map[string]any)["msg"])
	answer, _ = s.ask(t, "UNSUBSCRIBE", `["spyusd@trade","spyusd@aggTrade"]`)
	require.Contains(t, answer, "result")
	answer, _ = s.ask(t, "NOTHING", `[]`)
	require.Equal(t, "2", fmt.Sprint(answer["error"].(map[string]any)["code"]))
}

// signedParams returns parameters as JSON, with the API key and the signature over all of them in sorted order.
func signedParams(key, secret, params string) string {
	signed := fmt.Sprintf("apiKey=%s&timestamp=%d", key, time.Now().UnixMilli())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return fmt.Sprintf(`{"apiKey":"%s","timestamp":%s,"signature":"%x"%s}`, key, signed[strings.LastIndexByte(signed,
		'=')+1:],
		mac.Sum(nil), params)
}

// TestAnAccountHearsOfItsOrders: a connection that subscribed to an account receives each execution report and
// balance of this account, and none of the counterparty's.
func TestAnAccountHearsOfItsOrders(t *testing.T) {
	seven, eight, _, p := bots(t)
	s := dialBot(t, p, "/ws-api/v3")
	answer, _ := s.ask(t, "userDataStream.subscribe.signature", signedParams("7", "x", ""))
	require.Equal(t, "200 map[subscriptionId:0]", fields(answer, "status result"))
	seven.order(t, "SELL", "2", "100", "&newClientOrderId=mine")
	eight.order(t, "BUY", "1", "100", "&newClientOrderId=theirs")
	seven.object(t, "DELETE", "/order", "symbol=SPYUSD&orderId=1")
	seven.order(t, "BUY", "1", "50", "&timeInForce=IOC")
	var events []string
	for range 9 {
		m := s.read(t)
		require.Equal(t, "0", fmt.Sprint(m["subscriptionId"]))
		e := m["event"].(map[string]any)
		if e["e"] == "executionReport" {
			events = append(events, fields(e, "x X i c C z Z t"))
			continue
		}
		events = append(events, fmt.Sprint(fields(e, "e"), e["B"]))
	}
	const holds = "outboundAccountPosition[map[a:USD f:%s l:0.00000000] map[a:SPY f:%s l:%s]]"
	require.Equal(t, []string{
		"NEW NEW 1 mine  0 0 -1",
		fmt.Sprintf(holds, "100000.00000000", "998.00000000", "2.00000000"),
		"TRADE PARTIALLY_FILLED 1 mine  1 100 1",
		fmt.Sprintf(holds, "100100.00000000", "998.00000000", "1.00000000"),
		"CANCELED CANCELED 1 outcry-cancel-1 mine 1 100 -1",
		fmt.Sprintf(holds, "100100.00000000", "999.00000000", "0.00000000"),
		"NEW NEW 3 outcry-3  0 0 -1",
		"EXPIRED EXPIRED 3 outcry-3  0 0 -1",
	}, events[:8])
	// Three cancels have their own client ids: that of an amend, that of a replacement in two steps, and a plain cancel.
	const replace = "&cancelReplaceMode=STOP_ON_FAILURE&cancelOrigClientOrderId="
	seven.order(t, "SELL", "1", "120", "&newClientOrderId=n1")
	for _, how := range []struct{ method, path, params, want string }{
		{"POST", "/order/cancelReplace", orderParams("SELL", "1", "121",
			replace+"n1&newClientOrderId=n2&cancelNewClientOrderId=c1"), "c1 n1"}, // done as an amend
		{"POST", "/order/cancelReplace", orderParams("BUY", "1", "1",
			replace+"n2&newClientOrderId=n3&cancelNewClientOrderId=c2"), "c2 n2"},
		{"DELETE", "/order", "symbol=SPYUSD&origClientOrderId=n3&newClientOrderId=c3", "c3 n3"},
	} {
		seven.object(t, how.method, how.path, how.params)
		for {
			if e := s.read(t)["event"].(map[string]any); e["x"] == "CANCELED" {
				require.Equal(t, how.want, fields(e, "c C"))
				break
			}
		}
	}
	answer, _ = s.ask(t, "userDataStream.unsubscribe", `{"subscriptionId":0}`)
	require.Equal(t, "200", fields(answer, "status"))
	answer, _ = s.ask(t, "order.status", signedParams("7", "x", `,"symbol":"SPYUSD","orderId":1`))
	require.Equal(t, "CANCELED", answer["result"].(map[string]any)["status"])
	answer, _ = s.ask(t, "order.status", signedParams("8", "x", `,"symbol":"SPYUSD","orderId":1`))
	require.Equal(t, "400 map[code:-2013 msg:Order does not exist.]", fields(answer, "status error"))
	answer, _ = s.ask(t, "nothing", `{}`)
	require.Equal(t, "400", fields(answer, "status"))
	answer, _ = s.ask(t, strings.Repeat("y", 60_000), `{}`)
	require.Less(t, len(fields(answer, "error")), 200, "of what was sent only the begin is repeated")
}

// TestAKeyIsProvedByItsSignature: a request with another client's key but no valid signature changes nothing. A revoked
// key stops working at once, and connections subscribed with it are closed.
func TestAKeyIsProvedByItsSignature(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	data := t.TempDir()
	admin, err := auth.ParseScope("admin")
	require.NoError(t, err)
	token, _, err := auth.Add(data, admin, time.Time{}, "")
	require.NoError(t, err)
	p := start(t, data, exchangetest.NewTables(t), "--auth")
	c := p.Dial(t)
	c.Must(t, string(wire.AppendAuth(nil, token)))
	c.Must(t, `<create><account id="7" balance="1000"/><account id="8" balance="1000"/><symbol sym="SPY"/></create>`)
	base := "http://" + p.Http + "/binance/api/v3"
	status, _ := (&bot{base: base}).ask(t, "GET", "/exchangeInfo", "")
	require.Equal(t, 401, status, "there is no key yet")

	add := func(account exchange.AccountID) *bot {
		secret, e, err := auth.AddKey(data, account, time.Time{}, "")
		require.NoError(t, err)
		return &bot{base, e.ID, secret}
	}
	seven, eight := add("7"), add("8")
	require.Eventually(t, func() bool {
		status, _ := seven.ask(t, "GET", "/account", "")
		other, _ := eight.ask(t, "GET", "/account", "")
		return status == 200 && other == 200
	}, patience, 10*time.Millisecond)
	(&bot{base: base}).must(t, "GET", "/exchangeInfo", "")
	seven.order(t, "BUY", "1", "100", "")
	status, body := (&bot{base, seven.key, eight.secret}).ask(t, "DELETE", "/order", "symbol=SPYUSD&orderId=1")
	require.Equal(t, `400 {"code":-1022,"msg":"Signature for this request is not valid."}`, fmt.Sprint(status, " ", body))
	status, body = (&bot{base, "0123456789abcdef", "x"}).ask(t, "GET", "/account", "")
	require.Equal(t, `401 {"code":-2015,"msg":"Invalid API-key, IP, or permissions for action."}`, fmt.Sprint(status, " ",
		body))
	status, body = (&bot{base, "7", "x"}).ask(t, "GET", "/account", "")
	require.Equal(t, `401 {"code":-2014,"msg":"API-key format invalid."}`, fmt.Sprint(status, " ", body),
		"no account's id")
	require.Len(t, seven.list(t, "/openOrders", ""), 1)
	require.Empty(t, eight.list(t, "/openOrders", ""))

	s := dialBot(t, p, "/ws-api/v3")
	answer, _ := s.ask(t, "userDataStream.subscribe.signature", signedParams(seven.key, seven.secret, ""))
	require.Equal(t, "200", fields(answer, "status"))
	answer, _ = s.ask(t, "order.cancel", signedParams(seven.key, eight.secret, `,"symbol":"SPYUSD","orderId":1`))
	require.Equal(t, "400", fields(answer, "status"))
	require.NoError(t, auth.Revoke(data, seven.key))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _, err = s.Conn.Read(ctx)
	require.Equal(t, websocket.StatusCode(4001), websocket.CloseStatus(err), err)
	status, _ = seven.ask(t, "GET", "/account", "")
	require.Equal(t, 401, status)
	eight.must(t, "GET", "/account", "")
}
