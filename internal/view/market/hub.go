package market

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"outcry/internal/exchange"
)

const (
	tradesPerEvent    = 50     // newest trades in an event; ids show what is left out
	candlesPerEvent   = 50     // newest candles in an event; their first trades show what is left out
	symbolsPerEvent   = 500    // of those that changed, the others have to wait for the next
	symbolsPerListing = 10_000 // in the first events together
	healthTime        = time.Second

	// symbolsTime lies between two events of symbols at the least. In a busy market
	// nearly all change all the time, and all readers are sent all of them: with each
	// update it was most of what the stream costs.
	symbolsTime = time.Second / 2

	// How many events are kept for readers that are late.
	tradesBacklog  = 8
	symbolsBacklog = 16

	// listingAge is how many events of symbols a listing is good for: a reader that is sent it
	// is sent those too. It is small enough for them to be kept, and so large that
	// however many readers come, few listings are made and held.
	listingAge = symbolsBacklog / 2
)

// backlog is the newest events of a kind: event n is in events[n%len(events)].
type backlog struct {
	events [][]byte
	n      uint64 // of the last event, 0 before the first
}

func newBacklog(length int) backlog { return backlog{events: make([][]byte, length)} }

// add adds an event, which does not change any more.
func (b *backlog) add(event []byte) {
	b.n++
	b.events[b.n%uint64(len(b.events))] = event
}

// appendSince appends those of the events after number n that are kept.
func (b *backlog) appendSince(dst [][]byte, n uint64) [][]byte {
	if kept := uint64(len(b.events)); b.n > kept {
		n = max(n, b.n-kept)
	}
	for n++; n <= b.n; n++ {
		dst = append(dst, b.events[n%uint64(len(b.events))])
	}
	return dst
}

// topic is what readers of one symbol, with as many levels and candles of the same interval, are sent.
type topic struct {
	topicKey
	symbol  *symbol
	readers int

	seq       uint64  // the symbol's when it was last looked at
	levels    []byte  // as last published
	bookSeq   uint64  // that the last book event is true at
	book      backlog // of one event: it has the whole book
	trades    backlog
	candles   backlog
	tradesSeq uint64 // that lastTrade is the last trade at
	lastTrade uint64
}

type topicKey struct {
	name     exchange.Symbol
	depth    int
	interval exchange.Interval // noCandles for those who want none
}

const noCandles = exchange.Intervals

// hub makes the events of the stream, each once for all its readers.
type hub struct {
	feed *Feed

	// Run's own: the symbols that wait to be published, oldest first, and when they and
	// health were published last.
	pending             []*symbol
	symbolsAt, healthAt time.Time

	// mu guards what follows. Feed.mu may be taken under it, not the other way round.
	mu        sync.Mutex
	readers   int
	topics    map[topicKey]*topic
	symbols   backlog
	health    backlog
	listing   []byte        // events with all symbols, which readers share; nil where none is up to date
	listedAt  uint64        // the number of the last event of symbols before it
	listedSeq uint64        // that it is true at, or at a later one
	tick      chan struct{} // closed and replaced when there is something new
	closed    bool
}

func newHub(f *Feed) *hub {
	return &hub{feed: f, topics: make(map[topicKey]*topic), symbols: newBacklog(symbolsBacklog), health: newBacklog(1),
		tick: make(chan struct{})}
}

// note says that a symbol has changed.
func (h *hub) note(s *symbol) {
	if !s.waits {
		s.waits = true
		h.pending = append(h.pending, s)
	}
}

// publish makes the events of what is new, where anybody reads them, and reports whether
// anything is. Run calls it.
func (h *hub) publish(now time.Time) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := h.feed.Seq()
	if now.Sub(h.healthAt) >= healthTime {
		h.healthAt, news = now, true
		h.health.add(appendHealth(nil, seq, h.feed.options.Health()))
	}
	if h.readers == 0 {
		h.takePending(len(h.pending)) // who joins is told all, by a new listing
		h.listing = nil
	} else if len(h.pending) > 0 && now.Sub(h.symbolsAt) >= symbolsTime {
		h.symbolsAt, news = now, true
		h.symbols.add(appendEventEnd(appendSymbols(appendEvent(nil, "symbols", seq), seq, h.takePending(symbolsPerEvent))))
	}
	for _, t := range h.topics {
		news = t.publish(seq) || news
	}
	if news && h.readers > 0 {
		close(h.tick)
		h.tick = make(chan struct{})
	}
	return news && h.readers > 0
}

