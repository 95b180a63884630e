package jsonrpc

import (
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

func (r *reader) openTrades() (stop func(), err error) {
	return r.conn.door.hub.open(r, func() teller { return &tradesTeller{r.channel.name} })
}

// tradesTeller makes the messages of trades.
type tradesTeller struct{ channel string }

// begin implements teller.
func (*tradesTeller) begin(*topic, *market.Market) {}

// close implements teller.
func (*tradesTeller) close() {}

// flush implements teller.
func (*tradesTeller) flush(*topic) bool { return true }

// join implements teller.
func (s *tradesTeller) join(_ *topic, r *reader, m *market.Market) parts {
	seq, last := m.Seq(), m.LastTrade()
	if !r.conn.socket.Advance(&r.progress, last) {
		return parts{}
	}
	return parts{encode: func(b []byte, _ *cut, _ bool) []byte {
		b = memberNumber(beginEvent(b, s.channel, kindSnapshot), "seq", seq)
		return endEvent(memberNumber(b, "last_trade", last))
	}}
}

// change implements teller.
func (s *tradesTeller) change(t *topic, c *market.Change) bool {
	if len(c.Trades) == 0 {
		return false
	}
	frames := framesOf(parts{entries: len(c.Trades), encode: func(b []byte, cut *cut, more bool) []byte {
		from, to := cut.of(len(c.Trades))
		b = memberNumber(beginEvent(b, s.channel, kindDelta), "seq", c.Seq)
		b = list(b, "trades", to-from, func(b []byte, i int) []byte {
			return appendTrade(b, c.FirstTrade+uint64(from+i), &c.Trades[from+i])
		})
		return endEvent(memberMore(b, more))
	}})
	for _, r := range t.readers {
		r.push(frames, c.FirstTrade+uint64(len(c.Trades))-1)
	}
	return true
}

// newest are the messages of a channel of which a reader gets the newest: it is sent those that it has not been sent
// when its turn comes.
type newest struct {
	closed, now text // of a candle that is closed, and of what is now; nil if the reader has it
}

// text is a message that is made once for all readers.
type text []byte

// tellNewest has all readers sent a message, in place of an older one.
func tellNewest(t *topic, now text) {
	for _, r := range t.readers {
		r.newest.now = now
		r.slot.Set()
	}
}

// gatherNewest has a reader given its newest messages.
func gatherNewest(t *topic, r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.giving = r.newest.parts()
	r.newest = newest{}
}

// parts returns the messages, none if there is none.
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
	return r.conn.door.hub.open(r, func() teller { return &tickerTeller{channel: r.channel.name} })
}

// tickerTeller makes the messages of a ticker.
type tickerTeller struct {
	pacer
	channel   string
	now, told ticks // as it is, and as it was told
	seq       uint64
}

// ticks is what a ticker tells.
type ticks struct {
	bid, ask market.Level // without shares: there is none
	traded   exchange.Traded
}

// ticksOf returns what a ticker tells of a market.
func ticksOf(m *market.Market) (t ticks) {
	t.bid, _ = m.Best(exchange.Buy)
	t.ask, _ = m.Best(exchange.Sell)
	t.traded = m.Traded()
	return t
}

// begin implements teller.
func (s *tickerTeller) begin(_ *topic, m *market.Market) {
	s.now, s.seq = ticksOf(m), m.Seq()
	s.told = s.now
}

// join implements teller.
func (s *tickerTeller) join(t *topic, r *reader, _ *market.Market) parts {
	r.gather = func() { gatherNewest(t, r) }
	return newest{now: s.message()}.parts()
}

// change implements teller.
func (s *tickerTeller) change(_ *topic, c *market.Change) bool {
	s.now, s.seq = ticksOf(c.Market), c.Seq
	return true
}

// flush implements teller.
func (s *tickerTeller) flush(t *topic) bool {
	return s.tell(t, func() {
		if s.now != s.told {
			s.told = s.now
			tellNewest(t, s.message())
		}
	})
}

// close implements teller.
func (s *tickerTeller) close() { s.stop() }

// message makes the message.
func (s *tickerTeller) message() text {
	b := memberNumber(beginEvent(nil, s.channel, kindSnapshot), "seq", s.seq)
	t := &s.now.traded
	if t.Trades > 0 {
		b = memberDecimal(b, "last", t.Last)
	}
	if l := s.now.bid; l.Shares.Sign() > 0 {
		b = memberDecimal(memberDecimal(b, "bid", l.Price), "bid_shares", l.Shares)
	}
	if l := s.now.ask; l.Shares.Sign() > 0 {
		b = memberDecimal(memberDecimal(b, "ask", l.Price), "ask_shares", l.Shares)
	}
	b = memberDecimal(memberDecimal(b, "shares", t.Shares), "notional", t.Notional)
	return endEvent(memberTime(memberNumber(b, "trades", t.Trades), "time", t.Time))
}
