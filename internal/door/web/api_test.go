package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"outcry/internal/testing/markettest"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/market"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// patience is how long tests wait for an expected event. No result depends on its value.
const patience = 30 * time.Second

// Records of the symbol S.
var (
	canceledAll = markettest.CanceledAll
	event       = markettest.Event
	made        = markettest.Made
	placed      = markettest.Placed
)

// tradesInMemory is how many trades of a symbol the feed keeps.
const tradesInMemory = 16_384

// site serves the market data of a journal over HTTP. The test writes the journal.
type site struct {
	t       *testing.T
	journal *journal.Journal
	feed    *market.Feed
	api     *API
	server  *httptest.Server
	stop    context.CancelFunc // stops the feed
}

// openSite serves an empty market. change may change the options.
func openSite(t *testing.T, change func(*APIOptions)) *site {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
	require.NoError(t, err)
	records, err := j.NewReader(1)
	require.NoError(t, err)
	s := &site{t: t, journal: j}
	o := APIOptions{Health: func() Health { return Health{} },
		Started: func() error { return nil }, Version: "test", ReadersMax: 10,
		Orders: OrderEntry{Port: 12345, Local: true, Tokens: true}, WriteTimeout: patience,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics()}
	change(&o)
	s.api = NewAPI(o)
	s.feed = market.NewFeed(market.Options{Records: trailtest.Follow(records, 0, nil), Publish: s.api.Publish,
		Log: slog.New(slog.DiscardHandler)}, &market.Snapshot{})
	s.api.Attach(s.feed)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.feed.Run(ctx)
	}()
	s.server = httptest.NewUnstartedServer(s.api)
	s.server.Listener = smallBuffers{s.server.Listener}
	s.server.Start()
	t.Cleanup(func() {
		cancel()
		<-ended
		s.server.Close()
		require.NoError(t, j.Close())
	})
	return s
}

// smallBuffers is a listener whose connections have small send buffers.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// source is a journal to which a test adds records.
type source struct {
	mu   sync.Mutex
	all  [][]byte
	next int
}

// add appends records.
func (s *source) add(records ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, records...)
}

func (s *source) TryNext() (uint64, []byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == len(s.all) {
		return 0, nil, false, nil
	}
	s.next++
	return uint64(s.next), s.all[s.next-1], true, nil
}

func (s *source) Close() {}

// play appends records and returns when the feed has applied them.
func (s *site) play(records ...[]byte) {
	s.t.Helper()
	for _, r := range records {
		_, err := s.journal.Append(r)
		require.NoError(s.t, err)
	}
	require.Eventually(s.t, func() bool { return s.feed.Seq() == s.journal.Appended() }, patience, time.Millisecond)
}

// get requests a path, and decodes the answer.
func (s *site) get(path string, into any) (status int) {
	s.t.Helper()
	response, err := s.server.Client().Get(s.server.URL + path)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, "application/json", response.Header.Get("Content-Type"), path)
	require.NoError(s.t, json.Unmarshal(text, into), "%s: %s", path, text)
	return response.StatusCode
}

// The answers, as a client decodes them.
type (
	summary struct {
		Sym, Last, Shares, Notional, Bid, Ask string
		BidShares                             string `json:"bid_shares"`
		AskShares                             string `json:"ask_shares"`
		Time                                  int64
		Trades                                uint64
	}
	symbolsAnswer struct {
		Seq     uint64
		Symbols []summary
	}
	bookAnswer struct {
		Seq, Prev  uint64
		Sym        string
		Bids, Asks [][2]string
	}
	tradeAnswer struct {
		ID                  uint64
		Time                int64
		Price, Shares, Side string
		Buy, Sell           exchange.OrderID
	}
	tradesAnswer struct {
		Seq    uint64
		Sym    string
		Trades []tradeAnswer
	}
)

// summaryOf returns the expected entry of a symbol.
func summaryOf(s *markettest.TradedSymbol) summary {
	want := summary{Sym: string(s.Name), Shares: s.Traded.Shares.String(), Notional: s.Traded.Notional.String(),
		Trades: s.Traded.Trades}
	if s.Traded.Trades > 0 {
		want.Last, want.Time = s.Traded.Last.String(), exchange.Seconds(s.Traded.Time)
	}
	if bids := s.LevelsOf(exchange.Buy); len(bids) > 0 {
		want.Bid, want.BidShares = bids[0][0], bids[0][1]
	}
	if asks := s.LevelsOf(exchange.Sell); len(asks) > 0 {
		want.Ask, want.AskShares = asks[0][0], asks[0][1]
	}
	return want
}

