package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// ask requests a path of the HTTP side, requires the status, and decodes the answer.
func ask(t testing.TB, addr, path string, status int, into any) {
	t.Helper()
	response, err := http.Get("http://" + addr + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%s: %s", path, text)
	require.NoError(t, json.Unmarshal(text, into), "%s: %s", path, text)
}

// Answers of the market API, as a client decodes them.
type (
	publicBook struct {
		Seq, Prev  uint64
		Sym        string
		Bids, Asks [][2]string
	}
	publicTrade struct {
		ID                  uint64
		Time                int64
		Price, Shares, Side string
		Buy, Sell           uint64
	}
	publicTrades struct{ Trades []publicTrade }
	publicOrder  struct {
		Sym, Side, Limit, Shares, Open string
		Canceled                       *struct {
			Shares string
			Time   int64
		}
		Executed []struct {
			Shares, Price string
			Time          int64
		}
	}
)

// marketUpTo waits until market data has reached a record.
func marketUpTo(t testing.TB, addr string, seq uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + addr + "/api/v1/symbols?limit=1")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		var at struct{ Seq uint64 }
		return json.NewDecoder(response.Body).Decode(&at) == nil && response.StatusCode == http.StatusOK && at.Seq >= seq
	}, patience, lookEvery)
}

// tradeMuch creates accounts 1 to 5 and lets them trade two symbols. It returns the order ids and the number of journal
// records.
func tradeMuch(t testing.TB, c *conn, r *rand.Rand, frames int) (ids []string, records uint64) {
	t.Helper()
	create := new(wire.Create)
	for id := 1; id <= 5; id++ {
		create.Account(wire.Account{ID: fmt.Sprint(id), Balance: "1000000"})
	}
	for _, sym := range []string{"SYM0", "SYM1"} {
		for id := 1; id <= 5; id++ {
			create.Symbol(sym, wire.Placement{Account: fmt.Sprint(id), Shares: "100000"})
		}
	}
	c.must(t, string(create.Append(nil)))
	records = 5 + 2*6
	for range frames {
		answers, err := wire.ParseReply([]byte(c.must(t, randomTrades(r, fmt.Sprint(1+r.IntN(5)), 2, ids))))
		require.NoError(t, err)
		for _, a := range answers {
			if a.Kind == "opened" {
				ids = append(ids, a.ID)
			}
			if a.Kind == "opened" || a.Kind == "canceled" {
				records++
			}
		}
	}
	return ids, records
}

func units(t testing.TB, decimal string) exchange.Position {
	t.Helper()
	p, err := exchange.ParseDeposit(decimal)
	require.NoError(t, err)
	return p
}

// TestTheBookIsWhatQueriesAddUpTo queries every order over XML and over HTTP, and compares the sums with the book and
// the trades.
func TestTheBookIsWhatQueriesAddUpTo(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--closed-orders=50")...)
	c, web := dial(t, addr), s.httpAddr.String()
	ids, records := tradeMuch(t, c, rand.New(rand.NewPCG(seed, 0)), 150)
	marketUpTo(t, web, records)
	open := map[string]map[string]exchange.Position{} // open shares by symbol and side, and by price
	executed := map[string]exchange.Position{}        // executed shares of all orders, by symbol
	for _, id := range ids {
		var o publicOrder
		ask(t, web, "/api/v1/orders/"+id, http.StatusOK, &o)
		answers, err := wire.ParseReply([]byte(c.must(t, `<transactions id="1"><query id="`+id+`"/></transactions>`)))
		require.NoError(t, err)
		a := answers[0]
		require.Equal(t, o.Open, map[bool]string{true: "0", false: a.Open}[a.Open == ""], "order %s", id)
		require.Equal(t, o.Canceled != nil, a.Canceled != "", "order %s", id)
		require.Len(t, o.Executed, len(a.Executed))
		for i, e := range a.Executed {
			require.Equal(t, []string{e.Shares, e.Price, fmt.Sprint(e.Time)},
				[]string{o.Executed[i].Shares, o.Executed[i].Price, fmt.Sprint(o.Executed[i].Time)})
			executed[o.Sym] = executed[o.Sym].Add(units(t, e.Shares))
		}
		if o.Open != "0" {
			levels := open[o.Sym+o.Side]
			if levels == nil {
				levels = map[string]exchange.Position{}
				open[o.Sym+o.Side] = levels
			}
			levels[o.Limit] = levels[o.Limit].Add(units(t, o.Open))
		}
	}
	for _, sym := range []string{"SYM0", "SYM1"} {
		var book publicBook
		ask(t, web, "/api/v1/book/"+sym+"?depth=1000", http.StatusOK, &book)
		for side, levels := range map[string][][2]string{"buy": book.Bids, "sell": book.Asks} {
			require.Len(t, levels, len(open[sym+side]))
			for _, level := range levels {
				require.Equal(t, open[sym+side][level[0]].String(), level[1], "%s %s at %s", sym, side, level[0])
			}
		}
		var all publicTrades
		ask(t, web, "/api/v1/trades/"+sym+"?after=0&limit=1000", http.StatusOK, &all)
		var sum exchange.Position
		for i, trade := range all.Trades {
			require.EqualValues(t, i+1, trade.ID)
			sum = sum.Add(units(t, trade.Shares)).Add(units(t, trade.Shares)) // counted for both orders
		}
		require.Equal(t, executed[sym], sum)
	}
	var refusal struct{ Error string }
	ask(t, web, fmt.Sprintf("/api/v1/orders/%d", len(ids)+1), http.StatusNotFound, &refusal)
}

