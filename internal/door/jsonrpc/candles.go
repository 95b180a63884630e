package jsonrpc

import (
	"time"

	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

func (r *reader) openCandles() (stop func(), err error) {
	return r.join(func() encoder {
		return &candlesEncoder{channel: r.channel.name, candle: fanout.Candle{Interval: r.channel.interval}}
	})
}

// candlesEncoder makes the messages about candles of one interval.
type candlesEncoder struct {
	channel string
	candle  fanout.Candle
	seq     uint64
}

// Begin implements fanout.Encoder.
func (s *candlesEncoder) Begin(t *topic, m *market.Market) {
	s.set(t, m.Candle(s.candle.Interval), m.Seq())
}

// Join implements fanout.Encoder.
func (s *candlesEncoder) Join(t *topic, r *reader, _ *market.Market) {
	r.gather = func() { gatherNewest(t, r) }
	r.giving = newest{now: s.message()}.parts()
}

// Change implements fanout.Encoder.
func (s *candlesEncoder) Change(t *topic, c *market.Change) bool {
	if len(c.Trades) == 0 {
		return false
	}
	next := c.Market.Candle(s.candle.Interval)
	if s.candle.Follows(&next) {
		s.candle.Closed = true
		s.sendClosed(t)
	}
	s.set(t, next, c.Seq)
	return true
}

// Flush implements fanout.Encoder.
func (s *candlesEncoder) Flush(t *topic, _ *market.Market) bool {
	sendNewest(t, s.message())
	return true
}

// Tick implements fanout.Encoder.
func (s *candlesEncoder) Tick(t *topic, _ *market.Market) bool {
	if !s.candle.IsOpen() {
		return false
	}
	if !s.candle.TryClose(time.Now()) {
		t.WakeAt(s.candle.ClosesAt()) // a later candle has replaced the one that was due to close
		return false
	}
	s.sendClosed(t)
	return true
}

// set sets the newest candle. It closes the candle if its time is over, otherwise schedules that.
func (s *candlesEncoder) set(t *topic, c exchange.Candle, seq uint64) {
	s.candle.Set(c)
	s.seq = seq
	if !s.candle.TryClose(time.Now()) && s.candle.IsOpen() {
		t.WakeAt(s.candle.ClosesAt())
	}
}

// sendClosed notifies all readers that the candle is closed.
func (s *candlesEncoder) sendClosed(t *topic) {
	message := s.message()
	for _, r := range t.Readers() {
		r.newest = newest{closed: message}
		r.slot.Set()
	}
}

// message returns the message with the newest candle.
func (s *candlesEncoder) message() text {
	c := &s.candle
	b := jsontext.Number(beginEvent(nil, s.channel, kindSnapshot), "seq", s.seq)
	if c.Trades > 0 {
		b = jsontext.Number(b, "start_ms", c.Start/millisecond)
		b = jsontext.Decimal(jsontext.Decimal(b, "open", c.Open), "high", c.High)
		b = jsontext.Decimal(jsontext.Decimal(b, "low", c.Low), "close", c.Close)
		b = jsontext.Decimal(jsontext.Decimal(b, "shares", c.Shares), "notional", c.Notional)
		b = jsontext.Number(b, "trades", c.Trades)
	}
	return endEvent(jsontext.Bool(b, "closed", c.Closed))
}