// tradesOf returns the expected trades of a symbol.
func tradesOf(s *markettest.TradedSymbol) (want []tradeAnswer) {
	for i, t := range s.Trades {
		want = append(want, tradeAnswer{uint64(i + 1), exchange.Seconds(t.Time), t.Price.String(), t.Shares.String(),
			t.Side().String(), t.Buy, t.Sell})
	}
	return want
}

func TestAnswersTellTheMarket(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s, m := openSite(t, func(*APIOptions) {}), markettest.NewRandomMarket(seed, 100)
	for range 25 {
		m.MakeSymbol()
	}
	for range 10_000 {
		m.Trade()
	}
	m.MakeSymbol() // a symbol without orders and trades
	s.play(m.Take()...)
	slices.SortFunc(m.Symbols, func(a, b *markettest.TradedSymbol) int { return cmp.Compare(a.Name, b.Name) })
	var want, got []summary
	for _, symbol := range m.Symbols {
		want = append(want, summaryOf(symbol))
	}
	for page := (symbolsAnswer{Symbols: []summary{{}}}); len(page.Symbols) > 0; got = append(got, page.Symbols...) {
		after := ""
		if len(got) > 0 {
			after = "&after=" + got[len(got)-1].Sym
		}
		page = symbolsAnswer{}
		require.Equal(t, http.StatusOK, s.get("/api/v1/symbols?limit=10"+after, &page))
		require.Equal(t, m.Seq, page.Seq)
		require.LessOrEqual(t, len(page.Symbols), 10)
	}
	require.Equal(t, want, got)
	for _, symbol := range m.Symbols {
		var book bookAnswer
		require.Equal(t, http.StatusOK, s.get(fmt.Sprintf("/api/v1/book/%s?depth=7", symbol.Name), &book))
		bids, asks := symbol.LevelsOf(exchange.Buy), symbol.LevelsOf(exchange.Sell)
		require.Equal(t, bookAnswer{m.Seq, 0, string(symbol.Name), bids[:min(7, len(bids))], asks[:min(7, len(asks))]}, book)

		var all []tradeAnswer
		for page := (tradesAnswer{Trades: []tradeAnswer{{}}}); len(page.Trades) > 0; all = append(all, page.Trades...) {
			page = tradesAnswer{}
			require.Equal(t, http.StatusOK, s.get(
				fmt.Sprintf("/api/v1/trades/%s?after=%d&limit=50", symbol.Name, len(all)), &page))
		}
		require.Equal(t, tradesOf(symbol), all)
		var newest tradesAnswer
		require.Equal(t, http.StatusOK, s.get(fmt.Sprintf("/api/v1/trades/%s?limit=3", symbol.Name), &newest))
		require.Equal(t, append([]tradeAnswer{}, all[max(0, len(all)-3):]...), newest.Trades)
	}
}

// TestInstructionsAndRulesAreShown: answers show instructions and rules only if they are not the default.
func TestInstructionsAndRulesAreShown(t *testing.T) {
	o := exchange.PublicOrder{Symbol: "S", Terms: exchange.Terms{Side: exchange.Buy, TIF: exchange.FOK, Post: true,
		Type: exchange.Market, STP: exchange.CancelBoth, Limit: 2e8}, Shares: 9e8,
		Status: exchange.Status{Open: 1e8, Changes: &exchange.Changes{Replaced: 7, Reduced: 3e8, ReducedAt: 5e9 + 1}}}
	require.Equal(t, `{"id":1,"sym":"S","side":"buy","limit":"2","shares":"9","type":"market","tif":"FOK","post":true,`+
		`"stp":"both","open":"1","replaced":7,"reduced":{"shares":"3","time":5},"executed":[]}`,
		string(appendOrder(nil, 1, &o, 0)))
	o.Terms, o.Status.Changes = exchange.Terms{Side: exchange.Buy, Limit: 2e8}, &exchange.Changes{}
	require.Equal(t, `{"id":1,"sym":"S","side":"buy","limit":"2","shares":"9","open":"1","executed":[]}`,
		string(appendOrder(nil, 1, &o, 0)))

	s := openSite(t, func(*APIOptions) {})
	listed := func(rules string) {
		t.Helper()
		response, err := s.server.Client().Get(s.server.URL + "/api/v1/symbols")
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), `[{"sym":"S","shares":"0","notional":"0","trades":0`+rules+`}]`)
	}
	s.play(event(exchange.Event{Kind: exchange.SymbolMade, SymbolRules: &exchange.SymbolRules{Tick: 1e6}}))
	listed(`,"tick":"0.01"`)
	s.play(event(exchange.Event{Kind: exchange.SymbolRuled, SymbolRules: &exchange.SymbolRules{Lot: 1e8, Band: 5}}))
	listed(`,"lot":"1"`)
	s.play(event(exchange.Event{Kind: exchange.SymbolRuled, SymbolRules: &exchange.SymbolRules{}}))
	listed("")
}

