package jsonrpc

import (
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

func (r *reader) openTrades() (stop func(), err error) {
	return r.join(func() encoder { return &tradesEncoder{channel: r.channel.name} })
}

// tradesEncoder makes the messages of trades.
type tradesEncoder struct {
	noops
	channel string
}

// Join implements fanout.Encoder.
func (s *tradesEncoder) Join(_ *topic, r *reader, m *market.Market) {
	seq, last := m.Seq(), m.LastTrade()
	if !r.conn.socket.Advance(&r.progress, last) {
		return
	}
	r.giving = parts{encode: func(b []byte, _ *cut, _ bool) []byte {
		b = jsontext.Number(beginEvent(b, s.channel, kindSnapshot), "seq", seq)
		return endEvent(jsontext.Number(b, "last_trade", last))
	}}
}

// Change implements fanout.Encoder.
func (s *tradesEncoder) Change(t *topic, c *market.Change) bool {
	if len(c.Trades) == 0 {
		return false
	}
	frames := framesOf(parts{entries: len(c.Trades), encode: func(b []byte, cut *cut, more bool) []byte {
		from, to := cut.of(len(c.Trades))
		b = jsontext.Number(beginEvent(b, s.channel, kindDelta), "seq", c.Seq)
		b = append(jsontext.Name(b, "trades"), '[')
		for i := from; i < to; i++ {
			b = appendTrade(jsontext.Next(b), c.FirstTrade+uint64(i), &c.Trades[i])
		}
		return endEvent(memberMore(append(b, ']'), more))
	}})
	for _, r := range t.Readers() {
		r.push(frames, c.FirstTrade+uint64(len(c.Trades))-1)
	}
	return true
}

// newest holds the messages that wait for a reader of a ticker or candles: a newer message replaces an older one.
type newest struct {
	closed, now text // messages with the newest closed candle and the present state; nil if the reader has it
}

// text is a message that all readers share.
type text []byte

// sendNewest queues a message for all readers. It replaces an older one that still waits.
func sendNewest(t *topic, now text) {
	for _, r := range t.Readers() {
		r.newest.now = now
		r.slot.Set()
	}
}

// gatherNewest sets the messages of a reader to the newest ones, which wait for it.
func gatherNewest(t *topic, r *reader) {
	t.Locked(func() { r.giving, r.newest = r.newest.parts(), newest{} })
}

// parts returns the messages.
func (n newest) parts() parts {
	first, second := n.closed, n.now
	if first == nil {
		first, second = second, nil
	}
	if first == nil {
		return parts{}
	}
	p := parts{entries: 1}
	if second != nil {
		p.entries = entriesMax + 1 // two messages
	}
	p.encode = func(b []byte, _ *cut, more bool) []byte {
		if p.entries == 1 || more {
			return append(b, first...)
		}
		return append(b, second...)
	}
	return p
}

func (r *reader) openTicker() (stop func(), err error) {
	return r.join(func() encoder { return &tickerEncoder{paced: newPaced(), channel: r.channel.name} })
}

// tickerEncoder makes the messages of a ticker.
type tickerEncoder struct {
	paced
	channel   string
	now, sent ticks // the present ticker, and the last one sent
	seq       uint64
}

// ticks is the content of a ticker.
type ticks struct {
	bid, ask market.Level // without shares if the side is empty
	traded   exchange.Traded
}

// ticksOf returns the ticker of a market.
func ticksOf(m *market.Market) (t ticks) {
	t.bid, _ = m.Best(exchange.Buy)
	t.ask, _ = m.Best(exchange.Sell)
	t.traded = m.Traded()
	return t
}

// Begin implements fanout.Encoder.
func (s *tickerEncoder) Begin(_ *topic, m *market.Market) {
	s.now, s.seq = ticksOf(m), m.Seq()
	s.sent = s.now
}

// Join implements fanout.Encoder.
func (s *tickerEncoder) Join(t *topic, r *reader, _ *market.Market) {
	r.gather = func() { gatherNewest(t, r) }
	r.giving = newest{now: s.message()}.parts()
}

// Change implements fanout.Encoder.
func (s *tickerEncoder) Change(_ *topic, c *market.Change) bool {
	s.now, s.seq = ticksOf(c.Market), c.Seq
	return true
}

// Flush implements fanout.Encoder.
func (s *tickerEncoder) Flush(t *topic, _ *market.Market) bool {
	if !s.may(t) {
		return false
	}
	if s.now != s.sent {
		s.sent = s.now
		sendNewest(t, s.message())
	}
	return true
}

// Tick implements fanout.Encoder.
func (s *tickerEncoder) Tick(t *topic, m *market.Market) bool { return s.Flush(t, m) }

// message returns the message with the present ticker.
func (s *tickerEncoder) message() text {
	b := jsontext.Number(beginEvent(nil, s.channel, kindSnapshot), "seq", s.seq)
	t := &s.now.traded
	if t.Trades > 0 {
		b = jsontext.Decimal(b, "last", t.Last)
	}
	if l := s.now.bid; l.Shares.Sign() > 0 {
		b = jsontext.Decimal(jsontext.Decimal(b, "bid", l.Price), "bid_shares", l.Shares)
	}
	if l := s.now.ask; l.Shares.Sign() > 0 {
		b = jsontext.Decimal(jsontext.Decimal(b, "ask", l.Price), "ask_shares", l.Shares)
	}
	b = jsontext.Decimal(jsontext.Decimal(b, "shares", t.Shares), "notional", t.Notional)
	return endEvent(memberTime(jsontext.Number(b, "trades", t.Trades), "time", t.Time))
}
