package binance_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

// patience is how long tests wait for an expected event. No result depends on its value.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	status := pgtest.Main(m)
	exchangetest.RemoveBuilt()
	os.Exit(status)
}

// start starts a server with an HTTP side and waits until it is ready.
func start(t *testing.T, data, database string, flags ...string) *exchangetest.Process {
	t.Helper()
	return exchangetest.Start(t, data, database, append([]string{"--http=127.0.0.1:0"}, flags...)...)
}

// bot is a client of the Binance door that uses only the HTTP package.
type bot struct {
	base, key, secret string
}

// ask sends a request with parameters of the form k=v&k=v, signed if b has a key, and returns the status and body of
// the answer.
func (b *bot) ask(t testing.TB, method, path, params string) (status int, body string) {
	t.Helper()
	if b.key != "" {
		params += fmt.Sprintf("&timestamp=%d&recvWindow=60000", time.Now().UnixMilli())
		mac := hmac.New(sha256.New, []byte(b.secret))
		mac.Write([]byte(params))
		params += "&signature=" + hex.EncodeToString(mac.Sum(nil))
	}
	var sent io.Reader
	target := b.base + path
	if method == http.MethodPost {
		sent = strings.NewReader(params)
	} else {
		target += "?" + params
	}
	r, err := http.NewRequestWithContext(context.Background(), method, target, sent)
	require.NoError(t, err)
	r.Header.Set("X-MBX-APIKEY", b.key)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	all, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(all)
}

// must calls ask, demands success and returns the decoded answer.
func (b *bot) must(t testing.TB, method, path, params string) (answer any) {
	t.Helper()
	status, body := b.ask(t, method, path, params)
	require.Equal(t, 200, status, "%s %s %s: %s", method, path, params, body)
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	require.NoError(t, d.Decode(&answer))
	return answer
}

// object is like must, for an answer that is a JSON object.
func (b *bot) object(t testing.TB, method, path, params string) map[string]any {
	t.Helper()
	return b.must(t, method, path, params).(map[string]any)
}

// list is must for an answer that is a list of JSON objects.
func (b *bot) list(t testing.TB, path, params string) (all []map[string]any) {
	t.Helper()
	for _, one := range b.must(t, "GET", path, params).([]any) {
		all = append(all, one.(map[string]any))
	}
	return all
}

// fields returns the named members of an object as text.
func fields(o map[string]any, names string) string {
	var words []string
	for _, name := range strings.Fields(names) {
		words = append(words, strings.TrimSuffix(fmt.Sprint(o[name]), ".00000000"))
	}
	return strings.Join(words, " ")
}

// order places an order of a side and an amount. A limit of "" makes it a market order; more holds further parameters.
func (b *bot) order(t testing.TB, side, amount, limit, more string) map[string]any {
	t.Helper()
	return b.object(t, "POST", "/order", orderParams(side, amount, limit, more))
}

func orderParams(side, amount, limit, more string) string {
	params := "symbol=SPYUSD&side=" + side + "&quantity=" + amount
	if limit == "" {
		params += "&type=MARKET"
	} else {
		params += "&type=LIMIT&price=" + limit
		if !strings.Contains(more, "timeInForce") {
			params += "&timeInForce=GTC"
		}
	}
	return params + more
}

// bots starts a server with accounts 7 and 8. It returns a bot for each, and one without a key for market data.
func bots(t *testing.T, flags ...string) (seven, eight, public *bot, server *exchangetest.Process) {
	t.Helper()
	p := start(t, t.TempDir(), exchangetest.NewTables(t), flags...)
	tellBots(t, p)
	seven, eight, public = botsOf(p)
	return seven, eight, public, p
}