func TestAnOrderIsShownWithoutItsOwner(t *testing.T) {
	order := exchange.PublicOrder{Symbol: "S", Terms: exchange.Terms{Side: exchange.Sell, Limit: 150e8}, Shares: 100e8,
		Status: exchange.Status{Canceled: 60e8, CanceledAt: 8 * exchange.Second,
			Executions: []exchange.Execution{{Shares: 30e8, Price: 123.45e8, Time: 6*exchange.Second + 9},
				{Shares: 10e8, Price: 160e8, Time: 7 * exchange.Second}}}}
	s := openSite(t, func(o *APIOptions) {
		o.Order = func(_ context.Context, id exchange.OrderID, _, _ int) (exchange.PublicOrder, bool, error) {
			if id == 3 {
				return order, false, errors.New("Postgres is away")
			}
			return order, id == 12, nil
		}
	})
	response, err := s.server.Client().Get(s.server.URL + "/api/v1/orders/12")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, `{"id":12,"sym":"S","side":"sell","limit":"150","shares":"100","open":"0",`+
		`"canceled":{"shares":"60","time":8},`+
		`"executed":[{"shares":"30","price":"123.45","time":6},{"shares":"10","price":"160","time":7}]}`, string(text))
	var refusal struct{ Error string }
	require.Equal(t, http.StatusNotFound, s.get("/api/v1/orders/13", &refusal))
	require.Equal(t, "there is no order 13", refusal.Error)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/orders/3", &refusal))
	require.Equal(t, "Postgres is away", refusal.Error)
}

func TestRefusalsNameWhatIsWrong(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	s.play(made, placed(1, exchange.Sell, 9e14, 7))
	for n := range exchange.OrderID(2*tradesInMemory + 10) {
		s.appendOnly(placed(n+2, exchange.Buy, 1, 7, exchange.Fill{Resting: 1, Account: "1", Shares: 1, Price: 7}))
	}
	s.play()
	for path, want := range map[string]string{
		"/api/v1/symbols?limit=0":    `400 limit "0" is not a number from 1 to 5000`,
		"/api/v1/symbols?limit=5001": `400 limit "5001" is not a number from 1 to 5000`,
		"/api/v1/symbols?after=A-B":  `400 symbol "A-B"`,
		"/api/v1/book/S?depth=x":     `400 depth "x" is not a number from 1 to 1000`,
		"/api/v1/book/A%2FB":         `400 symbol "A/B"`,
		"/api/v1/book/NONE":          `404 there is no symbol "NONE"`,
		"/api/v1/trades/NONE":        `404 there is no symbol "NONE"`,
		"/api/v1/trades/S?after=-1":  `400 after "-1" is not the id of a trade`,
		"/api/v1/trades/S?limit=1e3": `400 limit "1e3" is not a number from 1 to 1000`,
		"/api/v1/trades/S?after=5": fmt.Sprintf("410 trades are no longer in memory: "+
			"those of S start at %d; all are in the relation executions", tradesInMemory+11),
		"/api/v1/orders/1?after=-1":      `400 after "-1" is not a number from 0 to 2147483647`,
		"/api/v1/orders/1?limit=10001":   `400 limit "10001" is not a number from 1 to 10000`,
		"/api/v1/orders/x":               `400 order id "x"`,
		"/api/v1/stream?sym=NONE":        `404 there is no symbol "NONE"`,
		"/api/v1/stream?sym=S&depth=201": `400 depth "201" is not a number from 1 to 200`,
		"/api/v1/nothing":                `404 there is no "/api/v1/nothing"`,
	} {
		var refusal struct{ Error string }
		status := s.get(path, &refusal)
		require.Contains(t, fmt.Sprint(status, " ", refusal.Error), want, path)
	}
	var page tradesAnswer
	require.Equal(t, http.StatusOK, s.get("/api/v1/trades/S?after=99999999999", &page))
	require.Empty(t, page.Trades, "they are yet to come")
}

// appendOnly appends a record.
func (s *site) appendOnly(record []byte) {
	_, err := s.journal.Append(record)
	require.NoError(s.t, err)
}

