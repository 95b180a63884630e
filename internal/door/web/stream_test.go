package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"outcry/internal/testing/markettest"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/market"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// streamReader reads events.
type streamReader struct {
	t     *testing.T
	body  *bufio.Reader
	close func() error
}

type streamEvent struct {
	name, data string
	id         uint64
}

// open begins to read the stream.
func (s *site) open(query string) *streamReader {
	s.t.Helper()
	response, err := s.server.Client().Get(s.server.URL + "/api/v1/stream?" + query)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	require.Equal(s.t, "text/event-stream", response.Header.Get("Content-Type"))
	s.t.Cleanup(func() { response.Body.Close() })
	return &streamReader{s.t, bufio.NewReader(response.Body), response.Body.Close}
}

// next returns the next event, or the error of the connection.
func (r *streamReader) next() (e streamEvent, err error) {
	for {
		line, err := r.body.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return e, nil
		}
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "id":
			_, err = fmt.Sscan(value, &e.id)
			require.NoError(r.t, err)
		default:
			r.t.Fatalf("unexpected line %q", line)
		}
	}
}

// until returns the next event with a name, decoded.
func (r *streamReader) until(name string, into any) streamEvent {
	r.t.Helper()
	for {
		e, err := r.next()
		require.NoError(r.t, err)
		if e.name == name {
			require.NoError(r.t, json.Unmarshal([]byte(e.data), into), e.data)
			return e
		}
	}
}

func TestTheStreamBeginsWithWhatThereIs(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	s.play(made, placed(1, exchange.Sell, 5e8, 7e8),
		placed(2, exchange.Buy, 2e8, 8e8, exchange.Fill{Resting: 1, Account: "1", Shares: 2e8, Price: 7e8}))
	r := s.open("sym=S&depth=3")
	var got []string
	for range 4 {
		e, err := r.next()
		require.NoError(t, err)
		require.EqualValues(t, 3, e.id)
		got = append(got, e.name+" "+e.data)
	}
	require.Equal(t, []string{
		`hello {"seq":3,"start":"` + s.api.start + `","version":"test",` +
			`"orders":{"port":12345,"local":true,"tls":false,"tokens":true}}`,
		`symbols {"seq":3,"symbols":[{"sym":"S","last":"7","time":0,"shares":"2","notional":"14","trades":1,` +
			`"ask":"7","ask_shares":"3"}]}`,
		`book {"seq":3,"prev":0,"sym":"S","bids":[],"asks":[["7","3"]]}`,
		`trades {"sym":"S","seq":3,"trades":[{"id":1,"time":0,"price":"7","shares":"2","side":"buy","buy":2,"sell":1}]}`,
	}, got)
	require.NotEqual(t, s.api.start, NewAPI(s.api.options).start, "each run has its own")

	bare := s.open("")
	seen := map[string]int{}
	for seen["health"] < 2 {
		e, err := bare.next()
		require.NoError(t, err)
		seen[e.name]++
	}
	require.Equal(t, 1, seen["hello"])
	require.Zero(t, seen["book"]+seen["trades"], "of no symbol")
}

// TestReadersFollowTheMarket trades while readers of two symbols join and leave: books are right, each names the
// book before it, and no trade is missing or sent twice.
func TestReadersFollowTheMarket(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s, m := openSite(t, func(*APIOptions) {}), markettest.NewRandomMarket(seed, 30)
	m.MakeSymbol()
	m.MakeSymbol()
	s.play(m.Take()...)
	type follower struct {
		*streamReader
		symbol *markettest.TradedSymbol
		book   bookAnswer
		trades []tradeAnswer
	}
	var followers []*follower
	for round := range 12 {
		if round%2 == 0 {
			symbol := m.Symbols[round/2%2]
			followers = append(followers, &follower{streamReader: s.open(fmt.Sprintf("sym=%s&depth=5", symbol.Name)),
				symbol: symbol})
		}
		for range 30 {
			m.Trade()
		}
		m.Place(m.Symbols[0]) // so that both books have changed
		m.Place(m.Symbols[1])
		s.play(m.Take()...)
		for _, f := range followers {
			bids, asks := f.symbol.LevelsOf(exchange.Buy), f.symbol.LevelsOf(exchange.Sell)
			want := bookAnswer{Sym: string(f.symbol.Name), Bids: bids[:min(5, len(bids))], Asks: asks[:min(5, len(asks))]}
			all := tradesOf(f.symbol)
			for !sameLevels(f.book, want) || len(all) > 0 &&
				(len(f.trades) == 0 || f.trades[len(f.trades)-1].ID < all[len(all)-1].ID) {
				e, err := f.next()
				require.NoError(t, err)
				switch e.name {
				case "book":
					before := f.book.Seq
					f.book = bookAnswer{}
					require.NoError(t, json.Unmarshal([]byte(e.data), &f.book))
					require.Equal(t, before, f.book.Prev, "the book before it")
					require.Equal(t, e.id, f.book.Seq)
				case "trades":
					var more tradesAnswer
					require.NoError(t, json.Unmarshal([]byte(e.data), &more))
					f.trades = append(f.trades, more.Trades...)
				}
			}
			require.Equal(t, all[len(all)-len(f.trades):], f.trades)
		}
	}
}