func tellBots(t testing.TB, p *exchangetest.Process) {
	t.Helper()
	reply := p.Dial(t).Must(t, `<create><account id="7" balance="100000"/><account id="8" balance="50000"/>`+
		`<symbol sym="SPY" tick="0.0001" lot="0.001"><account id="7">1000</account><account id="8">1000</account></symbol>`+
		`<symbol sym="QQQ"><account id="7">5</account></symbol>`+
		`<symbol sym="Low"><account id="7">5</account></symbol></create>`)
	require.NotContains(t, reply, "<error")
}

func botsOf(p *exchangetest.Process) (seven, eight, public *bot) {
	base := "http://" + p.Http + "/binance/api/v3"
	return &bot{base, "7", "any"}, &bot{base, "8", "any"}, &bot{base: base}
}

const state = "status executedQty cummulativeQuoteQty origQty price type timeInForce"

// TestABotTrades checks orders of each type, their outcome, and the market data that the counterparty reads at once.
func TestABotTrades(t *testing.T) {
	seven, eight, public, _ := bots(t)
	sell := seven.order(t, "SELL", "3", "100.0001", "&newClientOrderId=first")
	require.Equal(t, "NEW 0 0 3 100.00010000 LIMIT GTC", fields(sell, state))
	require.Equal(t, "SPYUSD 1 -1 first SELL NONE []", fields(sell,
		"symbol orderId orderListId clientOrderId side selfTradePreventionMode fills"))

	buy := eight.order(t, "BUY", "1.337", "101", "")
	require.Equal(t, "FILLED 1.33700000 133.70013370 1.33700000 101 LIMIT GTC", fields(buy, state))
	require.Equal(t, "outcry-2", buy["clientOrderId"])
	fill := buy["fills"].([]any)[0].(map[string]any)
	require.Equal(t, "100.00010000 1.33700000 0 SPY 1", fields(fill, "price qty commission commissionAsset tradeId"))

	rest := seven.object(t, "GET", "/order", "symbol=SPYUSD&origClientOrderId=first")
	require.Equal(t, "PARTIALLY_FILLED 1.33700000 133.70013370 3 100.00010000 LIMIT GTC", fields(rest, state))
	require.Equal(t, buy["transactTime"], rest["updateTime"], "the newest execution")
	require.Equal(t, sell["transactTime"], rest["time"])
	require.NotContains(t, rest, "transactTime")
	book := public.object(t, "GET", "/depth", "symbol=SPYUSD")
	require.Equal(t, `[] [[100.00010000 1.66300000]]`, fmt.Sprint(book["bids"], " ", book["asks"]))
	trade := public.list(t, "/aggTrades", "symbol=SPYUSD")[0]
	require.Equal(t, "1 100.00010000 1.33700000 1 1 false", fields(trade, "a p q f l m"))
	require.Equal(t, "1 133.70013370 false", fields(public.list(t, "/trades", "symbol=SPYUSD")[0],
		"id quoteQty isBuyerMaker"))
	mine := seven.list(t, "/myTrades", "symbol=SPYUSD")[0]
	require.Equal(t, "1 1 133.70013370 USD false true", fields(mine,
		"id orderId quoteQty commissionAsset isBuyer isMaker"))
	require.Equal(t, "1 2 true false", fields(eight.list(t, "/myTrades", "symbol=SPYUSD")[0],
		"id orderId isBuyer isMaker"))
	candle := public.must(t, "GET", "/klines", "symbol=SPYUSD&interval=1m").([]any)[0].([]any)
	require.Equal(t, "[100.00010000 100.00010000 100.00010000 100.00010000 1.33700000]", fmt.Sprint(candle[1:6]))
	require.Equal(t, "[133.70013370 1 1.33700000 133.70013370 0]", fmt.Sprint(candle[7:]))

	ioc := eight.order(t, "BUY", "2", "101", "&timeInForce=IOC")
	require.Equal(t, "EXPIRED 1.66300000 166.30016630 2 101 LIMIT IOC", fields(ioc, state))
	seven.order(t, "SELL", "1", "100", "")
	market := eight.order(t, "BUY", "1", "", "")
	require.Equal(t, "FILLED 1 100 1 0 MARKET GTC", fields(market, state))
	require.Equal(t, "FILLED", seven.object(t, "GET", "/order", "symbol=SPYUSD&orderId=1")["status"])

	seven.order(t, "SELL", "1", "120", "")
	prevented := seven.order(t, "BUY", "1", "120", "&selfTradePreventionMode=EXPIRE_TAKER")
	require.Equal(t, "EXPIRED_IN_MATCH EXPIRE_TAKER", fields(prevented, "status selfTradePreventionMode"))
	maker := seven.object(t, "POST", "/order",
		"symbol=SPYUSD&side=BUY&type=LIMIT_MAKER&quantity=1&price=90&newOrderRespType=RESULT")
	require.Equal(t, "NEW 0 0 1 90 LIMIT_MAKER GTC", fields(maker, state))
	require.NotContains(t, maker, "fills")
	ack := seven.object(t, "POST", "/order", "symbol=SPYUSD&side=BUY&type=LIMIT_MAKER&quantity=1&price=91")
	require.Len(t, ack, 5)
	open := seven.list(t, "/openOrders", "symbol=SPYUSD")
	require.Len(t, open, 3)
	canceled := seven.object(t, "DELETE", "/order",
		"symbol=SPYUSD&orderId="+fmt.Sprint(maker["orderId"])+"&newClientOrderId=c1")
	require.Equal(t, fmt.Sprintf("CANCELED %v c1", maker["clientOrderId"]), fields(canceled,
		"status origClientOrderId clientOrderId"))
	require.Len(t, seven.must(t, "DELETE", "/openOrders", "symbol=SPYUSD"), 2)
	require.Empty(t, seven.list(t, "/openOrders", ""))
	all := seven.list(t, "/allOrders", "symbol=SPYUSD")
	require.Len(t, all, 6)
	require.Equal(t, "1 FILLED", fields(all[0], "orderId status"))
	require.Equal(t, "EXPIRED_IN_MATCH", all[3]["status"])
	require.Equal(t, "CANCELED", all[5]["status"])
}

