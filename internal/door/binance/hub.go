package binance

import (
	"slices"
	"sync"
	"time"

	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// closeGrace is how long after its end a candle is reported closed, because its last trades may arrive late.
const closeGrace = 500 * time.Millisecond

// hub serves the streams of one symbol to their readers. It listens to the feed.
type hub struct {
	streams *streams
	feed    *market.Feed
	symbol  exchange.Symbol
	leave   func()

	mu      sync.Mutex // guards the fields below
	topics  map[string]*topic
	bookSeq uint64
	touched map[*reader]struct{} // readers with queued events
}

// topic is one stream. Each event is encoded once for all its readers.
type topic struct {
	streamName
	readers map[*reader]struct{}
	due     time.Time // earliest time of the next event, for a stream that sends at intervals
	dirty   bool      // something has changed since the last event

	// Fields of a depthStream: the seq at which the last event ended, and the levels that have changed since.
	last       uint64
	bids, asks map[exchange.Price]exchange.Position
	// best is what a bookTickerStream sent last. candle is the newest candle of a klineStream.
	best   [2]market.Level
	candle exchange.Candle
	closed bool // candle was reported closed
}

func newHub(s *streams, feed *market.Feed, sym exchange.Symbol) *hub {
	return &hub{streams: s, feed: feed, symbol: sym, topics: make(map[string]*topic), touched: make(map[*reader]struct{})}
}

// begin reads the current market.
func (h *hub) begin(m *market.Market) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bookSeq = m.BookSeq()
}

// add subscribes a reader to a stream.
func (h *hub) add(r *reader, n streamName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[n.text]
	if t == nil {
		t = &topic{streamName: n, readers: make(map[*reader]struct{}), last: h.bookSeq,
			bids: make(map[exchange.Price]exchange.Position), asks: make(map[exchange.Price]exchange.Position)}
		h.topics[n.text] = t
	}
	t.readers[r] = struct{}{}
	switch n.kind {
	case partialStream, klineStream, miniTickerStream, tickerStream:
		t.dirty = true // a new reader gets the current state
	case tradeStream, aggTradeStream, bookTickerStream, depthStream:
	}
}

// remove unsubscribes a reader from a stream. It reports whether the hub has no readers left.
func (h *hub) remove(r *reader, n streamName) (empty bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[n.text]; t != nil {
		if delete(t.readers, r); len(t.readers) == 0 {
			delete(h.topics, n.text)
		}
	}
	return len(h.topics) == 0
}

// Change implements market.Listener.
func (h *hub) Change(c *market.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	book := len(c.Bids)+len(c.Asks) > 0
	if book {
		h.bookSeq = c.Seq
	}
	for _, t := range h.topics {
		switch t.kind {
		case tradeStream, aggTradeStream:
			for i := range c.Trades {
				h.send(t, appendTradeEvent(nil, t.kind, h.symbol, &numbered{c.Trades[i], c.FirstTrade + uint64(i)}))
			}
		case bookTickerStream:
			if book {
				h.sendBest(t, c.Market)
			}
		case depthStream:
			gather(t.bids, c.Bids)
			gather(t.asks, c.Asks)
			t.dirty = t.dirty || book
		case partialStream:
			t.dirty = t.dirty || book
		case klineStream:
			if len(c.Trades) > 0 {
				h.takeCandle(t, c.Market.Candle(t.interval))
			}
		case miniTickerStream:
			t.dirty = t.dirty || len(c.Trades) > 0
		case tickerStream:
			t.dirty = true
		}
	}
}

// gather stores the new totals of levels.
func gather(into map[exchange.Price]exchange.Position, levels []market.Level) {
	for i := range levels {
		into[levels[i].Price] = levels[i].Shares
	}
}

// takeCandle stores the newest candle, and first reports the previous one closed if needed. Its caller holds mu.
func (h *hub) takeCandle(t *topic, c exchange.Candle) {
	if t.candle.Trades > 0 && t.candle.Start != c.Start && !t.closed {
		h.send(t, appendKlineEvent(nil, h.symbol, &t.candle, t.interval, true))
	}
	t.candle, t.closed, t.dirty = c, false, true
}

// Flush implements market.Listener.
func (h *hub) Flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flush()
}