// takePending returns up to n of the symbols that wait, which do so no longer. They
// are valid until the next call of note.
func (h *hub) takePending(n int) (first []*symbol) {
	if n < len(h.pending) {
		first, h.pending = h.pending[:n], h.pending[n:]
	} else {
		first, h.pending = h.pending, h.pending[:0] // the same memory again
	}
	for _, s := range first {
		s.waits = false
	}
	return first
}

// publish makes the events of what is new of a symbol, and reports whether anything is.
func (t *topic) publish(seq uint64) (news bool) {
	s := t.symbol
	if s.seq == t.seq {
		return false
	}
	t.seq = s.seq
	if levels := appendLevels(nil, s, t.depth); !bytes.Equal(levels, t.levels) {
		t.book.add(appendBook(nil, s.name, seq, t.bookSeq, levels))
		t.levels, t.bookSeq, news = levels, seq, true
	}
	t.tradesSeq = seq
	if last := s.tape.last; last > t.lastTrade {
		t.trades.add(appendTradesEvent(nil, s, seq, t.lastTrade, last))
		if t.interval != noCandles {
			t.candles.add(t.appendCandles(nil, seq, t.lastTrade))
		}
		t.lastTrade, news = last, true
	}
	return news
}

// appendCandles appends an event with the newest candles, those that have trades behind one.
func (t *topic) appendCandles(b []byte, seq, after uint64) []byte {
	b = appendEvent(b, "candles", seq)
	b = appendCandles(b, t.name, seq, t.interval, t.symbol.candles.after(t.interval, after, candlesPerEvent))
	return appendEventEnd(b)
}

// close ends all readers.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	close(h.tick)
}

// reader is one reader of the stream: which events of each kind it was sent.
type reader struct {
	topic                                  *topic // nil where it reads of no symbol
	book, trades, candles, symbols, health uint64
}

// join begins a reader, of a symbol where its name is not empty, and appends its first
// events, as appendNews does. The error is errTooManyReaders or ErrUnknownSymbol, or
// says why there is no market data.
func (h *hub) join(dst [][]byte, most int, key topicKey) (*reader, [][]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, dst, ErrEnded
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
		h.feed.view(func() {
			// A change may still have to wait for its event, but nobody is to be told of
			// a symbol's book before they know that there is the symbol.
			if seq := h.feed.Seq(); t.symbol.seq > h.listedSeq {
				dst = append(dst, appendEventEnd(appendSymbols(appendEvent(nil, "symbols", seq), seq, []*symbol{t.symbol})))
			}
			dst = append(dst, appendBook(nil, t.symbol.name, t.bookSeq, 0, t.levels),
				appendTradesEvent(nil, t.symbol, t.tradesSeq, 0, t.lastTrade))
			if t.interval != noCandles {
				dst = append(dst, t.appendCandles(nil, h.feed.Seq(), max(t.lastTrade, 1)-1))
			}
		})
	}
	return r, dst, nil
}

// appendList appends events that have all symbols. Its caller holds mu.
func (h *hub) appendList(dst [][]byte, r *reader) [][]byte {
	if h.listing == nil || h.symbols.n-h.listedAt > listingAge {
		h.listedSeq = h.feed.Seq() // first: the feed may go on meanwhile
		h.listing, h.listedAt = h.feed.appendListing(nil), h.symbols.n
	}
	r.symbols = h.symbols.n
	return h.symbols.appendSince(append(dst, h.listing), h.listedAt)
}

// topic returns the topic of a symbol, which it makes where nobody reads it yet. Its
// caller holds mu.
func (h *hub) topic(key topicKey) (*topic, error) {
	t := h.topics[key]
	if t != nil {
		return t, nil
	}
	h.feed.view(func() {
		if s := h.feed.symbols[key.name]; s != nil {
			seq := h.feed.Seq()
			t = &topic{topicKey: key, symbol: s, seq: s.seq, levels: appendLevels(nil, s, key.depth), bookSeq: seq,
				book: newBacklog(1), trades: newBacklog(tradesBacklog), candles: newBacklog(tradesBacklog),
				tradesSeq: seq, lastTrade: s.tape.last}
		}
	})
	if t == nil {
		return nil, fmt.Errorf("%w %q", ErrUnknownSymbol, key.name)
	}
	h.topics[key] = t
	return t, nil
}

