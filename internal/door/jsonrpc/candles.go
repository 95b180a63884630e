package jsonrpc

import (
	"strconv"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// candleGrace is how long after its end a candle is closed at which nothing happened since: a trade of its last
// moment may not be told yet.
const candleGrace = time.Second

func (r *reader) openCandles() (stop func(), err error) {
	return r.conn.door.hub.open(r, func() teller {
		return &candlesTeller{channel: r.channel.name, interval: r.channel.interval}
	})
}

// candlesTeller makes the messages of candles of an interval.
type candlesTeller struct {
	channel  string
	interval exchange.Interval
	candle   exchange.Candle // the newest; empty before the first trade
	seq      uint64
	closed   bool
	timer    *time.Timer // closes it; nil if it is closed, or there is none
	over     bool
}

// begin implements teller.
func (s *candlesTeller) begin(t *topic, m *market.Market) {
	s.candle, s.seq = m.Candle(s.interval), m.Seq()
	s.open(t)
}

// join implements teller.
func (s *candlesTeller) join(t *topic, r *reader, _ *market.Market) parts {
	r.gather = func() { gatherNewest(t, r) }
	return newest{now: s.message()}.parts()
}

// change implements teller.
func (s *candlesTeller) change(t *topic, c *market.Change) bool {
	if len(c.Trades) == 0 {
		return false
	}
	next := c.Market.Candle(s.interval)
	if next.Start != s.candle.Start {
		s.stopTimer()
		s.tellClosed(t)
	}
	s.candle, s.seq = next, c.Seq
	s.open(t)
	return true
}

// flush implements teller.
func (s *candlesTeller) flush(t *topic) bool {
	tellNewest(t, s.message())
	return true
}

// open has the candle closed when its time is over, which it may be.
func (s *candlesTeller) open(t *topic) {
	s.closed = s.candle.Trades == 0
	if s.timer != nil || s.closed {
		return
	}
	end := time.Unix(0, s.candle.Start+s.interval.Length()).Add(candleGrace)
	left := time.Until(end)
	if left <= 0 {
		s.closed = true
		return
	}
	start := s.candle.Start
	s.timer = time.AfterFunc(left, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if s.over || s.candle.Start != start {
			return
		}
		s.timer = nil
		s.tellClosed(t)
		t.send()
	})
}

// tellClosed closes the candle, if there is one that is open.
func (s *candlesTeller) tellClosed(t *topic) {
	if s.closed || s.candle.Trades == 0 {
		return
	}
	s.closed = true
	message := s.message()
	for _, r := range t.readers {
		r.newest = newest{closed: message}
		r.slot.Set()
	}
}

// close implements teller.
func (s *candlesTeller) close() {
	s.over = true
	s.stopTimer()
}

// stopTimer says that the candle is not to be closed by it.
func (s *candlesTeller) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// message makes the message.
func (s *candlesTeller) message() text {
	c := &s.candle
	b := memberNumber(beginEvent(nil, s.channel, kindSnapshot), "seq", s.seq)
	if c.Trades > 0 {
		b = strconv.AppendInt(appendName(b, "start_ms"), c.Start/millisecond, 10)
		b = memberDecimal(memberDecimal(b, "open", c.Open), "high", c.High)
		b = memberDecimal(memberDecimal(b, "low", c.Low), "close", c.Close)
		b = memberDecimal(memberDecimal(b, "shares", c.Shares), "notional", c.Notional)
		b = memberNumber(b, "trades", c.Trades)
	}
	return endEvent(memberBool(b, "closed", s.closed && c.Trades > 0))
}