// TestMoneyIsNotCut: a balance is shown with all of its sixteen digits.
func TestMoneyIsNotCut(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	seven, eight, _, _ := bots(t)
	seven.order(t, "SELL", "0.001", "0.0003", "")
	eight.order(t, "BUY", "0.001", "0.0003", "")
	free := func(b *bot) map[string]string {
		found := map[string]string{}
		for _, one := range b.object(t, "GET", "/account", "")["balances"].([]any) {
			m := one.(map[string]any)
			found[m["asset"].(string)] = m["free"].(string) + "/" + m["locked"].(string)
		}
		return found
	}
	require.Equal(t, map[string]string{"USD": "49999.99999970/0.00000000", "SPY": "1000.00100000/0.00000000"}, free(eight))
	eight.order(t, "BUY", "0.123", "0.1111", "")
	require.Equal(t, "49999.98633440/0.01366530", free(eight)["USD"])
	small := strings.NewReplacer("SPY", "QQQ").Replace(orderParams("SELL", "0.00000003", "0.00000007", ""))
	seven.object(t, "POST", "/order", small)
	bought := eight.object(t, "POST", "/order", strings.Replace(small, "SELL", "BUY", 1))
	require.Equal(t, "0.0000000000000021", bought["cummulativeQuoteQty"])
	require.Equal(t, "49999.9863343999999979/0.01366530", free(eight)["USD"])
	require.NotContains(t, free(seven), "Low", "a symbol that is not offered")
}

