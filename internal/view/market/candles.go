package market

import (
	"slices"

	"outcry/internal/exchange"
)

// Bounds of the candles in memory. For each interval, a symbol has a ring that grows while the symbol trades, from
// candlesMin to candlesMost candles of 144 bytes. All rings together have up to candleSlotsMax places, 38 MB.
// Beyond that, each ring still grows to its minimum, which has room for the candles that the database may not have
// yet in normal operation and, for hours, for those that Window needs.
const (
	candlesMin     = 2
	candlesMost    = 1024
	windowHours    = 25
	hoursMin       = 32
	candleSlotsMax = 1 << 18
)

// candles holds the candles of a symbol. A nil *candles is empty.
//
// A trade is counted in one candle, not in five: only in the candle of its second. When the second is over, its candle
// is added to that of the minute; when the minute is over, that one is added to the candle of five minutes, and so on.
// This works because each candle lies wholly within one of the next longer interval. So an open candle consists of its
// own part and the newer parts of all shorter intervals.
type candles struct {
	parts [exchange.Intervals]endedCandle
	rings [exchange.Intervals]candleRing
}

// endedCandle is a candle and, once it is over, the symbol's last record that may have changed it.
type endedCandle struct {
	exchange.Candle
	seq uint64
}

// candle counts the newest trade in the symbol's candles. slots counts the places of all rings.
func (s *symbol) candle(t *exchange.Trade, slots *int) {
	if s.candles == nil {
		s.candles = new(candles)
	}
	s.candles.add(t, s.tape.last, s.seq, slots)
}

// add counts trade number n. seq is the symbol's previous record.
func (c *candles) add(t *exchange.Trade, n, seq uint64, slots *int) {
	now := &c.parts[exchange.Candle1s]
	start := now.Start
	switch {
	case now.Trades == 0:
		start = exchange.Candle1s.StartOf(t.Time)
	case t.Time-start >= exchange.Second:
		start = exchange.Candle1s.StartAfter(start, t.Time)
		now.seq = seq
		c.end(exchange.Candle1s, slots)
	}
	now.Start = start
	now.Add(t, n)
}

// end closes the open candle of an interval. Its part must already include the shorter intervals.
func (c *candles) end(i exchange.Interval, slots *int) {
	ended := &c.parts[i]
	c.rings[i].add(ended, i, slots)
	if longer := i + 1; longer < exchange.Intervals {
		part, start := &c.parts[longer], longer.StartOf(ended.Start)
		if part.Trades > 0 && part.Start != start {
			c.end(longer, slots)
		}
		if part.Trades == 0 {
			*part = *ended
			part.Start = start
		} else {
			part.Join(&ended.Candle)
			part.seq = ended.seq
		}
	}
	*ended = endedCandle{}
}

// open appends the candles of an interval that are not in its ring, oldest first: the open one, and older ones that
// are over but not closed yet, because closing happens only when a later second is over.
func (c *candles) open(dst []exchange.Candle, i exchange.Interval) []exchange.Candle {
	first := len(dst)
	for j := int(i); j >= 0; j-- {
		part := c.parts[j].Candle
		if part.Trades == 0 {
			continue
		}
		part.Start = i.StartOf(part.Start)
		if n := len(dst); n > first && dst[n-1].Start == part.Start {
			dst[n-1].Join(&part)
		} else {
			dst = append(dst, part)
		}
	}
	return dst
}

// newest returns the newest candle of an interval, empty if there is none.
func (c *candles) newest(i exchange.Interval) exchange.Candle {
	if c == nil {
		return exchange.Candle{}
	}
	var room [exchange.Intervals]exchange.Candle
	open := c.open(room[:0], i)
	if len(open) == 0 {
		return exchange.Candle{}
	}
	return open[len(open)-1]
}

// all returns the candles of an interval that are in memory, oldest first.
func (c *candles) all(i exchange.Interval) []exchange.Candle {
	if c == nil {
		return nil
	}
	r := &c.rings[i]
	all := make([]exchange.Candle, 0, r.n+int(exchange.Intervals))
	for n := range r.n {
		all = append(all, r.at(n).Candle)
	}
	return c.open(all, i)
}

// after returns up to most of the newest candles of an interval that include trades after a trade id, oldest first.
func (c *candles) after(i exchange.Interval, trade uint64, most int) []exchange.Candle {
	if c == nil {
		return nil
	}
	r := &c.rings[i]
	first := r.n
	for first > max(0, r.n-most) && r.at(first-1).Last() > trade {
		first--
	}
	var all []exchange.Candle
	for ; first < r.n; first++ {
		all = append(all, r.at(first).Candle)
	}
	all = slices.DeleteFunc(c.open(all, i), func(c exchange.Candle) bool { return c.Last() <= trade })
	return all[len(all)-min(len(all), most):]
}

// since returns the sum of the candles of an interval that begin at from or later.
func (c *candles) since(i exchange.Interval, from int64) (sum exchange.Candle) {
	if c == nil {
		return sum
	}
	r := &c.rings[i]
	first := r.n
	for first > 0 && r.at(first-1).Start >= from {
		first--
	}
	var room [exchange.Intervals]exchange.Candle
	open := c.open(room[:0], i)
	for n := first; n < r.n+len(open); n++ {
		var next *exchange.Candle
		if n < r.n {
			next = &r.at(n).Candle
		} else {
			next = &open[n-r.n]
		}
		switch {
		case next.Start < from:
		case sum.Trades == 0:
			sum = *next
		default:
			sum.Join(next)
		}
	}
	return sum
}

// candleRing is the newest closed candles of an interval.
type candleRing struct {
	ring    []endedCandle
	from, n int    // ring[from] is the oldest; n is the number of candles
	dropped uint64 // last record that may have changed a candle that is no longer in the ring
}

// at returns candle n of the ring, counted from the oldest, which is number 0.
func (r *candleRing) at(n int) *endedCandle { return &r.ring[(r.from+n)%len(r.ring)] }

// add adds the newest candle. slots counts the places of all rings.
func (r *candleRing) add(c *endedCandle, i exchange.Interval, slots *int) {
	if size := len(r.ring); r.n == size {
		least := candlesMin
		if i == exchange.Candle1h {
			least = hoursMin
		}
		if size < least || size < candlesMost && *slots+size <= candleSlotsMax {
			r.grow(max(candlesMin, 2*size), slots)
		} else {
			r.dropped = r.at(0).seq
			r.from = (r.from + 1) % size
			r.n--
		}
	}
	r.n++
	*r.at(r.n - 1) = *c
}

// grow enlarges the ring to size candles.
func (r *candleRing) grow(size int, slots *int) {
	*slots += size - len(r.ring)
	larger := make([]endedCandle, size)
	for n := range r.n {
		larger[n] = *r.at(n)
	}
	r.ring, r.from = larger, 0
}
