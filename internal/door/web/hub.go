package web

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

const (
	// publishTime is the minimum time between two updates of the stream. A change after a pause is published by the
	// next call of Publish.
	publishTime = 200 * time.Millisecond

	tradesPerEvent    = 50     // newest trades in an event; ids show which are left out
	candlesPerEvent   = 50     // newest candles in an event; their first trades show which are left out
	symbolsPerEvent   = 500    // changed symbols in an event; further ones wait for the next event
	symbolsPerListing = 10_000 // symbols in all first events of a reader together
	healthTime        = time.Second

	// symbolsTime is the minimum time between two events of symbols. In a busy market nearly all symbols change all
	// the time, and all readers get all of them: these events were most of the cost of the stream when every update
	// had them.
	symbolsTime = time.Second / 2

	// Number of events kept for readers that are late.
	tradesBacklog  = 8
	symbolsBacklog = 16

	// listingAge is the number of events of symbols after which a listing is made again. A reader gets the listing and
	// the events after it. The number is small enough that these events are still kept, and large enough that few
	// listings are made and held, no matter how many readers join.
	listingAge = symbolsBacklog / 2
)

// backlog is the newest events of a kind: event n is in events[n%len(events)].
type backlog struct {
	events [][]byte
	n      uint64 // number of the last event, 0 before the first
}

func newBacklog(length int) backlog { return backlog{events: make([][]byte, length)} }

// add adds an event. The caller must not change it afterwards.
func (b *backlog) add(event []byte) {
	b.n++
	b.events[b.n%uint64(len(b.events))] = event
}

// appendSince appends the kept events after event n.
func (b *backlog) appendSince(dst [][]byte, n uint64) [][]byte {
	if kept := uint64(len(b.events)); b.n > kept {
		n = max(n, b.n-kept)
	}
	for n++; n <= b.n; n++ {
		dst = append(dst, b.events[n%uint64(len(b.events))])
	}
	return dst
}

// topic is the data for all readers of one symbol with the same depth and candle interval.
type topic struct {
	topicKey
	readers int

	seq       uint64  // the symbol's seq when publish last ran
	levels    []byte  // the levels as last published
	bookSeq   uint64  // seq of the last book event
	book      backlog // a single event, which has the whole book
	trades    backlog
	candles   backlog
	tradesSeq uint64 // seq of the record at which lastTrade was read
	lastTrade uint64
}

type topicKey struct {
	name     exchange.Symbol
	depth    int
	interval exchange.Interval // noCandles for readers that want no candles
}

const noCandles = exchange.Intervals

// hub encodes the events of the stream, each once for all its readers.
type hub struct {
	feed   *market.Feed
	health func() Health

	// The times of the last update, and of the last events of symbols and health. Only look and publish use them.
	published, symbolsAt, healthAt time.Time

	// mu guards the fields below. It is locked before the feed's lock.
	mu        sync.Mutex
	readers   int
	topics    map[topicKey]*topic
	symbols   backlog
	healths   backlog
	listing   []byte        // events with all symbols, shared by readers; nil if it must be made again
	listedAt  uint64        // number of the last event of symbols before the listing
	listedSeq uint64        // the listing includes at least the records up to this seq
	tick      chan struct{} // closed and replaced when there are new events
}

func newHub(f *market.Feed, health func() Health) *hub {
	return &hub{feed: f, health: health, topics: make(map[topicKey]*topic), symbols: newBacklog(symbolsBacklog),
		healths: newBacklog(1), tick: make(chan struct{})}
}

// look publishes unless the last update was a short time ago. The feed calls it several times a second, and applies
// no records during the call.
func (h *hub) look(now time.Time) {
	if now.Sub(h.published) >= publishTime && h.publish(now) {
		h.published = now
	}
}

// publish encodes the new events, and reports whether there are any and the stream has readers.
func (h *hub) publish(now time.Time) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := h.feed.Seq()
	if now.Sub(h.healthAt) >= healthTime {
		h.healthAt, news = now, true
		h.healths.add(appendHealth(nil, seq, h.health()))
	}
	if h.readers == 0 {
		h.feed.TakeChanged(math.MaxInt, nil) // a new reader gets everything from a new listing
		h.listing = nil
	} else if now.Sub(h.symbolsAt) >= symbolsTime {
		list := symbolList{b: appendEvent(nil, "symbols", seq)}
		h.feed.TakeChanged(symbolsPerEvent, list.add)
		if list.n > 0 {
			h.symbolsAt, news = now, true
			h.symbols.add(appendEventEnd(list.end()))
		}
	}
	for _, t := range h.topics {
		_ = h.feed.View(t.name, func(m *market.Market) { news = t.publish(m) || news }) // the stream ends with the feed
	}
	if news && h.readers > 0 {
		close(h.tick)
		h.tick = make(chan struct{})
	}
	return news && h.readers > 0
}