// TestReadsShowWhatWasAnsweredBefore: every read, by any client, reflects all commands answered before it.
func TestReadsShowWhatWasAnsweredBefore(t *testing.T) {
	seven, eight, public, _ := bots(t)
	for n := range 40 {
		limit := fmt.Sprintf("%d.0000", 100+n)
		sell := seven.order(t, "SELL", "2", limit, "")
		require.Contains(t, fmt.Sprint(public.object(t, "GET", "/depth", "symbol=SPYUSD")["asks"]), limit)
		buy := eight.order(t, "BUY", "1", limit, "")
		require.Equal(t, "FILLED", buy["status"])
		id := fmt.Sprint(sell["orderId"])
		switch n % 5 {
		case 0:
			order := seven.object(t, "GET", "/order", "symbol=SPYUSD&orderId="+id)
			require.Equal(t, "PARTIALLY_FILLED", order["status"])
		case 1:
			require.Equal(t, "PARTIALLY_FILLED", seven.list(t, "/openOrders", "symbol=SPYUSD")[0]["status"])
		case 2:
			mine := seven.list(t, "/myTrades", "symbol=SPYUSD&limit=1")
			require.Equal(t, id, fmt.Sprint(mine[0]["orderId"]))
		case 3:
			require.Equal(t, fmt.Sprint(n+1), fields(public.list(t, "/trades", "symbol=SPYUSD&limit=1")[0], "id"))
		case 4:
			all := seven.list(t, "/allOrders", "symbol=SPYUSD&limit=1")
			require.Equal(t, id+" PARTIALLY_FILLED", fields(all[0], "orderId status"))
		}
		seven.object(t, "DELETE", "/order", "symbol=SPYUSD&orderId="+id)
		require.Empty(t, public.object(t, "GET", "/depth", "symbol=SPYUSD")["asks"])
	}
}

// TestTheSameClientIDIsTheSameOrder: a repeated client order id gets the same bytes as the first time, whatever
// happened in between, and also after a crash.
func TestTheSameClientIDIsTheSameOrder(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := start(t, data, database)
	tellBots(t, p)
	seven, eight, _ := botsOf(p)
	eight.order(t, "BUY", "1", "99", "")
	params := orderParams("SELL", "3", "99", "&newClientOrderId=x")
	status, first := seven.ask(t, "POST", "/order", params)
	require.Equal(t, 200, status, first)
	require.Contains(t, first, `"tradeId":1`)
	again := func() {
		t.Helper()
		status, body := seven.ask(t, "POST", "/order", params)
		require.Equal(t, 200, status, body)
		require.Equal(t, first, body)
	}
	again()
	eight.order(t, "BUY", "1", "99", "")
	again()
	seven.object(t, "DELETE", "/order", "symbol=SPYUSD&origClientOrderId=x")
	again()
	p.Kill()
	p = start(t, data, database)
	seven, eight, _ = botsOf(p)
	again()
	status, body := seven.ask(t, "POST", "/order", orderParams("SELL", "2", "99", "&newClientOrderId=x"))
	require.Equal(t, `400 {"code":-2010,"msg":"Duplicate order sent."}`, fmt.Sprint(status, " ", body))
	require.Equal(t, "CANCELED 2 198 3", fields(seven.object(t, "GET", "/order", "symbol=SPYUSD&origClientOrderId=x"),
		"status executedQty cummulativeQuoteQty origQty"))
	require.Len(t, seven.list(t, "/myTrades", "symbol=SPYUSD"), 2)
	require.Equal(t, "2", fields(eight.list(t, "/myTrades", "symbol=SPYUSD&fromId=2")[0], "id"))
}