// flush sends the queued events. Its caller holds mu.
func (h *hub) flush() {
	for r := range h.touched {
		r.conn.FlushSoon()
	}
	clear(h.touched)
}

// End implements market.Listener. It closes the connections, so that clients connect again. The hub is removed with its
// last reader.
func (h *hub) End(error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		for r := range t.readers {
			r.conn.Close(websocket.CodeGoingAway, "there is no market data any more")
		}
	}
}

// send queues an event for all readers of a stream. Its caller holds mu.
func (h *hub) send(t *topic, data []byte) {
	var plain, wrapped websocket.Frame
	for r := range t.readers {
		f := &plain
		if r.wrapped {
			f = &wrapped
		}
		if f.Len() == 0 {
			if *f = websocket.NewFrame(data); r.wrapped {
				*f = websocket.NewFrame(wrap(t.text, data))
			}
		}
		r.conn.Push(*f, nil, 0)
		h.touched[r] = struct{}{}
	}
}

// wrap returns an event in the form of /stream, with the stream's name.
func wrap(name string, data []byte) []byte {
	w := begin(make([]byte, 0, len(data)+len(name)+24))
	w.word("stream", name)
	w.raw("data", string(data))
	return w.end()
}

// sendBest sends the best levels if they have changed. Its caller holds mu.
func (h *hub) sendBest(t *topic, m *market.Market) {
	var best [2]market.Level
	best[0], _ = m.Best(exchange.Buy)
	best[1], _ = m.Best(exchange.Sell)
	if best == t.best {
		return
	}
	t.best = best
	w := begin(nil)
	w.number("u", int64(h.bookSeq))
	w.word("s", pair(h.symbol))
	putBest(&w, m, "b", "B", "a", "A")
	h.send(t, w.end())
}

// isDue reports whether any stream that sends at intervals has an event to send now.
func (h *hub) isDue(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		if t.isDue(now) {
			return true
		}
	}
	return false
}

// isDue reports whether the stream sends at intervals and has an event to send now.
func (t *topic) isDue(now time.Time) bool {
	if t.every == 0 || now.Before(t.due) {
		return false
	}
	return t.dirty || t.kind == klineStream && t.mayClose(now)
}

// mayClose reports whether the newest candle has ended and was not reported closed yet.
func (t *topic) mayClose(now time.Time) bool {
	end := t.candle.Start + t.interval.Length()
	return t.candle.Trades > 0 && !t.closed && now.UnixNano() > end+int64(closeGrace)
}

// tick sends the events of streams that send at intervals. m is the current market.
func (h *hub) tick(m *market.Market, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		if !t.isDue(now) {
			continue
		}
		t.due = now.Add(t.every - tickTime/2) // the next tick may come slightly earlier or later
		if data := h.eventOf(t, m, now); data != nil {
			h.send(t, data)
		}
		t.dirty = false
	}
	h.flush()
}

// eventOf returns the next event of a stream that sends at intervals, nil if there is none. Its caller holds mu.
func (h *hub) eventOf(t *topic, m *market.Market, now time.Time) []byte {
	switch t.kind {
	case depthStream:
		event := appendDepthEvent(nil, h.symbol, now, t.last+1, h.bookSeq, t.bids, t.asks)
		t.last = h.bookSeq
		clear(t.bids)
		clear(t.asks)
		return event
	case partialStream:
		return appendDepth(nil, m, t.levels)
	case klineStream:
		if t.candle.Trades == 0 {
			t.candle = m.Candle(t.interval)
		}
		if t.candle.Trades == 0 {
			return nil
		}
		t.closed = t.mayClose(now)
		return appendKlineEvent(nil, h.symbol, &t.candle, t.interval, t.closed)
	case miniTickerStream, tickerStream:
		return appendTickerEvent(nil, t.kind, m, now)
	case tradeStream, aggTradeStream, bookTickerStream:
	}
	return nil
}

// sorted returns the prices of levels, in rising order.
func sorted(levels map[exchange.Price]exchange.Position) []exchange.Price {
	prices := make([]exchange.Price, 0, len(levels))
	for p := range levels {
		prices = append(prices, p)
	}
	slices.Sort(prices)
	return prices
}