func sameLevels(a, b bookAnswer) bool {
	return a.Sym == b.Sym && fmt.Sprint(a.Bids, a.Asks) == fmt.Sprint(b.Bids, b.Asks)
}

// TestABurstLeavesAGapThatTradesFills makes more trades at once than an event holds. GET trades returns the others.
func TestABurstLeavesAGapThatTradesFills(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	s.play(made, placed(1, exchange.Sell, 1e8, 7))
	r := s.open("sym=S")
	var first, next, missed tradesAnswer
	r.until("trades", &first)
	require.Empty(t, first.Trades)
	// One order, so one record: all of it is in one event.
	order := exchange.Event{Kind: exchange.OrderAccepted, Order: 2, Terms: exchange.Terms{Side: exchange.Buy,
		Limit: 7}, Shares: 120}
	for range 120 {
		order.Fills = append(order.Fills, exchange.Fill{Resting: 1, Account: "1", Shares: 1, Price: 7})
	}
	s.play(event(order))
	r.until("trades", &next)
	require.Len(t, next.Trades, tradesPerEvent)
	require.Equal(t, []uint64{71, 120}, []uint64{next.Trades[0].ID, next.Trades[tradesPerEvent-1].ID})
	require.Equal(t, http.StatusOK, s.get("/api/v1/trades/S?after=0&limit=70", &missed))
	require.Equal(t, []uint64{1, 70}, []uint64{missed.Trades[0].ID, missed.Trades[69].ID})
}

// TestAReaderThatTakesNothingIsCutOff: a reader that reads nothing is disconnected, and the others stay connected.
func TestAReaderThatTakesNothingIsCutOff(t *testing.T) {
	s := openSite(t, func(o *APIOptions) { o.WriteTimeout = time.Second })
	m := markettest.NewRandomMarket(1, 10)
	for range 1000 {
		m.MakeSymbol() // so that the first event is larger than all buffers
	}
	s.play(m.Take()...)
	for _, query := range []string{"sym=S0000", ""} {
		r := s.open(query)
		go func() {
			for err := error(nil); err == nil; _, err = r.next() {
			}
		}()
	}
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		control := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF,
				4096)
		})
		if control != nil {
			return control
		}
		return err
	}}
	still, err := small.Dial("tcp", s.server.Listener.Addr().String())
	require.NoError(t, err)
	defer still.Close()
	_, err = fmt.Fprintf(still, "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return testutil.ToFloat64(s.api.options.Metrics.cutOff) == 1 && testutil.ToFloat64(s.api.options.Metrics.readers) == 2
	}, patience, time.Millisecond)
	var book bookAnswer
	s.open("sym=S0000").until("book", &book)
	require.Equal(t, "S0000", book.Sym)
}

// TestAReaderOfANewSymbolGetsItFirst: the first events of a reader include its symbol, even if the symbol was
// made after the listing and before the next event of symbols.
func TestAReaderOfANewSymbolGetsItFirst(t *testing.T) {
	r := newRounds(t)
	r.publish()
	_, _, err := r.hub.join(nil, 2, topicKey{})
	require.NoError(t, err)
	r.MakeSymbol()
	r.play()
	_, first, err := r.hub.join(nil, 2, topicKey{r.Symbols[1].Name, 1, noCandles})
	require.NoError(t, err)
	require.Len(t, first, 4)
	require.Contains(t, string(first[2]), "event: book\n")
	r.requireAllKnown(first[:2]...)
}