// TestAnOrderIsReplacedOrTheOldOneStands: after a cancel-replace, exactly those orders are open that the answer
// implies.
func TestAnOrderIsReplacedOrTheOldOneStands(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	seven, _, _, _ := bots(t)
	replace := func(old, side, amount, limit, more string) (int, map[string]any) {
		t.Helper()
		status, body := seven.ask(t, "POST", "/order/cancelReplace", orderParams(side, amount, limit,
			"&cancelReplaceMode=STOP_ON_FAILURE&cancelOrigClientOrderId="+old+more))
		var answer map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &answer))
		return status, answer
	}
	open := func() string {
		var all []string
		for _, o := range seven.list(t, "/openOrders", "symbol=SPYUSD") {
			all = append(all, fields(o, "clientOrderId side origQty price"))
		}
		return strings.Join(all, "; ")
	}
	seven.order(t, "SELL", "5", "110", "&newClientOrderId=a")
	status, answer := replace("a", "SELL", "4", "111", "&newClientOrderId=b&cancelNewClientOrderId=ca")
	require.Equal(t, 200, status, answer)
	require.Equal(t, "SUCCESS SUCCESS", fields(answer, "cancelResult newOrderResult"))
	require.Equal(t, "a ca CANCELED", fields(answer["cancelResponse"].(map[string]any),
		"origClientOrderId clientOrderId status"))
	require.Equal(t, "b NEW 4", fields(answer["newOrderResponse"].(map[string]any), "clientOrderId status origQty"))
	require.Equal(t, "b SELL 4 111", open())
	require.Equal(t, "a CANCELED 5", fields(seven.object(t, "GET", "/order", "symbol=SPYUSD&origClientOrderId=a"),
		"clientOrderId status origQty"), "the old id names the old order")
	require.Equal(t, "b", seven.object(t, "GET", "/order", "symbol=SPYUSD&origClientOrderId=b")["clientOrderId"])

	status, answer = replace("b", "SELL", "2", "111", "&newClientOrderId=c")
	require.Equal(t, 200, status, "in place it would keep its id: %v", answer)
	require.Equal(t, "c SELL 2 111", open())
	status, answer = replace("c", "SELL", "2000", "112", "&newClientOrderId=d")
	require.Equal(t, 400, status)
	require.Equal(t, "-2022 Order cancel-replace failed.", fields(answer, "code msg"))
	require.Equal(t, "FAILURE FAILURE", fields(answer["data"].(map[string]any), "cancelResult newOrderResult"))
	require.Equal(t, "c SELL 2 111", open(), "the old order stands")
	status, answer = replace("c", "BUY", "1000000", "50", "&newClientOrderId=e")
	require.Equal(t, 409, status)
	require.Equal(t, "-2021 Order cancel-replace partially failed.", fields(answer, "code msg"))
	require.Equal(t, "SUCCESS FAILURE", fields(answer["data"].(map[string]any), "cancelResult newOrderResult"))
	require.Empty(t, open(), "and that is said")
	status, answer = replace("c", "SELL", "1", "111", "&newClientOrderId=f")
	require.Equal(t, 400, status)
	require.Equal(t, "FAILURE NOT_ATTEMPTED <nil>", fields(answer["data"].(map[string]any),
		"cancelResult newOrderResult newOrderResponse"))
	require.Empty(t, open())
	seven.order(t, "SELL", "1", "110", "&newClientOrderId=g")
	status, answer = replace("g", "BUY", "1", "50", "&newClientOrderId=h")
	require.Equal(t, 200, status, answer)
	require.Equal(t, "h BUY 1 50", open())
}

// TestAReplacementHasWhatWasAskedForWhateverExecutesMeanwhile: a replacement has the requested size even if the old
// order executes at the same time, and the two are never open together.
func TestAReplacementHasWhatWasAskedForWhateverExecutesMeanwhile(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	t.Parallel()
	seven, eight, _, _ := bots(t)
	const replace = "&cancelReplaceMode=ALLOW_FAILURE&cancelOrigClientOrderId="
	for i := range 30 {
		old, made := fmt.Sprint("old", i), fmt.Sprint("new", i)
		seven.order(t, "SELL", "20", "10", "&newClientOrderId="+old)
		var takers sync.WaitGroup
		for range 4 {
			takers.Go(func() { eight.ask(t, "POST", "/order", orderParams("BUY", "2", "10", "&timeInForce=IOC")) })
		}
		_, body := seven.ask(t, "POST", "/order/cancelReplace", orderParams("SELL", "5", "11",
			replace+old+"&newClientOrderId="+made))
		takers.Wait()
		open := seven.list(t, "/openOrders", "symbol=SPYUSD")
		require.Len(t, open, 1, body)
		require.Equal(t, made+" 5", fields(open[0], "clientOrderId origQty"), body)
		seven.object(t, "DELETE", "/order", "symbol=SPYUSD&origClientOrderId="+made)
	}
}

