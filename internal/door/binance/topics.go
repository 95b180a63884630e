package binance

import (
	"time"

	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// The fan-out of market data to the readers of this door. Its topics are streams.
type (
	topic   = fanout.Topic[*reader]
	encoder = fanout.Encoder[*reader]
	noops   = fanout.Plain[*reader]
)

// join subscribes the reader to a stream. The error is the feed's.
func (r *reader) join(n streamName) (leave func(), err error) {
	feed := r.door.options.Feed()
	if feed == nil {
		return nil, errNow
	}
	return r.door.streams.Join(feed, n.symbol, n.text, r, func() encoder {
		return newEncoder(n, r.door.ticks())
	})
}

// FlushSoon implements fanout.Reader.
func (r *reader) FlushSoon() { r.conn.FlushSoon() }

// End implements fanout.Reader. Clients connect again.
func (r *reader) End() { r.conn.Close(websocket.CodeGoingAway, "market data is no longer available") }

// newEncoder returns the encoder of a stream. Streams that send at intervals send at the same moments, counted from
// began, so that a connection writes their events together.
func newEncoder(n streamName, began time.Time) encoder {
	p := paced{streamName: n, pace: fanout.Pace{Every: n.every, Grid: tickTime, Began: began}}
	switch n.kind {
	case bookTickerStream:
		return &bestEncoder{streamName: n}
	case depthStream:
		return &depthEncoder{paced: p}
	case klineStream:
		return &klineEncoder{paced: p, candle: fanout.Candle{Interval: n.interval}}
	case partialStream, miniTickerStream, tickerStream:
		return &stateEncoder{p}
	case tradeStream, aggTradeStream:
	}
	return &tradeEncoder{streamName: n}
}

// send queues an event for all readers of a stream.
func (n *streamName) send(t *topic, data []byte) {
	var plain, wrapped websocket.Frame
	for _, r := range t.Readers() {
		f := &plain
		if r.wrapped {
			f = &wrapped
		}
		if f.Len() == 0 {
			if *f = websocket.NewFrame(data); r.wrapped {
				*f = websocket.NewFrame(wrap(n.text, data))
			}
		}
		r.conn.Push(*f, nil, 0)
	}
}

// wrap returns an event in the form of /stream, with the stream's name.
func wrap(name string, data []byte) []byte {
	b := append(make([]byte, 0, len(data)+len(name)+24), '{')
	b = jsontext.Word(b, "stream", name)
	b = jsontext.Raw(b, "data", data)
	return append(b, '}')
}

// tradeEncoder makes the events of trade and aggTrade, one for each trade.
type tradeEncoder struct {
	noops
	streamName
}

// Change implements fanout.Encoder.
func (e *tradeEncoder) Change(t *topic, c *market.Change) (flush bool) {
	for i := range c.Trades {
		trade := numbered{c.Trades[i], c.FirstTrade + uint64(i)}
		e.send(t, appendTradeEvent(nil, e.kind, e.symbol, &trade))
	}
	return len(c.Trades) > 0
}

// bestBytes is the usual length of an event of bookTicker.
const bestBytes = 128

// bestEncoder makes the events of bookTicker: the best levels when they change.
type bestEncoder struct {
	noops
	streamName
	sent [2]market.Level
}

// Change implements fanout.Encoder.
func (e *bestEncoder) Change(t *topic, c *market.Change) (flush bool) {
	if len(c.Bids)+len(c.Asks) == 0 {
		return false
	}
	var best [2]market.Level
	best[0], _ = c.Market.Best(exchange.Buy)
	best[1], _ = c.Market.Best(exchange.Sell)
	if best == e.sent {
		return false
	}
	e.sent = best
	b := jsontext.Number(append(make([]byte, 0, bestBytes), '{'), "u", c.Seq)
	b = jsontext.Word(b, "s", pair(e.symbol))
	b = membersOfBest(b, c.Market, "b", "B", "a", "A")
	e.send(t, append(b, '}'))
	return true
}

// paced is the state of a stream that sends at intervals.
type paced struct {
	noops
	streamName
	pace  fanout.Pace
	dirty bool // something has changed since the last event
}

// changed marks the stream as changed, and schedules the call of Tick that sends the event.
func (p *paced) changed(t *topic) {
	p.dirty = true
	t.WakeAt(p.pace.Next(time.Now()))
}

// ready reports whether an event is due, and marks it as sent.
func (p *paced) ready(now time.Time) bool {
	if !p.dirty {
		return false
	}
	p.dirty = false
	p.pace.Sent(now)
	return true
}

// depthEncoder makes the events of depth: the levels that have changed.
type depthEncoder struct {
	paced
	pending fanout.Merge
}

// Begin implements fanout.Encoder.
func (e *depthEncoder) Begin(_ *topic, m *market.Market) { e.pending.Start(m.BookSeq()) }

// Change implements fanout.Encoder.
func (e *depthEncoder) Change(t *topic, c *market.Change) (flush bool) {
	if change := fanout.ChangeOf(c); len(change.Bids)+len(change.Asks) > 0 {
		e.pending.Add(&change)
		e.changed(t)
	}
	return false
}

// Tick implements fanout.Encoder.
func (e *depthEncoder) Tick(t *topic, _ *market.Market) (queued bool) {
	now := time.Now()
	if !e.ready(now) {
		return false
	}
	change := e.pending.Take()
	e.send(t, appendDepthEvent(nil, e.symbol, now, &change))
	return true
}

// stateEncoder makes the events of streams of the present state: the best levels, and the tickers.
type stateEncoder struct{ paced }

// Join implements fanout.Encoder: all readers get the present state again.
func (e *stateEncoder) Join(t *topic, _ *reader, _ *market.Market) { e.changed(t) }

// Change implements fanout.Encoder.
func (e *stateEncoder) Change(t *topic, c *market.Change) (flush bool) {
	switch {
	case e.kind == partialStream && len(c.Bids)+len(c.Asks) == 0:
	case e.kind == miniTickerStream && len(c.Trades) == 0:
	default:
		e.changed(t)
	}
	return false
}

// Tick implements fanout.Encoder.
func (e *stateEncoder) Tick(t *topic, m *market.Market) (queued bool) {
	now := time.Now()
	if !e.ready(now) {
		return false
	}
	if e.kind == partialStream {
		e.send(t, appendDepth(nil, m, e.levels))
	} else {
		e.send(t, appendTickerEvent(nil, e.kind, m, now))
	}
	return true
}

// klineEncoder makes the events of kline: the newest candle.
type klineEncoder struct {
	paced
	candle fanout.Candle // empty before the first event
}

// Join implements fanout.Encoder: all readers get the newest candle again.
func (e *klineEncoder) Join(t *topic, _ *reader, _ *market.Market) { e.changed(t) }

// Change implements fanout.Encoder.
func (e *klineEncoder) Change(t *topic, c *market.Change) (flush bool) {
	if len(c.Trades) == 0 {
		return false
	}
	next := c.Market.Candle(e.interval)
	if e.candle.Follows(&next) {
		e.send(t, appendKlineEvent(nil, e.symbol, &e.candle.Candle, e.interval, true))
		flush = true
	}
	e.candle.Set(next)
	e.changed(t)
	return flush
}

// Tick implements fanout.Encoder.
func (e *klineEncoder) Tick(t *topic, m *market.Market) (queued bool) {
	now := time.Now()
	if e.candle.Trades == 0 {
		e.candle.Set(m.Candle(e.interval))
	}
	closes := e.candle.TryClose(now)
	if e.dirty = e.dirty || closes; e.ready(now) && e.candle.Trades > 0 {
		e.send(t, appendKlineEvent(nil, e.symbol, &e.candle.Candle, e.interval, e.candle.Closed))
		queued = true
	}
	if e.candle.IsOpen() {
		// ClosesAt is a time of the wall clock, which may be set; the pace and timers follow the monotonic clock.
		t.WakeAt(e.pace.Next(now.Add(e.candle.ClosesAt().Sub(now))))
	}
	return queued
}