// TestTheListingBeginsWithTheBusiest checks a listing of more symbols than an event holds.
func TestTheListingBeginsWithTheBusiest(t *testing.T) {
	r := newRounds(t)
	for range 2 * symbolsPerEvent {
		r.MakeSymbol()
	}
	r.tradeFor(100)
	most := uint64(0)
	for _, s := range r.Symbols {
		most = max(most, s.Traded.Trades)
	}
	_, first, err := r.hub.join(nil, 1, topicKey{})
	require.NoError(t, err)
	listed := decodedSymbols(t, first[0])
	require.Len(t, listed, len(r.Symbols))
	require.NotZero(t, most)
	require.Equal(t, most, listed[0].Trades)
	for i, s := range listed[1:] {
		require.LessOrEqual(t, s.Trades, listed[i].Trades)
	}
}

// metered is a listener that records the most bytes that any of its connections has written under one deadline.
type metered struct {
	net.Listener
	most atomic.Int64
}

type meteredConn struct {
	net.Conn
	listener *metered
	written  int64 // bytes written since the deadline was set
}

func (l *metered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &meteredConn{Conn: c, listener: l}, err
}

func (c *meteredConn) SetWriteDeadline(t time.Time) error {
	c.written = 0
	return c.Conn.SetWriteDeadline(t)
}

func (c *meteredConn) Write(b []byte) (int, error) {
	c.written += int64(len(b))
	c.listener.most.Store(max(c.listener.most.Load(), c.written))
	return c.Conn.Write(b)
}

// TestASlowReaderHasTimeForEachPiece sends more than a slow reader can read before a single deadline.
func TestASlowReaderHasTimeForEachPiece(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	m := markettest.NewRandomMarket(1, 10)
	for range 5 * symbolsPerEvent {
		m.MakeSymbol()
	}
	s.play(m.Take()...)
	server := httptest.NewUnstartedServer(s.api)
	meter := &metered{Listener: server.Listener}
	server.Listener = meter
	server.Start()
	defer server.Close()
	defer s.stop() // this ends the stream
	response, err := server.Client().Get(server.URL + "/api/v1/stream")
	require.NoError(t, err)
	defer response.Body.Close()
	r := &streamReader{t, bufio.NewReader(response.Body), response.Body.Close}
	known, bytes := 0, 0
	for known < len(m.Symbols) {
		var part symbolsAnswer
		e := r.until("symbols", &part)
		require.LessOrEqual(t, len(part.Symbols), symbolsPerEvent)
		known, bytes = known+len(part.Symbols), bytes+len(e.data)
	}
	require.Greater(t, bytes, 3*pieceMost)
	const head = 1024 // maximum size of the answer's header
	require.LessOrEqual(t, meter.most.Load(), int64(pieceMost+head))
}

func TestReadersAreBoundedInNumber(t *testing.T) {
	s := openSite(t, func(o *APIOptions) { o.ReadersMax = 2 })
	s.play(made)
	a := s.open("sym=S")
	s.open("")
	var refusal struct{ Error string }
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/stream?sym=S", &refusal))
	require.Equal(t, "the stream is at its limit of readers; try again later: 2 are served at a time", refusal.Error)
	require.EqualValues(t, 1, testutil.ToFloat64(s.api.options.Metrics.refused))
	require.NoError(t, a.close())
	require.Eventually(t, func() bool { return testutil.ToFloat64(s.api.options.Metrics.readers) == 1 }, patience,
		time.Millisecond)
	var hello struct{ Seq uint64 }
	s.open("sym=S").until("hello", &hello)
}

func TestTheStreamEndsWithTheFeed(t *testing.T) {
	for name, end := range map[string]func(*site){
		"stopped": func(s *site) { s.stop() },
		"broken":  func(s *site) { s.appendOnly(made) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openSite(t, func(*APIOptions) {})
			s.play(made)
			r := s.open("sym=S")
			end(s)
			for err := error(nil); err == nil; {
				_, err = r.next()
			}
			var refusal struct{ Error string }
			require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/stream", &refusal))
		})
	}
}