func TestWithoutMarketDataItSaysWhy(t *testing.T) {
	why := errors.New("waiting for Postgres")
	api := NewAPI(APIOptions{Started: func() error { return why }, Metrics: NewMetrics()})
	ask := func() string {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/symbols", nil))
		stream := httptest.NewRecorder()
		api.ServeHTTP(stream, httptest.NewRequest("GET", "/api/v1/stream", nil))
		require.Equal(t, []any{w.Code, w.Body.String()}, []any{stream.Code, stream.Body.String()})
		return fmt.Sprint(w.Code, w.Body.String())
	}
	require.Equal(t, `503{"error":"waiting for Postgres"}`, ask())
	why = nil
	require.Equal(t, `503{"error":"starting"}`, ask())
	records := trailtest.Follow(&source{all: [][]byte{made, made}}, 0, nil)
	f := market.NewFeed(market.Options{Records: records, Log: slog.New(slog.DiscardHandler)}, &market.Snapshot{})
	api.Attach(f)
	require.Equal(t, `200{"seq":0,"symbols":[]}`, func() string {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/symbols", nil))
		return fmt.Sprint(w.Code, w.Body.String())
	}())
	f.Run(t.Context())
	require.Equal(t, `503{"error":"market: journal record 2: symbol S is created twice"}`, ask())
}

// TestAnswersAreBoundedInNumber: while the maximum number of answers of one kind is delayed, other kinds are
// answered.
func TestAnswersAreBoundedInNumber(t *testing.T) {
	waiting, release := make(chan struct{}), make(chan struct{})
	s := openSite(t, func(o *APIOptions) {
		o.Order = func(context.Context, exchange.OrderID, int, int) (o exchange.PublicOrder, found bool, err error) {
			waiting <- struct{}{}
			<-release
			return o, false, nil
		}
	})
	answers := make(chan int)
	for range ordersAnswersMax {
		go func() {
			response, err := http.Get(s.server.URL + "/api/v1/orders/1")
			if err != nil {
				answers <- 0
				return
			}
			response.Body.Close()
			answers <- response.StatusCode
		}()
	}
	for range ordersAnswersMax {
		<-waiting
	}
	var refusal struct{ Error string }
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/orders/1", &refusal))
	require.Equal(t, "16 requests of this kind are in progress, which is the limit; try again", refusal.Error)
	require.Equal(t, http.StatusOK, s.get("/api/v1/symbols", new(symbolsAnswer)))
	close(release)
	for range ordersAnswersMax {
		require.Equal(t, http.StatusNotFound, <-answers)
	}
	go func() { <-waiting }()
	require.Equal(t, http.StatusNotFound, s.get("/api/v1/orders/1", &refusal))
}

func TestAnOrderWaitsForABoundedTime(t *testing.T) {
	s := openSite(t, func(o *APIOptions) {
		o.Order = func(ctx context.Context, _ exchange.OrderID, _, _ int) (o exchange.PublicOrder, found bool, err error) {
			if until, bounded := ctx.Deadline(); !bounded || time.Until(until) > orderTimeout {
				return o, false, errors.New("it would wait too long")
			}
			return o, false, fmt.Errorf("postgres: %w", context.DeadlineExceeded)
		}
	})
	var refusal struct{ Error string }
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/orders/7", &refusal))
	require.Equal(t, "order 7: no answer from Postgres within 5s; try again", refusal.Error)
}

func TestThePageIsServedAsItsFilesAre(t *testing.T) {
	api := NewAPI(APIOptions{Metrics: NewMetrics()})
	get := func(path, tag string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", tag)
		api.ServeHTTP(w, r)
		return w
	}
	root, index := get("/", ""), get("/page/index.html", "")
	want, err := pageFiles.ReadFile("page/index.html")
	require.NoError(t, err)
	require.Equal(t, string(want), root.Body.String())
	require.Equal(t, root.Body, index.Body)
	require.Equal(t, root.Header(), index.Header())
	require.Equal(t, "text/html; charset=utf-8", root.Header().Get("Content-Type"))
	require.Contains(t, root.Header().Get("Content-Security-Policy"), "default-src 'self';")
	require.NotContains(t, root.Header().Get("Content-Security-Policy"), "unsafe")
	require.Equal(t, "no-cache", root.Header().Get("Cache-Control"))
	again := get("/", root.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.Body.String())
	require.Equal(t, http.StatusNotFound, get("/page/nothing.js", "").Code)
	require.Equal(t, http.StatusNotFound, get("/page/", "").Code)
	for name, f := range newPage().files {
		require.NotEqual(t, "application/octet-stream", f.kind, "%s needs a type", name)
	}
}

func TestStreamMetricsAreWellNamed(t *testing.T) {
	problems, err := testutil.CollectAndLint(NewMetrics())
	require.NoError(t, err)
	require.Empty(t, problems)
}
