package binance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The secret of the examples in Binance's documents.
const knownSecret = "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"

// TestSignaturesAreThoseOfTheDocuments checks the signatures of a query, of a body, and of both joined without a
// separator. The parameter signature may be at any place.
func TestSignaturesAreThoseOfTheDocuments(t *testing.T) {
	const first, second = "symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC",
		"quantity=1&price=0.1&recvWindow=5000&timestamp=1499827319559"
	const one = "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71"
	const both = "0fd168b8ddb4876a0358a8d14d0c9f3da0e9b20c5d52b2a00fcf7d1c602f9a77"
	for _, c := range []struct{ query, body, want string }{
		{first + "&" + second + "&signature=" + one, "", one},
		{"", first + "&" + second + "&signature=" + one, one},
		{"signature=" + one + "&" + first + "&" + second, "", one},
		{first + "&signature=" + one + "&" + second, "", one},
		{first, second + "&signature=" + both, both},
		{first + "&signature=" + both, second, both},
	} {
		var q request
		require.Nil(t, q.readREST(c.query, c.body))
		q.secret = knownSecret
		require.Equal(t, c.want, q.signature)
		require.True(t, q.isSigned(), "%q", q.signed)
		require.Equal(t, "LTCBTC", q.get("symbol"))
		require.Equal(t, "0.1", q.get("price"))
		q.signed += "&"
		require.False(t, q.isSigned())
	}
}

// TestBytesAreSignedAsTheyCame: the signature covers the query as the client escaped it, not as the server would.
func TestBytesAreSignedAsTheyCame(t *testing.T) {
	var q request
	require.Nil(t, q.readREST("symbols=%5B%22A%22%5D&x=a+b%2fc&signature=AB", ""))
	require.Equal(t, "symbols=%5B%22A%22%5D&x=a+b%2fc", q.signed)
	require.Equal(t, `["A"]`, q.get("symbols"))
	require.Equal(t, "a b/c", q.get("x"))
	require.Equal(t, -1101, q.readREST("a=1&a=2", "").Code)
	require.Nil(t, q.readREST("a=1", "a=2"), "the query's wins")
	require.Equal(t, "1", q.get("a"))
	require.Equal(t, -1100, q.readREST("a=%zz", "").Code)
}

// TestAParameterOfJSONIsSignedByItsOwnDigits: the signature covers JSON's numbers as the client wrote them.
func TestAParameterOfJSONIsSignedByItsOwnDigits(t *testing.T) {
	var a apiRequest
	require.NoError(t, json.Unmarshal([]byte(`{"id":"1","method":"order.place","params":{"symbol":"SPYUSD","quantity":1.50,
		"timestamp":1645423376532,"apiKey":"k","newOrderRespType":"FULL","flag":false,"price":"0.10","signature":"s"}}`), &a))
	var q request
	require.Nil(t, q.readParams(a.Params))
	require.Equal(t, "apiKey=k&flag=false&newOrderRespType=FULL&price=0.10&quantity=1.50&symbol=SPYUSD"+
		"&timestamp=1645423376532",
		q.signed)
	require.Equal(t, "s", q.signature)
	require.Equal(t, "k", q.key)
}

// TestARequestIsGoodForItsWindow: a timestamp is valid exactly within its window, in milliseconds and in
// microseconds.
func TestARequestIsGoodForItsWindow(t *testing.T) {
	now := time.UnixMilli(1_795_359_391_127)
	for _, c := range []struct {
		away   time.Duration
		window string
		want   *Error
	}{
		{0, "", nil}, {time.Second, "", nil}, {1001 * time.Millisecond, "", errTooNew},
		{-5 * time.Second, "", nil}, {-5001 * time.Millisecond, "", errTooOld},
		{-10 * time.Second, "10000", nil}, {-10001 * time.Millisecond, "10000", errTooOld},
		{-10 * time.Millisecond, "10.5", nil}, {-11 * time.Millisecond, "10.5", errTooOld},
		{-time.Minute, "60000", nil}, {0, "60000.1", errWindow}, {0, "60001", errWindow},
	} {
		for _, stamp := range []int64{now.Add(c.away).UnixMilli(), now.Add(c.away).UnixMicro()} {
			q := request{arrived: now}
			require.Nil(t, q.readREST(url.Values{"timestamp": {fmt.Sprint(stamp)}, "recvWindow": {c.window}}.Encode(), ""))
			require.Equal(t, c.want, q.checkTime(), "%s %q", c.away, c.window)
		}
	}
	for value, code := range map[string]int{"": -1102, "x": -1100, "-1": -1100, "1.5": -1100, "0": -1100} {
		q := request{arrived: now, values: map[string]string{"timestamp": value}}
		require.Equal(t, code, q.checkTime().Code, value)
	}
	q := request{arrived: now, values: map[string]string{"timestamp": "1795359391127", "recvWindow": "-1"}}
	require.Equal(t, -1100, q.checkTime().Code)
}

// FuzzRequest: reading a request of arbitrary bytes returns values or an error.
func FuzzRequest(f *testing.F) {
	f.Add("symbol=SPYUSD&signature=aa", "price=1", `{"a":1}`)
	f.Add("signature=&&=", "signature=x&signature=y", `{"a":"\ud800"}`)
	f.Fuzz(func(t *testing.T, query, body, params string) {
		var q request
		_ = q.readREST(query, body)
		_, _, _ = readOrder(&q)
		_, _ = readReplacement(&q)
		_ = q.checkTime()
		var a map[string]json.RawMessage
		if json.Unmarshal([]byte(params), &a) == nil {
			_ = q.readParams(a)
		}
		_, _ = parseStream(query)
	})
}

// TestASymbolIsNamedOnce: a list that repeats a symbol is refused, so that no answer is longer than all symbols.
func TestASymbolIsNamedOnce(t *testing.T) {
	q := request{values: map[string]string{"symbols": `["AUSD","BUSD","AUSD"]`}}
	_, _, problem := q.symbols()
	require.NotNil(t, problem)
	require.Equal(t, `{"code":-1151,"msg":"Symbol is present multiple times in the list."}`, string(problem.json()))
}