// streamed reads the events of a stream.
type streamed struct {
	t    testing.TB
	body *bufio.Scanner
}

func openStream(t testing.TB, addr, query string) *streamed {
	t.Helper()
	response, err := http.Get("http://" + addr + "/api/v1/stream?" + query)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	t.Cleanup(func() { response.Body.Close() })
	s := &streamed{t, bufio.NewScanner(response.Body)}
	s.body.Buffer(nil, 16<<20)
	return s
}

// next returns the name and the data of the next event, or "" at the end of the stream.
func (s *streamed) next() (name, data string) {
	for s.body.Scan() {
		line := s.body.Text()
		switch {
		case line == "":
			return name, data
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		}
	}
	return "", ""
}

func (s *streamed) until(name string, into any) {
	s.t.Helper()
	for {
		got, data := s.next()
		require.NotEmpty(s.t, got, "the stream has ended")
		if got == name {
			require.NoError(s.t, json.Unmarshal([]byte(data), into))
			return
		}
	}
}

// TestMarketDataGoesOnAfterAKill kills the program between trades. Each time the stream announces a new run, the book
// is as before, and trade numbers continue. At the end the trades equal those in Postgres.
func TestMarketDataGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	c.must(t, `<transactions id="2"><order sym="S" amount="-1000" limit="2.5"/><order sym="S" amount="-7" limit="3"/>`+
		`</transactions>`)
	var trades []publicTrade
	for done := 20; done <= 60; done += 20 {
		for range 20 {
			c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="2.5"/></transactions>`)
		}
		before, after := struct{ Start string }{}, struct{ Start string }{}
		marketUpTo(t, p.http, 4)
		s := openStream(t, p.http, "sym=S")
		s.until("hello", &before)
		p.kill()
		for name, _ := s.next(); name != ""; name, _ = s.next() {
		}
		p = start(t, flags...)
		c = dial(t, p.xml)
		marketUpTo(t, p.http, uint64(6+done))
		s = openStream(t, p.http, "sym=S")
		s.until("hello", &after)
		require.NotEqual(t, before, after)
		var listing struct {
			Symbols []struct{ Last, Shares, Notional string }
		}
		s.until("symbols", &listing)
		require.Equal(t, []string{"2.5", fmt.Sprint(done), strconv.FormatFloat(2.5*float64(done), 'f', -1, 64)},
			[]string{listing.Symbols[0].Last, listing.Symbols[0].Shares, listing.Symbols[0].Notional})
		var book publicBook
		s.until("book", &book)
		require.Equal(t, [][2]string{{"2.5", fmt.Sprint(1000 - done)}, {"3", "7"}}, book.Asks)
		require.Empty(t, book.Bids)
		var newest publicTrades
		s.until("trades", &newest)
		trades = newest.Trades
		require.EqualValues(t, done, trades[len(trades)-1].ID)
		candlesHaveAll(t, p.http, done)
	}
	p.stop(t)
	rows := query(t, text(t, database),
		`SELECT buy_order, sell_order, shares, price FROM executions ORDER BY aggressing_order DESC, n DESC LIMIT 50`)
	require.Len(t, trades, len(rows))
	for i, row := range rows {
		trade := trades[len(trades)-1-i]
		require.Equal(t, row, []string{fmt.Sprint(trade.Buy), fmt.Sprint(trade.Sell), trade.Shares, trade.Price})
	}
	require.Equal(t, [][]string{{"S", "60", "60", "150", "2.5"}},
		query(t, text(t, database), `SELECT sym, trades, shares, notional, last_price FROM market`))
}

// candlesHaveAll requires that the candles of S count exactly this many trades, including those of earlier runs, which
// come from the database.
func candlesHaveAll(t *testing.T, addr string, trades int) {
	for _, interval := range []string{"1s", "1m", "5m", "1h", "1d"} {
		var answer struct {
			Candles []struct {
				Start         int64 `json:"start_ms"`
				First, Trades int
				Shares, High  string
			}
		}
		ask(t, addr, "/api/v1/candles/S?interval="+interval, 200, &answer)
		next, start := 1, int64(0)
		for _, c := range answer.Candles {
			require.Equal(t, next, c.First, interval)
			require.Greater(t, c.Start, start, interval)
			require.Equal(t, []string{fmt.Sprint(c.Trades), "2.5"}, []string{c.Shares, c.High}, interval)
			next, start = next+c.Trades, c.Start
		}
		require.Equal(t, trades+1, next, interval)
	}
}

func TestWithoutHTTPNoFeedRuns(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	c.must(t, `<transactions id="2"><order sym="S" amount="-5" limit="2"/></transactions>`)
	c.must(t, `<transactions id="1"><order sym="S" amount="5" limit="2"/></transactions>`)
	p.stop(t)
	s, addr := inProcess(t, append(flags, "--http=")...)
	dial(t, addr).must(t, `<transactions id="1"><order sym="S" amount="5" limit="2"/></transactions>`)
	require.Nil(t, s.feed)
	require.Empty(t, s.database.Traded, "nobody needs it")
	require.Empty(t, s.database.Trades, "nobody needs it")
	require.Nil(t, s.market)
}

func TestAckPostgresTellsTheMarketWhatPostgresHas(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, append(flags, "--ack=postgres")...)
	dial(t, p.xml).must(t, opening)
	marketUpTo(t, p.http, 4)
	var listing struct{ Symbols []struct{ Sym string } }
	ask(t, p.http, "/api/v1/symbols", http.StatusOK, &listing)
	require.Equal(t, "S", listing.Symbols[0].Sym)
}

// TestAMarketThatWasTamperedWithStopsMarketDataOnly alters the stored market. Trading continues, and the market API
// answers with the reason why it has no data.
func TestAMarketThatWasTamperedWithStopsMarketDataOnly(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	c.must(t, `<transactions id="2"><order sym="S" amount="-5" limit="2"/></transactions>`)
	c.must(t, `<transactions id="1"><order sym="S" amount="5" limit="2"/></transactions>`)
	p.stop(t)
	query(t, database, `UPDATE market SET sym = 'X'`)
	p = start(t, flags...)
	require.Contains(t, dial(t, p.xml).must(t,
		`<transactions id="1"><order sym="S" amount="5" limit="2"/></transactions>`), "opened")
	var refusal struct{ Error string }
	ask(t, p.http, "/api/v1/symbols", http.StatusServiceUnavailable, &refusal)
	require.Contains(t, refusal.Error, "1 trades of X")
	p.stop(t)
}

// TestHealthTellsTheLastSecond trades until the stream's health event reports orders in the last second.
func TestHealthTellsTheLastSecond(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	s := openStream(t, p.http, "")
	for {
		c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="2"/></transactions>`)
		var health struct {
			Orders   float64 `json:"orders_per_second"`
			Requests float64 `json:"requests_per_second"`
			P50      float64 `json:"p50_seconds"`
			P99      float64 `json:"p99_seconds"`
			Ready    bool
		}
		s.until("health", &health)
		if health.Orders > 0 && health.P99 > 0 {
			require.GreaterOrEqual(t, health.Requests, health.Orders)
			require.GreaterOrEqual(t, health.P99, health.P50)
			require.True(t, health.Ready)
			return
		}
	}
}