// TestWhatIsRefusedIsSaidInTheWordsThatClientsKnow: refusals match Binance's in text, code and status, because each of
// the three decides what some client does.
func TestWhatIsRefusedIsSaidInTheWordsThatClientsKnow(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	seven, eight, public, p := bots(t)
	seven.order(t, "SELL", "1", "100", "&newClientOrderId=mine")
	const unknown = "symbol=SPYUSD&orderId=999"
	for _, c := range []struct {
		who                  *bot
		method, path, params string
		want                 string
	}{
		{eight, "POST", "/order", orderParams("BUY", "1000000", "100", ""),
			"400 -2010 Account has insufficient balance for requested action."},
		{eight, "POST", "/order", orderParams("SELL", "1001", "100", ""),
			"400 -2010 Account has insufficient balance for requested action."},
		{eight, "POST", "/order", "symbol=SPYUSD&side=BUY&type=LIMIT_MAKER&quantity=1&price=100",
			"400 -2010 Order would immediately match and take."},
		{eight, "POST", "/order", orderParams("BUY", "2", "100", "&timeInForce=FOK"),
			"400 -2010 2 SPY at 100 cannot be filled at once: 1 could"},
		{eight, "POST", "/order", orderParams("SELL", "1", "", ""), "400 -2010 no buy orders for SPY"},
		{eight, "POST", "/order", orderParams("BUY", "1", "100.00001", ""), "400 -1013 Filter failure: PRICE_FILTER"},
		{eight, "POST", "/order", orderParams("BUY", "1.0001", "100", ""), "400 -1013 Filter failure: LOT_SIZE"},
		{eight, "POST", "/order/test", orderParams("BUY", "1.0001", "100", ""), "400 -1013 Filter failure: LOT_SIZE"},
		{eight, "POST", "/order", orderParams("BUY", "0", "100", ""), "400 -1013 Invalid quantity."},
		{eight, "POST", "/order", orderParams("BUY", "1", "0", ""), "400 -1013 Invalid price."},
		{eight, "POST", "/order", orderParams("BUY", "1e5", "100", ""),
			"400 -1100 Illegal characters found in parameter 'quantity'; legal range is '^([0-9]{1,20})(\\.[0-9]{1,20})?$'."},
		{eight, "POST", "/order", orderParams("BUY", "1", "100", "&newClientOrderId=a/b"),
			"400 -1100 Illegal characters found in parameter 'newClientOrderId'; legal range is '^[.A-Z:a-z0-9_-]{1,36}$'."},
		{eight, "POST", "/order", "side=BUY",
			"400 -1102 Mandatory parameter 'symbol' was not sent, was empty/null, or malformed."},
		{eight, "GET", "/order", "symbol=SPYUSD",
			"400 -1102 Param 'origClientOrderId' or 'orderId' must be sent, but both were empty/null!"},
		{eight, "POST", "/order", orderParams("BUY", "1", "", "&timeInForce=GTC"),
			"400 -1106 Parameter 'timeInForce' sent when not required."},
		{eight, "POST", "/order", orderParams("BUY", "1", "", "&quoteOrderQty=1"),
			"400 -1106 Parameter 'quoteOrderQty' sent when not required."},
		{eight, "POST", "/order", orderParams("BUY", "1", "100", "&stopPrice=1"),
			"400 -1106 Parameter 'stopPrice' sent when not required."},
		{eight, "POST", "/order", orderParams("BUY", "1", "1.000000001", ""),
			"400 -1111 Parameter 'price' has too much precision."},
		{eight, "POST", "/order", orderParams("BUY", "1", "100", "&timeInForce=DAY"), "400 -1115 Invalid timeInForce."},
		{eight, "POST", "/order", "symbol=SPYUSD&side=BUY&type=STOP_LOSS&quantity=1", "400 -1116 Invalid orderType."},
		{eight, "POST", "/order", orderParams("buy", "1", "100", ""), "400 -1117 Invalid side."},
		{public, "GET", "/klines", "symbol=SPYUSD&interval=3m", "400 -1120 Invalid interval."},
		{public, "GET", "/depth", "symbol=NOUSD", "400 -1121 Invalid symbol."},
		{public, "GET", "/depth", "symbol=LowUSD", "400 -1121 Invalid symbol."},
		{public, "GET", "/exchangeInfo", `symbols=["SPYUSD","NOUSD"]`, "400 -1121 Invalid symbol."},
		{eight, "POST", "/order", strings.Replace(orderParams("BUY", "1", "100", ""), "SPY", "NO", 1),
			"400 -1121 Invalid symbol."},
		{eight, "DELETE", "/order", unknown, "400 -2011 Unknown order sent."},
		{eight, "DELETE", "/order", "symbol=SPYUSD&orderId=1", "400 -2011 Unknown order sent."},
		{seven, "DELETE", "/order", "symbol=QQQUSD&orderId=1", "400 -2011 Unknown order sent."},
		{eight, "DELETE", "/openOrders", "symbol=SPYUSD", "400 -2011 Unknown order sent."},
		{eight, "GET", "/order", unknown, "400 -2013 Order does not exist."},
		{eight, "GET", "/order", "symbol=SPYUSD&orderId=1", "400 -2013 Order does not exist."},
		{eight, "GET", "/order", "symbol=SPYUSD&origClientOrderId=mine", "400 -2013 Order does not exist."},
		{seven, "GET", "/order", "symbol=QQQUSD&orderId=1", "400 -2013 Order does not exist."},
		{&bot{eight.base, "9", "x"}, "GET", "/account", "", "401 -2015 Invalid API-key, IP, or permissions for action."},
		{&bot{eight.base, "x", "x"}, "GET", "/account", "", "401 -2014 API-key format invalid."},
		{public, "GET", "/account", "", "401 -2014 API-key format invalid."},
		{public, "POST", "/userDataStream", "",
			"410 -1000 There are no listen keys: subscribe by userDataStream.subscribe.signature."},
	} {
		status, body := c.who.ask(t, c.method, c.path, c.params)
		var e struct {
			Code int
			Msg  string
		}
		require.NoError(t, json.Unmarshal([]byte(body), &e), body)
		require.Equal(t, c.want, fmt.Sprint(status, " ", e.Code, " ", e.Msg), "%s %s %s", c.method, c.path, c.params)
	}
	asOperator(t, p, "/admin/halt?sym=SPY&reason=news")
	status, body := eight.ask(t, "POST", "/order", orderParams("BUY", "1", "90", ""))
	require.Equal(t, `400 {"code":-2010,"msg":"Market is closed."}`, fmt.Sprint(status, " ", body))
	info := public.object(t, "GET", "/exchangeInfo", "symbol=SPYUSD")["symbols"].([]any)
	require.Equal(t, "BREAK", info[0].(map[string]any)["status"])
	asOperator(t, p, "/admin/block?account=7&reason=inquiry")
	status, body = seven.ask(t, "POST", "/order", strings.Replace(orderParams("BUY", "1", "90", ""), "SPY", "QQQ", 1))
	require.Equal(t, `400 {"code":-2010,"msg":"This account may not place or cancel orders."}`, fmt.Sprint(status, " ",
		body))
}