// leave ends a reader.
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

// appendNews appends the events that r was not sent yet, which readers share and
// which do not change, and returns a channel that is closed when there are more.
// ended tells that there will be none.
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
		dst = h.appendList(dst, r) // unlike the others, these events do not show a gap
	} else {
		dst = h.symbols.appendSince(dst, r.symbols)
	}
	dst = h.health.appendSince(dst, r.health)
	r.symbols, r.health = h.symbols.n, h.health.n
	return dst, h.tick, h.closed
}

// appendListing appends events with all symbols, one at the least. The most traded come
// first: a page shows something before all are there.
func (f *Feed) appendListing(b []byte) []byte {
	f.viewList(func(list []*symbol) {
		seq := f.Seq()
		if len(list) > symbolsPerEvent {
			list = slices.Clone(list)
			slices.SortStableFunc(list, func(a, b *symbol) int { return cmp.Compare(b.traded.Trades, a.traded.Trades) })
		}
		list = list[:min(len(list), symbolsPerListing)]
		for first := true; first || len(list) > 0; first = false {
			n := min(len(list), symbolsPerEvent)
			b = appendEventEnd(appendSymbols(appendEvent(b, "symbols", seq), seq, list[:n]))
			list = list[n:]
		}
	})
	return b
}

// appendEvent begins an event that is true at a seq.
func appendEvent(b []byte, name string, seq uint64) []byte {
	b = append(b, "event: "...)
	b = append(b, name...)
	b = strconv.AppendUint(append(b, "\nid: "...), seq, 10)
	return append(b, "\ndata: "...)
}

func appendEventEnd(b []byte) []byte { return append(b, "\n\n"...) }

func appendHello(b []byte, seq uint64, start, version string, orders OrderEntry) []byte {
	b = appendSeq(append(appendEvent(b, "hello", seq), '{'), seq)
	b = appendText(appendField(b, "start"), start)
	b = appendText(appendField(b, "version"), version)
	b = strconv.AppendInt(append(appendField(b, "orders"), `{"port":`...), int64(orders.Port), 10)
	b = strconv.AppendBool(appendField(b, "local"), orders.Local)
	b = strconv.AppendBool(appendField(b, "tls"), orders.TLS)
	b = append(strconv.AppendBool(appendField(b, "tokens"), orders.Tokens), '}')
	return appendEventEnd(append(b, '}'))
}

func appendBook(b []byte, name exchange.Symbol, seq, prev uint64, levels []byte) []byte {
	b = appendSeq(append(appendEvent(b, "book", seq), '{'), seq)
	b = strconv.AppendUint(appendField(b, "prev"), prev, 10)
	b = append(appendSym(append(b, ','), name), ',')
	b = append(b, levels...)
	return appendEventEnd(append(b, '}'))
}

// appendTradesEvent appends the newest trades up to last, of those after the number after.
func appendTradesEvent(b []byte, s *symbol, seq, after, last uint64) []byte {
	first := max(after+1, s.tape.first, last-min(last, tradesPerEvent)+1)
	return appendEventEnd(appendTrades(appendEvent(b, "trades", seq), s, seq, first, last))
}

func appendHealth(b []byte, seq uint64, o Health) []byte {
	number := func(name string, v float64) {
		b = strconv.AppendFloat(appendField(b, name), v, 'g', 6, 64)
	}
	b = append(appendEvent(b, "health", seq), '{')
	b = appendSeq(b, seq)
	number("orders_per_second", o.OrdersPerSecond)
	number("requests_per_second", o.RequestsPerSecond)
	number("p50_seconds", o.P50)
	number("p99_seconds", o.P99)
	b = strconv.AppendUint(appendField(b, "postgres_lag_records"), o.LagRecords, 10)
	number("postgres_lag_seconds", o.LagSeconds)
	b = strconv.AppendBool(appendField(b, "postgres_up"), o.PostgresUp)
	b = strconv.AppendBool(appendField(b, "ready"), o.NotReady == nil)
	why := ""
	if o.NotReady != nil {
		why = o.NotReady.Error()
	}
	b = appendText(appendField(b, "why"), why)
	return appendEventEnd(append(b, '}'))
}