// description is the OpenAPI document, docs/openapi.yaml.
type description struct {
	Paths map[string]map[string]struct {
		Responses map[string]map[string]any
	}
	Components map[string]map[string]map[string]any
}

// check requires that a value matches a schema. It supports the parts of JSON Schema that the document uses.
func (d *description) check(t testing.TB, where string, schema map[string]any, v any) {
	t.Helper()
	for keyword, says := range schema {
		switch keyword {
		case "$ref":
			path := strings.Split(says.(string), "/")
			d.check(t, where, d.Components[path[2]][path[3]], v)
		case "type":
			require.Contains(t, map[string]string{"map[string]interface {}": "object", "[]interface {}": "array",
				"string": "string", "bool": "boolean", "float64": "number integer"}[fmt.Sprintf("%T", v)], says, "%s: %v", where, v)
			if says == "integer" {
				require.Equal(t, float64(int64(v.(float64))), v, where)
			}
		case "required":
			for _, name := range says.([]any) {
				require.Contains(t, v, name, where)
			}
		case "properties":
			for name, member := range v.(map[string]any) {
				require.Contains(t, says, name, where)
				d.check(t, where+"."+name, says.(map[string]any)[name].(map[string]any), member)
			}
		case "items":
			for i, item := range v.([]any) {
				d.check(t, fmt.Sprintf("%s[%d]", where, i), says.(map[string]any), item)
			}
		case "pattern":
			require.Regexp(t, regexp.MustCompile(says.(string)), v, where)
		case "enum":
			require.Contains(t, says, v, where)
		case "minimum":
			require.GreaterOrEqual(t, v, float64(says.(int)), where)
		case "maximum":
			require.LessOrEqual(t, v, float64(says.(int)), where)
		case "minItems", "maxItems":
			require.Len(t, v, says.(int), where)
		case "additionalProperties", "description", "examples":
		default:
			t.Fatalf("%s: the test does not know %s", where, keyword)
		}
	}
}