// rounds is a hub that publishes when the test calls publish, and whose feed applies no records during that.
type rounds struct {
	*markettest.RandomMarket
	t      *testing.T
	source *source
	feed   *market.Feed
	hub    *hub
	now    time.Time
}

func newRounds(t *testing.T) *rounds {
	m := markettest.NewRandomMarket(1, 10)
	m.MakeSymbol()
	r := &rounds{RandomMarket: m, t: t, source: new(source), now: time.Now()}
	r.feed = market.NewFeed(market.Options{Records: trailtest.Follow(r.source, 0, nil),
		Log: slog.New(slog.DiscardHandler)}, &market.Snapshot{})
	r.hub = newHub(r.feed, func() Health { return Health{} })
	var running sync.WaitGroup
	running.Go(func() { r.feed.Run(t.Context()) })
	t.Cleanup(running.Wait)
	return r
}

// play makes the feed apply the records of all trades since the last call.
func (r *rounds) play() {
	r.source.add(r.Take()...)
	require.NoError(r.t, r.feed.Await(r.t.Context(), r.Seq))
}

// publish calls play, and makes the hub publish the changes.
func (r *rounds) publish() {
	r.now = r.now.Add(symbolsTime)
	r.play()
	r.hub.publish(r.now)
}

// tradeFor trades for n rounds, in few symbols each.
func (r *rounds) tradeFor(n int) {
	for range n {
		for range 5 {
			r.Trade()
		}
		r.publish()
	}
}

// requireAllKnown requires that the events, in their order, have the newest state of each symbol.
func (r *rounds) requireAllKnown(events ...[]byte) {
	r.t.Helper()
	known := map[string]summary{}
	for _, s := range decodedSymbols(r.t, bytes.Join(events, nil)) {
		known[s.Sym] = s
	}
	for _, s := range r.Symbols {
		require.Equal(r.t, summaryOf(s), known[string(s.Name)])
	}
}

// TestALateReaderMissesNoChangeOfASymbol asks the hub for new events only after many updates of many symbols: fewer
// updates than the hub keeps, or more.
func TestALateReaderMissesNoChangeOfASymbol(t *testing.T) {
	for _, late := range []int{symbolsBacklog - 3, 3 * symbolsBacklog} {
		r := newRounds(t)
		r.publish()
		reader, first, err := r.hub.join(nil, 1, topicKey{})
		require.NoError(t, err)
		for range 2*symbolsPerEvent + 1 {
			r.MakeSymbol() // more than an event holds
		}
		r.tradeFor(late)
		for range 3 { // symbols beyond the maximum of an event wait for the next one
			r.publish()
		}
		news, _, _ := r.hub.appendNews(nil, reader)
		r.requireAllKnown(append(first, news...)...)
	}
}

// TestReadersShareAListing lets readers join one after the other while the market changes: each reader knows all
// symbols, and few listings are made.
func TestReadersShareAListing(t *testing.T) {
	r := newRounds(t)
	for range 2*symbolsPerEvent + 1 {
		r.MakeSymbol()
	}
	r.publish()
	listings := map[*byte]int{}
	for range 4 * listingAge {
		_, first, err := r.hub.join(nil, 1000, topicKey{})
		require.NoError(t, err)
		r.requireAllKnown(first...)
		listings[&first[0][0]]++
		r.tradeFor(1)
	}
	require.Len(t, listings, 4)

	for range 4 * listingAge {
		r.hub.leave(&reader{})
	}
	r.tradeFor(1) // without readers no event is made
	_, first, err := r.hub.join(nil, 1000, topicKey{})
	require.NoError(t, err)
	r.requireAllKnown(first...)
}

// decodedSymbols returns the symbols of all events named symbols, in their order.
func decodedSymbols(t *testing.T, events []byte) (all []summary) {
	t.Helper()
	for part := range strings.SplitSeq(string(events), "\n\n") {
		if strings.HasPrefix(part, "event: symbols\n") {
			var decoded symbolsAnswer
			_, data, _ := strings.Cut(part, "\ndata: ")
			require.NoError(t, json.Unmarshal([]byte(data), &decoded))
			all = append(all, decoded.Symbols...)
		}
	}
	return all
}