// asOperator sends an operator's request.
func asOperator(t testing.TB, p *exchangetest.Process, path string) {
	t.Helper()
	response, err := http.Post("http://"+p.Http+path, "", nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
}

// TestWhatBotsAskAtTheirStart: lists of features that Outcry does not have are empty, and the exchange information
// says how each symbol is traded.
func TestWhatBotsAskAtTheirStart(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	_, _, public, p := bots(t)
	at := &bot{base: "http://" + p.Http + "/binance"}
	for path, want := range map[string]string{
		"/sapi/v1/margin/allPairs": "[]", "/sapi/v1/capital/config/getall": "[]", "/sapi/v3/whatever": "[]",
		"/fapi/v1/exchangeInfo": `{"symbols":[]}`, "/dapi/v1/exchangeInfo": `{"symbols":[]}`, "/api/v3/ping": "{}",
	} {
		status, body := at.ask(t, "GET", path, "")
		require.Equal(t, "200 "+want, fmt.Sprint(status, " ", body), path)
	}
	fees := at.list(t, "/sapi/v1/asset/tradeFee", "")
	require.Equal(t, "QQQUSD 0 0", fields(fees[0], "symbol makerCommission takerCommission"))
	status, _ := at.ask(t, "GET", "/api/v3/nothing", "")
	require.Equal(t, 404, status)
	info := public.object(t, "GET", "/exchangeInfo", "")["symbols"].([]any)
	require.Len(t, info, 2, "Low cannot be written")
	spy := info[1].(map[string]any)
	require.Equal(t, "SPYUSD TRADING SPY USD 8 8 8 true", fields(spy,
		"symbol status baseAsset quoteAsset baseAssetPrecision "+
			"quotePrecision quoteAssetPrecision isSpotTradingAllowed"))
	filters := spy["filters"].([]any)
	require.Equal(t, "0.00010000", filters[0].(map[string]any)["tickSize"])
	require.Equal(t, "0.00100000", filters[1].(map[string]any)["stepSize"])
	require.Equal(t, "0.00000000", filters[2].(map[string]any)["minNotional"])
	day := public.object(t, "GET", "/ticker/24hr", "symbol=SPYUSD")
	require.Equal(t, "0 0 0 0 -1 -1 0", fields(day, "lastPrice bidQty openPrice volume firstId lastId count"))
	status, body := public.ask(t, "GET", "/ticker/price", "symbols="+url.QueryEscape(`["SPYUSD"]`))
	require.Equal(t, `200 [{"symbol":"SPYUSD","price":"0.00000000"}]`, fmt.Sprint(status, " ", body))
}

// TestABotThatIsTooFastGetsTheStatusForIt: a bot over its rate limit is refused, but a retry of an order placed earlier
// is answered.
func TestABotThatIsTooFastGetsTheStatusForIt(t *testing.T) {
	budget.SkipRaced(t, "other tests of this door are raced")
	seven, _, _, _ := bots(t, "--rate-account=5")
	params := orderParams("BUY", "1", "50", "&newClientOrderId=a")
	first, refused := "", ""
	require.Eventually(t, func() bool { // the requests that made the accounts count too
		code, body := seven.ask(t, "POST", "/order", params)
		first = body
		return code == 200
	}, patience, 10*time.Millisecond)
	answers := make(chan string)
	for refused == "" {
		for range 10 { // concurrently, so that the result does not depend on the speed of the machine
			go func() {
				_, body := seven.ask(t, "POST", "/order", orderParams("BUY", "1", "50", ""))
				answers <- body
			}()
		}
		for range 10 {
			if body := <-answers; strings.Contains(body, "-1003") {
				refused = body
			}
		}
	}
	require.Equal(t, `{"code":-1003,"msg":"Too many requests; try again in a second."}`, refused)
	code, again := seven.ask(t, "POST", "/order", params)
	require.Equal(t, 200, code, again)
	require.Equal(t, first, again)
	code, body := seven.ask(t, "GET", "/openOrders", "")
	require.Equal(t, 200, code, body)
}