// checkExamples requires that the example answers match their schemas, and that each path with a JSON answer has an
// example.
func (d *description) checkExamples(t testing.TB) {
	t.Helper()
	for path, methods := range d.Paths {
		media, _ := methods["get"].Responses["200"]["content"].(map[string]any)["application/json"].(map[string]any)
		if media == nil {
			continue
		}
		text, err := json.Marshal(media["example"])
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(text, &v))
		require.NotNil(t, v, "%s has no example", path)
		d.check(t, "the example of "+path, media["schema"].(map[string]any), v)
	}
}

// TestAnswersAreAsTheDescriptionSays requests every path of the description from a server with a market, reads a
// stream, and checks the answers.
func TestAnswersAreAsTheDescriptionSays(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	c, r := dial(t, p.xml), rand.New(rand.NewPCG(seed, 0))
	ids, records := tradeMuch(t, c, r, 60)
	marketUpTo(t, p.http, records)
	var d description
	raw := get(t, p, "/api/v1/openapi.yaml")
	require.NoError(t, yaml.NewDecoder(raw.Body).Decode(&d))
	d.checkExamples(t)
	asked := map[string]bool{}
	try := func(template, path string, status int) {
		var v any
		ask(t, p.http, path, status, &v)
		response := d.Paths[template]["get"].Responses[fmt.Sprint(status)]
		require.NotNil(t, response, "%s %d", template, status)
		if ref, ok := response["$ref"]; ok {
			require.Equal(t, "#/components/responses/Error", ref)
			response = d.Components["responses"]["Error"]
		}
		d.check(t, path, response["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any),
			v)
		asked[template] = true
	}
	try("/api/v1/symbols", "/api/v1/symbols", 200)
	try("/api/v1/symbols", "/api/v1/symbols?limit=0", 400)
	try("/api/v1/book/{sym}", "/api/v1/book/SYM0", 200)
	try("/api/v1/book/{sym}", "/api/v1/book/NONE", 404)
	try("/api/v1/book/{sym}", "/api/v1/book/SYM0?depth=0", 400)
	try("/api/v1/trades/{sym}", "/api/v1/trades/SYM1?after=0", 200)
	try("/api/v1/trades/{sym}", "/api/v1/trades/NONE", 404)
	try("/api/v1/candles/{sym}", "/api/v1/candles/SYM1?interval=1m", 200)
	try("/api/v1/candles/{sym}", "/api/v1/candles/SYM1?interval=1w", 400)
	try("/api/v1/candles/{sym}", "/api/v1/candles/NONE?interval=1m", 404)
	for _, id := range ids {
		try("/api/v1/orders/{id}", "/api/v1/orders/"+id, 200)
	}
	try("/api/v1/orders/{id}", "/api/v1/orders/0", 400)
	try("/api/v1/orders/{id}", "/api/v1/orders/9999999", 404)
	try("/api/v1/stream", "/api/v1/stream?sym=NONE", 404)
	try("/api/v1/cluster", "/api/v1/cluster", 404) // the server is not in a cluster
	try("/api/v1/book/{sym}", "/api/v1/book/SYM0?min_seq=-1", 400)
	asked["/api/v1/openapi.yaml"] = true
	require.Len(t, asked, len(d.Paths), "every path is asked for")

	events := d.Paths["/api/v1/stream"]["get"].Responses["200"]["x-events"].(map[string]any)
	s, seen := openStream(t, p.http, "sym=SYM0&interval=1s"), map[string]int{}
	for len(seen) < len(events) || seen["book"] < 3 || seen["health"] < 2 {
		name, data := s.next()
		require.Contains(t, events, name)
		var v any
		require.NoError(t, json.Unmarshal([]byte(data), &v))
		d.check(t, name, events[name].(map[string]any), v)
		seen[name]++
		c.must(t, randomTrades(r, fmt.Sprint(1+r.IntN(5)), 1, nil))
	}
}