// publish encodes the new events of a symbol, and reports whether there are any.
func (t *topic) publish(m *market.Market) (news bool) {
	if m.Changed() == t.seq {
		return false
	}
	t.seq = m.Changed()
	seq := m.Seq()
	if levels := appendLevels(nil, m, t.depth); !bytes.Equal(levels, t.levels) {
		t.book.add(appendBook(nil, t.name, seq, t.bookSeq, levels))
		t.levels, t.bookSeq, news = levels, seq, true
	}
	t.tradesSeq = seq
	if last := m.LastTrade(); last > t.lastTrade {
		t.trades.add(appendTradesEvent(nil, m, seq, t.lastTrade, last))
		if t.interval != noCandles {
			t.candles.add(t.appendCandles(nil, m, t.lastTrade))
		}
		t.lastTrade, news = last, true
	}
	return news
}

// appendCandles appends an event with the newest candles that include trades after a trade id.
func (t *topic) appendCandles(b []byte, m *market.Market, after uint64) []byte {
	b = appendEvent(b, "candles", m.Seq())
	b = appendCandles(b, t.name, m.Seq(), t.interval, m.CandlesAfter(t.interval, after, candlesPerEvent))
	return appendEventEnd(b)
}

// ended reports whether the feed has ended.
func (h *hub) ended() bool {
	select {
	case <-h.feed.Ended():
		return true
	default:
		return false
	}
}

// reader is one reader of the stream. Its numbers are those of the last event of each kind that was sent to it.
type reader struct {
	topic                                  *topic // nil if it does not read a symbol
	book, trades, candles, symbols, health uint64
}

// join adds a reader, of a symbol if key.name is not empty, and appends its first events to dst as appendNews does. The
// error is errTooManyReaders or ErrUnknownSymbol, or says why there is no market data.
func (h *hub) join(dst [][]byte, most int, key topicKey) (*reader, [][]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended():
		return nil, dst, market.ErrEnded
	case h.readers >= most:
		return nil, dst, fmt.Errorf("%w: %d are served at a time", errTooManyReaders, most)
	}
	r := &reader{}
	if key.name != "" {
		var err error
		if r.topic, err = h.topic(key); err != nil {
			return nil, dst, err
		}
		r.topic.readers++
		r.book, r.trades, r.candles = r.topic.book.n, r.topic.trades.n, r.topic.candles.n
	}
	h.readers++
	dst = h.appendList(dst, r)
	if t := r.topic; t != nil {
		_ = h.feed.View(t.name, func(m *market.Market) { // without a feed the stream ends
			// The event of the symbols may not include this symbol yet, but a reader must know the symbol before it
			// gets the symbol's book.
			if m.Changed() > h.listedSeq {
				list := symbolList{b: appendEvent(nil, "symbols", m.Seq())}
				list.add(m)
				dst = append(dst, appendEventEnd(list.end()))
			}
			dst = append(dst, appendBook(nil, t.name, t.bookSeq, 0, t.levels),
				appendTradesEvent(nil, m, t.tradesSeq, 0, t.lastTrade))
			if t.interval != noCandles {
				dst = append(dst, t.appendCandles(nil, m, max(t.lastTrade, 1)-1))
			}
		})
	}
	return r, dst, nil
}

// appendList appends events with all symbols. Its caller holds mu.
func (h *hub) appendList(dst [][]byte, r *reader) [][]byte {
	if h.listing == nil || h.symbols.n-h.listedAt > listingAge {
		h.listedSeq = h.feed.Seq() // read before the listing is made, because the feed may apply records in the meantime
		h.listing, h.listedAt = appendListing(nil, h.feed), h.symbols.n
	}
	r.symbols = h.symbols.n
	return h.symbols.appendSince(append(dst, h.listing), h.listedAt)
}

// topic returns the topic of a key, and makes it if it has no readers yet. Its caller holds mu.
func (h *hub) topic(key topicKey) (*topic, error) {
	t := h.topics[key]
	if t != nil {
		return t, nil
	}
	err := h.feed.View(key.name, func(m *market.Market) {
		t = &topic{topicKey: key, seq: m.Changed(), levels: appendLevels(nil, m, key.depth), bookSeq: m.Seq(),
			book: newBacklog(1), trades: newBacklog(tradesBacklog), candles: newBacklog(tradesBacklog),
			tradesSeq: m.Seq(), lastTrade: m.LastTrade()}
	})
	if err != nil {
		return nil, err
	}
	h.topics[key] = t
	return t, nil
}

// leave removes a reader.
func (h *hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers--
	if t := r.topic; t != nil {
		if t.readers--; t.readers == 0 {
			delete(h.topics, t.topicKey)
		}
	}
}

