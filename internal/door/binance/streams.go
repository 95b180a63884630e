package binance

import (
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// streamKind is one kind of market stream.
type streamKind uint8

const (
	tradeStream streamKind = iota
	aggTradeStream
	bookTickerStream
	depthStream   // changed levels
	partialStream // the best levels
	klineStream
	miniTickerStream
	tickerStream
)

// streamName is a parsed stream name.
type streamName struct {
	text     string // as the client wrote it
	symbol   exchange.Symbol
	kind     streamKind
	every    time.Duration     // minimum time between two events; 0 means that each is sent at once
	levels   int               // for a partialStream
	interval exchange.Interval // for a klineStream
}

// streamForms lists the forms of stream names, for the reference.
var streamForms = []struct {
	examples []string
	about    string
}{
	{[]string{"spyusd@trade"}, "each trade"},
	{[]string{"spyusd@aggTrade"}, "each trade, as an aggregate of one"},
	{[]string{"spyusd@depth", "spyusd@depth@100ms"}, "the new totals of levels that changed, every 1,000 or 100 ms"},
	{[]string{"spyusd@depth5", "spyusd@depth10@100ms", "spyusd@depth20@100ms"},
		"the best 5, 10 or 20 levels, if they changed"},
	{[]string{"spyusd@bookTicker"}, "the best levels, as soon as they change"},
	{[]string{"spyusd@kline_1s", "spyusd@kline_1m", "spyusd@kline_5m", "spyusd@kline_1h", "spyusd@kline_1d"},
		"the newest candle, when it changes and when it is closed"},
	{[]string{"spyusd@miniTicker", "spyusd@ticker"}, "what the last 24 hours came to, once a second if it changed"},
}

// Times between two events of a stream.
const (
	tickTime  = 100 * time.Millisecond
	slowTime  = time.Second
	klineTime = 250 * time.Millisecond
)

// parseStream parses a stream name such as spyusd@depth@100ms. ok is false if it is malformed.
func parseStream(text string) (n streamName, ok bool) {
	name, what, _ := strings.Cut(text, "@")
	// Some letters outside ASCII have an ASCII letter as their capital. Without this check, a stream would have several
	// names.
	if name != strings.ToLower(name) || strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return n, false
	}
	n.text = text
	if n.symbol, ok = symbolOf(strings.ToUpper(name)); !ok {
		return n, false
	}
	switch what {
	case "trade":
		n.kind = tradeStream
	case "aggTrade":
		n.kind = aggTradeStream
	case "bookTicker":
		n.kind = bookTickerStream
	case "miniTicker":
		n.kind, n.every = miniTickerStream, slowTime
	case "ticker":
		n.kind, n.every = tickerStream, slowTime
	default:
		return n, n.parseMore(what)
	}
	return n, true
}

// parseMore parses the part of a stream name after the symbol, if that part has an argument.
func (n *streamName) parseMore(what string) (ok bool) {
	if interval, isKline := strings.CutPrefix(what, "kline_"); isKline {
		n.kind, n.every = klineStream, klineTime
		n.interval, ok = exchange.ParseInterval(interval)
		return ok
	}
	depth, pace, _ := strings.Cut(what, "@")
	levels, ok := strings.CutPrefix(depth, "depth")
	if !ok || pace == "" && what != depth {
		return false
	}
	switch pace {
	case "", "1000ms":
		n.every = slowTime
	case "100ms":
		n.every = tickTime
	default:
		return false
	}
	if n.kind = depthStream; levels != "" {
		n.kind = partialStream
		n.levels, _ = strconv.Atoi(levels)
		return levels == "5" || levels == "10" || levels == "20"
	}
	return true
}

// streams has a hub for each symbol with readers.
type streams struct {
	door *Door

	mu      sync.Mutex // guards the fields below; locked before a feed's lock, and that before a hub's
	hubs    map[exchange.Symbol]*hub
	ticking bool // tick runs
	closed  bool
	running sync.WaitGroup
	end     chan struct{}
}

func newStreams(d *Door) *streams {
	return &streams{door: d, hubs: make(map[exchange.Symbol]*hub), end: make(chan struct{})}
}

// close ends all streams.
func (s *streams) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.end)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// join subscribes a reader to a stream. The error is the feed's.
func (s *streams) join(r *reader, n streamName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hubs[n.symbol]
	if h != nil && h.feed.Err() != nil {
		return h.feed.Err()
	}
	if h == nil {
		feed := s.door.options.Feed()
		if feed == nil {
			return errNow
		}
		h = newHub(s, feed, n.symbol)
		leave, err := feed.Listen(n.symbol, h, h.begin)
		if err != nil {
			return err
		}
		h.leave = leave
		s.hubs[n.symbol] = h
	}
	h.add(r, n)
	if !s.ticking && !s.closed {
		s.ticking = true
		s.running.Go(s.tick)
	}
	return nil
}

// quit unsubscribes a reader from a stream.
func (s *streams) quit(r *reader, n streamName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hubs[n.symbol]; h != nil && h.remove(r, n) {
		delete(s.hubs, n.symbol)
		h.leave()
	}
}

// tick sends the events of streams that send at intervals, until there are no streams left.
func (s *streams) tick() {
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	var hubs []*hub
	for {
		select {
		case <-ticker.C:
		case <-s.end:
			return
		}
		s.mu.Lock()
		hubs = hubs[:0]
		for _, h := range s.hubs {
			hubs = append(hubs, h)
		}
		if len(hubs) == 0 {
			s.ticking = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, h := range hubs {
			now := time.Now()
			if h.isDue(now) {
				_ = h.feed.View(h.symbol, func(m *market.Market) { h.tick(m, now) }) // on an error, the hub's End is called
			}
		}
	}
}