// appendNews appends the events that were not sent to r yet. Readers share the events, which are immutable. more is
// closed when there are further events. ended reports that there will be none.
func (h *hub) appendNews(dst [][]byte, r *reader) (news [][]byte, more <-chan struct{}, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := r.topic; t != nil {
		dst = t.book.appendSince(dst, r.book)
		dst = t.trades.appendSince(dst, r.trades)
		dst = t.candles.appendSince(dst, r.candles)
		r.book, r.trades, r.candles = t.book.n, t.trades.n, t.candles.n
	}
	if h.symbols.n-r.symbols > symbolsBacklog {
		dst = h.appendList(dst, r) // a gap in symbols is not visible in the events, unlike in other kinds
	} else {
		dst = h.symbols.appendSince(dst, r.symbols)
	}
	dst = h.healths.appendSince(dst, r.health)
	r.symbols, r.health = h.symbols.n, h.healths.n
	return dst, h.tick, h.ended()
}

// appendListing appends at least one event, together with all symbols. The most traded symbols come first, so that a
// page can show them before it has received the rest.
func appendListing(b []byte, f *market.Feed) []byte {
	begin := func(seq uint64) symbolList { return symbolList{b: appendEvent(b, "symbols", seq), seq: seq} }
	n, list := 0, symbolList{}
	add := func(m *market.Market) bool {
		if n%symbolsPerEvent == 0 {
			if n > 0 {
				b = appendEventEnd(list.end())
			}
			list = begin(m.Seq())
		}
		n++
		list.add(m)
		return n < symbolsPerListing
	}
	// An error means that the feed has ended. The stream then also ends, after its reader was sent a list without
	// symbols.
	if f.Symbols() > symbolsPerEvent {
		_ = f.EachByTrades(add)
	} else {
		_ = f.Each("", add)
	}
	if n == 0 {
		list = begin(f.Seq())
	}
	return appendEventEnd(list.end())
}

// appendEvent begins an event with its name and seq.
func appendEvent(b []byte, name string, seq uint64) []byte {
	b = append(b, "event: "...)
	b = append(b, name...)
	b = strconv.AppendUint(append(b, "\nid: "...), seq, 10)
	return append(b, "\ndata: "...)
}

func appendEventEnd(b []byte) []byte { return append(b, "\n\n"...) }

func appendHello(b []byte, seq uint64, start, version string, orders OrderEntry) []byte {
	b = jsontext.Number(append(appendEvent(b, "hello", seq), '{'), "seq", seq)
	b = jsontext.Text(b, "start", start)
	b = jsontext.Text(b, "version", version)
	b = jsontext.Number(append(jsontext.Name(b, "orders"), '{'), "port", orders.Port)
	b = jsontext.Bool(b, "local", orders.Local)
	b = jsontext.Bool(b, "tls", orders.TLS)
	b = append(jsontext.Bool(b, "tokens", orders.Tokens), '}')
	return appendEventEnd(append(b, '}'))
}

func appendBook(b []byte, name exchange.Symbol, seq, prev uint64, levels []byte) []byte {
	b = jsontext.Number(append(appendEvent(b, "book", seq), '{'), "seq", seq)
	b = jsontext.Number(b, "prev", prev)
	b = append(jsontext.Next(jsontext.Word(b, "sym", name)), levels...)
	return appendEventEnd(append(b, '}'))
}

// appendTradesEvent appends an event with the newest trades after trade after, up to trade last.
func appendTradesEvent(b []byte, m *market.Market, seq, after, last uint64) []byte {
	first := max(after+1, m.FirstTrade(), last-min(last, tradesPerEvent)+1)
	return appendEventEnd(appendTrades(appendEvent(b, "trades", seq), m, seq, first, last))
}

func appendHealth(b []byte, seq uint64, o Health) []byte {
	number := func(name string, v float64) {
		b = strconv.AppendFloat(jsontext.Name(b, name), v, 'g', 6, 64)
	}
	b = jsontext.Number(append(appendEvent(b, "health", seq), '{'), "seq", seq)
	number("orders_per_second", o.OrdersPerSecond)
	number("requests_per_second", o.RequestsPerSecond)
	number("p50_seconds", o.P50)
	number("p99_seconds", o.P99)
	b = jsontext.Number(b, "postgres_lag_records", o.LagRecords)
	number("postgres_lag_seconds", o.LagSeconds)
	b = jsontext.Bool(b, "postgres_up", o.PostgresUp)
	b = jsontext.Bool(b, "ready", o.NotReady == nil)
	why := ""
	if o.NotReady != nil {
		why = o.NotReady.Error()
	}
	b = jsontext.Text(b, "why", why)
	return appendEventEnd(append(b, '}'))
}
